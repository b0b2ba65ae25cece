"""Which columns of a table are features, and what each of them holds.

The rules are in one function, :func:`feature_columns`. It also returns why other columns are left
out.
"""

import re
import textwrap
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from pandas.api import types as dtypes

from kem_pymc._system.display import some
from kem_pymc._system.options import check_choice
from kem_pymc.data import cells
from kem_pymc.data.cells import Cells, Scope
from kem_pymc.data.validation import is_text
from kem_pymc.errors import InputError, Problems

#: Usual names of columns of row numbers or ids; the values are checked as well.
ROW_NAMES = re.compile(
    r"(?i)(row|line|record|obs|observation|case|subject|patient|participant|person|user)?"
    r"[ _.-]*(names?|numbers?|num|nr|no|ids?|index|idx)?"
)

#: Names of columns of ids, whose values may be repeated where no column has the role of the user.
IDS = re.compile(r"(?i)(subject|patient|participant|person|user)?[ _.-]*ids?|subject|patient")

#: Names that pandas and R give to a column without one, such as row numbers from `to_csv`.
NAMELESS = re.compile(r"Unnamed: \d+|\.\.\.\d+")

#: Text with more different values than this isn't a feature by default.
MOST_LEVELS = 20

#: Numbers of different values with which a column of whole numbers may be codes of groups.
FEW_CODES = range(3, 7)

#: A column with a larger fraction of missing values isn't a feature by default.
MOSTLY = 0.5

#: Largest number of characters of a list of column names in an error message.
LISTED = 500

#: Largest number of columns that are named with the reason why they aren't features.
NAMED = 10

#: Reason why a column that never changes isn't a feature, and its description if it is one.
SAME, CONSTANT = "the same in every row", "the same throughout each user's rows"


type Kind = Literal["time", "numbers", "categories"]


@dataclass(frozen=True)
class Column:
    """A column that is a feature.

    Attributes
    ----------
    name : column name
    kind : {"time", "numbers", "categories"}
    constant : bool
        Whether the value is the same in all rows of every user.
    levels : tuple of str
        Names of the categories, in the order of their codes; empty for numbers and times.
    """

    name: Hashable
    kind: Kind
    constant: bool = False
    levels: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}{f', {CONSTANT}' if self.constant else ''})"


@dataclass(frozen=True)
class Columns:
    """The roles of a table's columns: user, time, target, features, known noise, size, or none.

    Attributes
    ----------
    user, time, target : column names
    features : tuple of Column
        Features, in the order of the columns of the inputs.
    scope : {"pilot", "population", "new"}
        Whether the users belong to a pilot study, are described together, or are new users.
    left_out : tuple of (column name, str)
        Columns that are neither user, time, target nor feature, each with the reason why it isn't
        a feature. Empty if the features were named.
    codes : tuple of (column name, int)
        Features that were chosen as numbers but may be codes of groups: whole numbers with few
        different values, and how many of them. Empty if the features were named.
    time_kind : {"numbers", "dates", "durations"}
        What the time has; another kind if it can't be the time.
    date_format : str or None
        Format of dates in the time, if they aren't written as in ISO 8601.
    noise, size : column names or None
        Known standard deviations of the targets' own noise; exposures or numbers of trials.
    """

    user: Hashable
    time: Hashable
    target: Hashable
    features: tuple[Column, ...]
    scope: Scope = "pilot"
    left_out: tuple[tuple[Hashable, str], ...] = ()
    codes: tuple[tuple[Hashable, int], ...] = ()
    time_kind: cells.Kind = "numbers"
    date_format: str | None = None
    noise: Hashable | None = None
    size: Hashable | None = None

    @property
    def names(self) -> tuple[Hashable, ...]:
        """Names of the features."""
        return tuple(column.name for column in self.features)

    @property
    def used(self) -> tuple[Hashable, ...]:
        """Names of all columns with a role, each once."""
        return tuple(
            dict.fromkeys((self.user, self.time, self.target, *self.names, *self.given.values()))
        )

    @property
    def given(self) -> dict[str, Hashable]:
        """Columns of what is known of every row, by the argument of a cohort."""
        columns = {"noise": self.noise, "sizes": self.size}
        return {name: column for name, column in columns.items() if column is not None}

    @property
    def roles(self) -> dict[Hashable, cells.Role]:
        """What the cells of each column with a role are."""
        roles: dict[Hashable, cells.Role] = dict.fromkeys(self.used, "number")
        return roles | {self.user: "user"} | dict.fromkeys(self.levels, "category")

    @property
    def levels(self) -> dict[Hashable, tuple[str, ...]]:
        """Names of the categories, by feature; features without categories are not included."""
        return {column.name: column.levels for column in self.features if column.levels}

    def __str__(self) -> str:
        return ", ".join(map(str, self.features))


def feature_columns(
    df: pd.DataFrame,
    *,
    user: Hashable,
    time: Hashable,
    target: Hashable,
    features: Sequence[Hashable] | None = None,
    categorical: Sequence[Hashable] | Mapping[Any, Sequence[str]] | None = None,
    scope: Scope = "pilot",
    date_format: str | None = None,
    noise: Hashable | None = None,
    size: Hashable | None = None,
) -> Columns:
    """Choose the columns of a table that are features, and determine the kind of each.

    By default the features are the time, then all other columns of numbers or categories. Left out
    are row numbers and ids, dates, also as numbers like 20240301, columns without a name, columns
    with more than half of their values missing, text with more than 20 different values or with a
    different value for every user, and columns with the same value in every row. Text, booleans and
    pandas' categoricals are categories.

    Parameters
    ----------
    df : DataFrame
    user, time, target : column names
    features : sequence of column names, optional
        Exactly the columns to use as features.
    categorical : sequence of column names, or mapping of these to names of levels, optional
        Further columns to treat as categories, for instance columns of numbers. With a mapping,
        exactly its keys are categories, with the levels given. Text in other columns then counts
        as numbers, which :meth:`kem_pymc.Cohort.from_frame` refuses.
    scope : {"pilot", "population", "new"}
        With "new", columns aren't left out for having the same value in every row.
    date_format : str, optional
        As for :meth:`kem_pymc.Cohort.from_frame`.
    noise, size : column names, optional
        As for :meth:`kem_pymc.Cohort.from_frame`; they aren't features.

    Returns
    -------
    Columns

    Raises
    ------
    InputError
        If a column is missing or has two roles, a category isn't a feature, or a column of numbers
        has a cell that isn't a number.
    """
    check_choice(get_args(Scope.__value__), scope=scope)
    if not isinstance(date_format, str | None):
        raise InputError(
            f"{{date_format}} is a {type(date_format).__name__}. Give text, such as %d.%m.%Y.",
            date_format=...,
        )
    named = None if features is None else names_of(features, "features")
    groups = () if categorical is None else names_of(categorical, "categorical")
    given = {name: c for name, c in {"noise": noise, "size": size}.items() if c is not None}
    _check_roles(df, {"user": user, "time": time, "target": target} | given, named, groups)
    if isinstance(categorical, Mapping):
        check_levels(categorical, "categorical")
    held = {name: Cells(df[name]) for name in df.columns}
    users, problems, pilot = held[user].names, Problems(), scope != "new"
    reasons: dict[Hashable, str | None] = {}
    if named is None:
        for name in df.columns:
            if name in {user, time, target, *given.values()}:
                continue
            with problems:
                reasons[name] = None if name in groups else _why_not(held[name], users, pilot)
        problems.check()
        named = tuple(name for name, reason in reasons.items() if reason is None)
        if named and pilot and held[time].comparable.nunique() < 2:
            reasons[time] = SAME
        else:
            named = (time, *named)
    chosen: list[Column] = []
    for name in named:
        levels: tuple[str, ...] = ()
        if isinstance(categorical, Mapping):
            levels = tuple(categorical.get(name, ()))
        elif name in groups or (name != time and held[name].kind == "categories"):
            with problems:
                levels = held[name].levels()
        kind: Kind = "time" if name == time else "categories" if levels else "numbers"
        chosen.append(Column(name, kind, held[name].constant_within(users), levels))
    problems.check()
    left_out = tuple((name, reason) for name, reason in reasons.items() if reason is not None)
    codes: tuple[tuple[Hashable, int], ...] = ()
    if features is None:
        counts = [(c.name, _codes(held[c.name])) for c in chosen if c.kind == "numbers"]
        codes = tuple((name, count) for name, count in counts if count)
    of_time = held[time].kind
    if date_format not in (None, cells.NUMBERS) and of_time != "durations":
        of_time = "dates"
    chosen_columns = tuple(chosen), scope, left_out, codes, of_time, date_format
    return Columns(user, time, target, *chosen_columns, noise, size)


def input_columns(
    df: pd.DataFrame,
    target: Hashable,
    features: Sequence[Hashable] | None = None,
    date_format: str | None = None,
) -> tuple[tuple[Hashable, ...], tuple[tuple[Hashable, str], ...]]:
    """Choose the inputs of a table without users, by the rules of :func:`feature_columns`.

    By default they are all columns of numbers, truth values or dates, but for row numbers and ids,
    columns without a name, columns with more than half of their values missing, and columns with
    the same value in every row.

    Parameters
    ----------
    df : DataFrame
    target : column name
    features : sequence of column names, optional
        Exactly the columns to use.
    date_format : str, optional
        As for :meth:`kem_pymc.Cohort.from_frame`.

    Returns
    -------
    inputs : tuple of column names
    left_out : tuple of (column name, str)
        The other columns, each with the reason. Empty if the inputs were named.

    Raises
    ------
    InputError
        If a column is missing, the target is an input, or no input is left.
    """
    _check_table(df)
    features = None if features is None else names_of(features, "features")
    for name in (*names_of([target], "target"), *(features or ())):
        if name not in df:
            raise InputError(f"The table has no column {name!r}. Choose one of {_listed(df)}.")
    if features is not None:
        if target in features:
            raise InputError(
                f"{target!r} is the target. Remove it from {{features}}.", features=...
            )
        return tuple(dict.fromkeys(features)), ()
    reasons, problems = dict[Hashable, str | None](), Problems()
    for name in df.columns:
        if name in {target}:
            continue
        column = Cells(df[name])
        with problems:
            reasons[name] = None
            if not column.dated(date_format):
                reasons[name] = _why_not(column, None, pilot=True)
    problems.check()
    inputs = tuple(name for name, reason in reasons.items() if reason is None)
    left_out = tuple((name, reason) for name, reason in reasons.items() if reason is not None)
    if not inputs:
        others = some([f"{name} ({reason})" for name, reason in left_out], NAMED)
        raise InputError(
            f"The table has no column of numbers beside {target!r} that may be an input"
            f"{f': {others}' if others else ''}. Add one, or name inputs with {{features}}.",
            features=...,
        )
    return inputs, left_out


def names_of(columns: Any, argument: str) -> tuple[Hashable, ...]:
    """Return the column names given by an argument: a single name, or several.

    Raises
    ------
    InputError
        If `columns` isn't iterable, or holds something that can't be a column's name.
    """
    if isinstance(columns, str):
        return (columns,)
    names = tuple(columns) if dtypes.is_list_like(columns) else None
    if names is None or not all(map(_may_name, names)):
        raise InputError(
            f"{{{argument}}} is a {type(columns).__name__} that isn't a list of column names. "
            "Give a list of names.",
            **{argument: ...},
        )
    return names


def _check_roles(
    df: pd.DataFrame,
    roles: Mapping[str, Hashable],
    features: Sequence[Hashable] | None,
    categorical: Sequence[Hashable],
) -> None:
    """Check that a table has rows and the named columns, and that each of them has one role."""
    _check_table(df)
    for name, column in roles.items():
        if not _may_name(column):
            raise InputError(
                f"{{{name}}} is a {type(column).__name__}, not a column name. "
                "Give one column name.",
                **{name: ...},
            )
    for column in (*roles.values(), *(features or ()), *categorical):
        if column not in df.columns:
            raise InputError(f"The table has no column {column!r}. Choose one of {_listed(df)}.")
    if len({*roles.values()}) < len(roles):
        raise InputError(
            f"{', '.join(roles).capitalize()} are columns {[*roles.values()]}. Choose different "
            "columns."
        )
    if df.empty:
        raise InputError("The table has no rows. Give at least one row per user.")
    if features is not None:
        distinct = set(features)
        others = {column for name, column in roles.items() if name != "time"}
        if not features or len(distinct) < len(features) or others & distinct:
            raise InputError(
                f"The features {list(features)} are empty, repeated, or include the column of the "
                f"{', '.join(name for name in roles if name != 'time')}. Give each input column "
                "once."
            )
    for column in categorical:
        if column in roles.values() or (features is not None and column not in features):
            raise InputError(
                f"Column {column!r} is given as categorical, but isn't a feature. "
                "Add it to the features, or remove it from the categorical columns."
            )


def _check_table(df: pd.DataFrame) -> None:
    """Check that a table is a DataFrame whose columns have one name each."""
    if not isinstance(df, pd.DataFrame):
        raise InputError(f"The table is a {type(df).__name__}. Give a pandas DataFrame.")
    odd = [type(name).__name__ for name in df.columns if not _may_name(name)]
    if odd:
        raise InputError(
            f"The table has a column whose name is a {odd[0]}. Give every column one name, as "
            "text: those of several levels, for example, by df.columns.map('_'.join)."
        )
    if not df.columns.is_unique:
        twice = df.columns[df.columns.duplicated()][0]
        raise InputError(f"The table has two columns {twice!r}. Rename or drop one of them.")


def _may_name(name: Any) -> bool:
    """Return whether it can name a column: it is hashable, and can be compared with other names."""
    return dtypes.is_scalar(name) and name is not pd.NA and dtypes.is_hashable(name)


def check_levels(given: Mapping[Any, Any], argument: str) -> None:
    """Check that the levels of categories, by feature, are distinct text.

    Raises
    ------
    InputError
        If they aren't.
    """
    if not isinstance(given, Mapping):
        raise InputError(
            f"{{{argument}}} is a {type(given).__name__}. Give a mapping of features to levels.",
            **{argument: ...},
        )
    for name, levels in given.items():
        names = list(levels) if dtypes.is_list_like(levels) else []
        if not names or not all(map(is_text, names)) or len({*names}) < len(names):
            raise InputError(
                f"{{{argument}}} has no list of different levels, as text, for {name!r}. "
                "Give those of the pilot cohort, its levels.",
                **{argument: ...},
            )


def _listed(df: pd.DataFrame) -> str:
    return textwrap.shorten(", ".join(map(str, df.columns)), LISTED, placeholder="...")


def _why_not(column: Cells, users: pd.Series | None, pilot: bool) -> str | None:
    """Return why a column isn't a feature by default, or None if it is one.

    Without users, the rows are those of a single series, where categories have no kernel, and a
    column that counts the rows, such as a year, may be the time.
    """
    name, kind = column.values.name, column.kind
    if isinstance(name, str) and NAMELESS.fullmatch(name):
        return "it has no name in the file"
    if kind in ("dates", "durations"):
        return "dates"
    if column.calendar:
        return "numbers that look like dates"
    if column.missing.mean() > MOSTLY:
        return f"{100 * column.missing.mean():.0f} % of its values are missing"
    if kind == "other":
        return "not numbers"
    distinct, n_users = column.comparable.nunique(), 1 if users is None else users.nunique()
    # It identifies users: one value for each, which no two users share.
    one_each = users is not None and column.constant_within(users) and 1 < distinct == n_users
    if kind == "categories":
        if users is None and not column.truths:
            return "not numbers"
        if distinct > MOST_LEVELS:
            return f"text with {distinct} different values"
        if one_each:
            return "another name for users"
    elif _row_numbers(column, one_each, n_users > 1) or (
        users is None and IDS.fullmatch(str(name))
    ):
        return "row numbers or ids"
    return SAME if pilot and distinct < 2 else None


def _row_numbers(column: Cells, one_each: bool, several: bool) -> bool:
    """Return whether a column of numbers counts the rows, or is an id of rows or users.

    An id has a name that is usual for ids, and a different value for every row or every user. What
    counts the rows of a single user may be the time; `several` is whether there are others.
    """
    cells = column.numbers()  # raises, and names a cell that isn't a number
    if not (np.isfinite(cells) & (cells == np.floor(cells))).all():
        return False
    usual = ROW_NAMES.fullmatch(str(column.values.name).strip()) is not None
    distinct = column.comparable.is_unique
    counts = several and bool(np.all(np.diff(cells) == 1))
    return counts or (usual and (one_each or distinct))


def _codes(column: Cells) -> int:
    """Return the number of groups of which a column of numbers may be the codes; 0 if of none."""
    distinct = np.unique(column.numbers()[~column.missing])
    whole = np.all(distinct == np.floor(distinct))
    return len(distinct) if whole and len(distinct) in FEW_CODES else 0
