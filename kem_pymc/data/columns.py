"""Which columns of a table are features, and what each of them holds.

The rules are in one function, :func:`feature_columns`. It also returns why other columns are left
out.
"""

import re
import textwrap
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api import types as dtypes

from kem_pymc.errors import DataWarning, InputError, Problems

type Scope = Literal["pilot", "new"]

#: Usual names of columns of row numbers or ids; the values are checked as well.
ROW_NAMES = re.compile(
    r"(?i)(row|line|record|obs|observation|case|subject|patient|participant|person|user)?"
    r"[ _.-]*(names?|numbers?|num|nr|no|ids?|index|idx)?"
)

#: Name that pandas gives to a column without one, such as row numbers from `DataFrame.to_csv`.
NAMELESS = re.compile(r"Unnamed: \d+")

#: Names of indices whose labels are positions in a file; labels of other indices are row labels.
FILE_ROWS = ("line", "data row")

#: Text with more different values than this isn't a feature by default.
MOST_LEVELS = 20

#: Numbers of different values with which a column of whole numbers may be codes of groups.
FEW_CODES = range(3, 7)

#: A text column with a smaller fraction of cells that aren't numbers is treated as numbers with
#: errors; a column with a larger fraction of missing values isn't a feature by default.
FEW_CELLS = MOSTLY = 0.5

#: Largest number of characters of a list of column names, and of a cell, in an error message.
LISTED, CELL = 500, 30

#: Description of a feature that is constant within every user.
CONSTANT = "the same throughout each user's rows"


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
    kind: Literal["time", "numbers", "categories"]
    constant: bool = False
    levels: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}{f', {CONSTANT}' if self.constant else ''})"


@dataclass(frozen=True)
class Columns:
    """The roles of a table's columns: user, time, target, features, or none.

    Attributes
    ----------
    user, time, target : column names
    features : tuple of Column
        Features, in the order of the columns of the inputs.
    scope : {"pilot", "new"}
        Whether the users belong to a pilot study, or are new users.
    left_out : tuple of (column name, str)
        Columns that are neither user, time, target nor feature, each with the reason why it isn't
        a feature. Empty if the features were named.
    codes : tuple of (column name, int)
        Features that were chosen as numbers but may be codes of groups: whole numbers with few
        different values, and how many of them. Empty if the features were named.
    """

    user: Hashable
    time: Hashable
    target: Hashable
    features: tuple[Column, ...]
    scope: Scope = "pilot"
    left_out: tuple[tuple[Hashable, str], ...] = ()
    codes: tuple[tuple[Hashable, int], ...] = ()

    @property
    def names(self) -> tuple[Hashable, ...]:
        """Names of the features."""
        return tuple(column.name for column in self.features)

    @property
    def used(self) -> tuple[Hashable, ...]:
        """Names of all columns with a role, each once."""
        return tuple(dict.fromkeys((self.user, self.time, self.target, *self.names)))

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
) -> Columns:
    """Choose the columns of a table that are features, and determine the kind of each.

    By default the features are the time, then all other columns of numbers or categories. Left out
    are row numbers and ids, dates, columns without a name, columns with more than half of their
    values missing, text with more than 20 different values or with a different value for every
    user, and columns with the same value in every row. Text, booleans and pandas' categoricals are
    categories.

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
    scope : {"pilot", "new"}
        With "new", columns aren't left out for having the same value in every row.

    Returns
    -------
    Columns

    Raises
    ------
    InputError
        If a column is missing or has two roles, a category isn't a feature, or a column of numbers
        has a cell that isn't a number.
    """
    if scope not in ("pilot", "new"):
        raise InputError("{scope} is unknown. Give 'pilot' or 'new'.", scope=scope)
    named = None if features is None else names_of(features, "features")
    asked = () if categorical is None else names_of(categorical, "categorical")
    _check_roles(df, user, time, target, named, asked)
    users, problems = comparable(df[user]), Problems()
    reasons: dict[Hashable, str | None] = {}
    if named is None:
        for name in df.columns.drop([user, time, target]):
            with problems:
                reasons[name] = (
                    None if name in asked else _not_a_feature(df[name], users, scope == "pilot")
                )
        problems.check()
        named = tuple(name for name, reason in reasons.items() if reason is None)
        if named and scope == "pilot" and comparable(df[time]).nunique() < 2:
            reasons[time] = "the same in every row"
        else:
            named = (time, *named)
    chosen = []
    for name in named:
        values, constant = df[name], _constant_within(df[name], users)
        if name == time:
            chosen.append(Column(name, "time", constant))
        elif isinstance(categorical, Mapping) and name in asked:
            chosen.append(Column(name, "categories", constant, tuple(categorical[name])))
        elif name in asked or (not isinstance(categorical, Mapping) and is_category(values)):
            with problems:
                chosen.append(Column(name, "categories", constant, levels_of(values)))
        else:
            chosen.append(Column(name, "numbers", constant))
    problems.check()
    left_out = tuple((name, reason) for name, reason in reasons.items() if reason is not None)
    codes = () if features is not None else tuple(_codes(df, chosen))
    return Columns(user, time, target, tuple(chosen), scope, left_out, codes)


def names_of(columns: Any, argument: str) -> tuple[Hashable, ...]:
    """Return the column names given by an argument: a single name, or several.

    Raises
    ------
    InputError
        If `columns` isn't iterable, or holds something that can't be a column's name.
    """
    if isinstance(columns, str):
        return (columns,)
    names = tuple(columns) if isinstance(columns, Iterable) else None
    if names is None or not all(map(dtypes.is_hashable, names)):
        raise InputError(
            f"{{{argument}}} is a {type(columns).__name__} that isn't a list of column names. "
            "Give a list of names.",
            **{argument: ...},
        )
    return names


def _check_roles(
    df: pd.DataFrame,
    user: Hashable,
    time: Hashable,
    target: Hashable,
    features: Sequence[Hashable] | None,
    categorical: Sequence[Hashable],
) -> None:
    """Check that a table has rows and the named columns, and that each of them has one role."""
    if not isinstance(df, pd.DataFrame):
        raise InputError(f"The table is a {type(df).__name__}. Give a pandas DataFrame.")
    if not df.columns.is_unique:
        twice = df.columns[df.columns.duplicated()][0]
        raise InputError(f"The table has two columns {twice!r}. Rename or drop one of them.")
    roles = {"user": user, "time": time, "target": target}
    for name, column in roles.items():
        if not dtypes.is_hashable(column):
            raise InputError(
                f"{{{name}}} is a {type(column).__name__}, not a column name. "
                "Give one column name.",
                **{name: ...},
            )
    for column in (*roles.values(), *(features or ()), *categorical):
        if column not in df.columns:
            listed = textwrap.shorten(str(list(df.columns)), LISTED, placeholder="...")
            raise InputError(f"The table has no column {column!r}. Choose one of {listed}.")
    if len({*roles.values()}) < len(roles):
        raise InputError(
            f"User, time and target are columns {[*roles.values()]}. Choose three different "
            "columns."
        )
    if df.empty:
        raise InputError("The table has no rows. Give at least one row per user.")
    if features is not None:
        distinct = set(features)
        if not features or len(distinct) < len(features) or {user, target} & distinct:
            raise InputError(
                f"The features {list(features)} are empty, repeated, or include the user or the "
                "target column. Give each input column once."
            )
    for column in categorical:
        if column in roles.values() or (features is not None and column not in features):
            raise InputError(
                f"Column {column!r} is given as categorical, but isn't a feature. "
                "Add it to the features, or remove it from the categorical columns."
            )


def is_time(values: pd.Series) -> bool:
    """Return whether a column holds dates or durations."""
    return dtypes.is_datetime64_any_dtype(values) or dtypes.is_timedelta64_dtype(values)


def is_numeric(values: pd.Series) -> bool:
    """Return whether a column holds real numbers or truth values."""
    return dtypes.is_numeric_dtype(values) and not dtypes.is_complex_dtype(values)


def is_text(values: pd.Series) -> bool:
    """Return whether a column holds text, or text mixed with other values."""
    return dtypes.infer_dtype(values) in ("string", "mixed", "mixed-integer")


def is_category(values: pd.Series) -> bool:
    """Return whether a column has categories: booleans, pandas' categoricals, or words."""
    if isinstance(values.dtype, pd.CategoricalDtype) or dtypes.infer_dtype(values) == "boolean":
        return True
    if not is_text(values) or meant_as_numbers(values):
        return False
    words = all(isinstance(cell, str | int | float) for cell in values.dropna())
    return words and bool(not_numbers(values).any())


def meant_as_numbers(values: pd.Series) -> bool:
    """Return whether a column of text holds numbers except in a few cells."""
    return is_text(values) and 0 < not_numbers(values).sum() < FEW_CELLS * values.notna().sum()


def not_numbers(values: pd.Series) -> np.ndarray:
    """Return a mask of the cells that aren't missing and can't be parsed as numbers."""
    try:
        text = values.astype("str")
    except UnicodeEncodeError:  # lone surrogates can't be encoded
        text = values.map(lambda cell: str(cell).encode("utf-8", "replace").decode())
    return (pd.to_numeric(text, errors="coerce").isna() & values.notna()).to_numpy()


def all_dates(values: pd.Series) -> bool:
    """Return whether all cells of a column of text that aren't missing are dates (ISO 8601)."""
    dates = pd.to_datetime(values.dropna(), format="ISO8601", utc=True, errors="coerce")
    return bool(dates.notna().all())


def comparable(values: pd.Series) -> pd.Series:
    """Return values that are equal wherever the given ones are, and can be counted and sorted.

    Objects and categoricals are replaced by their repr.
    """
    mixed = dtypes.is_object_dtype(values) or isinstance(values.dtype, pd.CategoricalDtype)
    return values.astype(object).map(repr, na_action="ignore") if mixed else values


def place(index: pd.Index, position: int | np.integer) -> str:
    """Return a row's label, or its line in the file that it was read from, as text."""
    kind = index.name if index.name in FILE_ROWS else "row"
    return f"{kind} {index[position]}"


def shortened(cell: object) -> str:
    """Return a cell as text for an error message."""
    return textwrap.shorten(str(cell), CELL, placeholder="...")


def numeric(values: pd.Series) -> np.ndarray:
    """Return a column of numbers as float64; missing values become NaN.

    Raises
    ------
    InputError
        If the column doesn't hold real numbers; the message names the first cell that isn't one.
    """
    if is_numeric(values):
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    name, bad = values.name, np.zeros(0, dtype=bool)
    if is_text(values):
        bad = not_numbers(values)
    if bad.any():
        others = f" (other such cells: {bad.sum() - 1})" if bad.sum() > 1 else ""
        raise InputError(
            f"Column {name!r} has {shortened(values.iloc[bad.argmax()])!r} in "
            f"{place(values.index, bad.argmax())}{others}, where numbers belong. "
            "Correct such cells, drop their rows or leave the column out."
        )
    if is_time(values):
        raise InputError(
            f"Column {name!r} has dates where numbers belong. Convert them to numbers, or use the "
            "column as the time, which is the only feature that may have dates."
        )
    raise InputError(
        f"Column {name!r} has type {values.dtype} where numbers belong. "
        "Convert it, for example with pandas.to_numeric."
    )


def times_of(times: pd.Series) -> pd.Series:
    """Return the time column, with ``datetime.date`` objects converted to datetime64."""
    if dtypes.infer_dtype(times) == "date":  # read from parquet files
        times = pd.to_datetime(times)
    if not (is_numeric(times) or is_time(times)):
        raise InputError(
            f"Column {times.name!r} has type {times.dtype} where numbers or dates belong. "
            "Convert it with pandas.to_datetime or pandas.to_numeric."
        )
    return times


def users_of(labels: pd.Series) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    """Return the number of each row's user, counted from 0, and the labels of the users."""
    try:
        codes, distinct = pd.factorize(labels)
        users = tuple(distinct.tolist())
    except (TypeError, ValueError, UnicodeEncodeError) as error:  # for example, cells with lists
        raise InputError(
            f"Column {labels.name!r} has cells that can't be a user's label ({error}). "
            "Give numbers or text."
        ) from error
    if (codes < 0).any():
        raise InputError(
            f"Column {labels.name!r} has no user in {place(labels.index, codes.argmin())}. "
            "Fill in the user or drop the row."
        )
    return codes, users


def days(times: pd.Series, users: np.ndarray) -> np.ndarray:
    """Return times as numbers: dates as days since the user's first row, durations as days.

    Parameters
    ----------
    times : Series
        Times from :func:`times_of`.
    users : ndarray of int
        Number of each row's user.
    """
    if not is_time(times):
        return numeric(times)
    times = times.reset_index(drop=True)
    if dtypes.is_datetime64_any_dtype(times):
        times = times - times.groupby(users).transform("first")
    return (times / pd.Timedelta(days=1)).to_numpy(dtype=np.float64)


def levels_of(values: pd.Series) -> tuple[str, ...]:
    """Return the names of a column's categories.

    Categories of a pandas categorical keep their order, and unused ones are left out; others are
    sorted.

    Raises
    ------
    InputError
        If a cell is neither text nor a number.
    """
    cells = values.dropna()
    if isinstance(values.dtype, pd.CategoricalDtype):
        there = set(cells.unique())
        return tuple(level_name(level) for level in values.cat.categories if level in there)
    if not all(isinstance(cell, str | int | float | np.generic) for cell in cells):
        raise InputError(
            f"Column {values.name!r} has cells that are neither text nor numbers, which can't be "
            "categories. Convert them to text, or leave the column out."
        )
    distinct = cells.unique().tolist()
    if all(isinstance(level, int | float) for level in distinct):
        return tuple(map(level_name, sorted(distinct)))
    return tuple(sorted(map(level_name, distinct)))


def level_name(level: object) -> str:
    """Return the name of a category as text; whole numbers have no decimal point."""
    if isinstance(level, float | np.floating) and float(level).is_integer():
        return str(int(level))
    return str(level)


def coded(values: pd.Series, levels: Sequence[str], users: pd.Series, scope: Scope) -> np.ndarray:
    """Encode a column of categories as numbers.

    The k-th level becomes k, counted from 0, and missing cells become NaN. The k-th level of new
    users that isn't among `levels` becomes -k, counted from 1.

    Parameters
    ----------
    values : Series
    levels : sequence of str
        Names of the levels.
    users : Series
        The user of each row.
    scope : {"pilot", "new"}

    Returns
    -------
    ndarray of float

    Raises
    ------
    InputError
        If a pilot user has a level that isn't among `levels`.

    Warns
    -----
    DataWarning
        If a new user has such a level.
    """
    names = [None if gone else level_name(v) for v, gone in zip(values, values.isna(), strict=True)]
    code = {name: float(k) for k, name in enumerate(levels)}
    others = [n for n in dict.fromkeys(names) if n is not None and n not in code]
    for k, level in enumerate(others, start=1):
        row = names.index(level)
        if scope == "pilot":
            raise InputError(
                f"Column {values.name!r} has {level!r} in {place(values.index, row)}, which isn't "
                f"one of its levels {', '.join(levels)}. Correct the cell, or add the level."
            )
        warnings.warn(
            f"User {users.iloc[row]} has {values.name} {level!r}, which no pilot user had "
            f"({', '.join(levels)}). Its effect is predicted as the mean over these levels, with "
            "more uncertainty.",
            DataWarning,
            stacklevel=5,
        )
        code[level] = -float(k)
    return np.array([np.nan if n is None else code[n] for n in names])


def _not_a_feature(values: pd.Series, users: pd.Series, pilot: bool) -> str | None:
    """Return why a column isn't a feature by default, or None if it is one."""
    name = values.name
    if isinstance(name, str) and NAMELESS.fullmatch(name):
        return "it has no name in the file"
    if is_time(values) or dtypes.infer_dtype(values) == "date" or _dates_as_text(values):
        return "dates"
    if values.isna().mean() > MOSTLY:
        return f"{values.isna().mean():.0%} of its values are missing"
    if meant_as_numbers(values):
        numeric(values)  # raises, and names a cell that isn't a number
    category = is_category(values)
    if not (category or is_numeric(values)):
        return "not numbers"
    distinct = comparable(values.dropna()).nunique()
    if category:
        if distinct > MOST_LEVELS:
            return f"text with {distinct} different values"
        if _one_each(values, users):
            return "another name for users"
    elif _row_numbers(values, users):
        return "row numbers or ids"
    return "the same in every row" if pilot and distinct < 2 else None


def _row_numbers(values: pd.Series, users: pd.Series) -> bool:
    """Return whether a column counts the rows, or is an id of rows or users.

    An id has a name that is usual for ids, and a different value for every row or every user.
    """
    cells = numeric(values)
    if users.nunique() < 2 or not (np.isfinite(cells) & (cells == np.floor(cells))).all():
        return False
    ids = values.is_unique or _one_each(values, users)
    usual = ROW_NAMES.fullmatch(str(values.name).strip()) is not None
    return bool(np.all(np.diff(cells) == 1)) or (ids and usual)


def _one_each(values: pd.Series, users: pd.Series) -> bool:
    """Return whether a column identifies users: one value per user, and no two users share it."""
    distinct = users.nunique()
    one_each = _constant_within(values, users) and comparable(values).nunique() == distinct
    return distinct > 1 and one_each


def _constant_within(values: pd.Series, users: pd.Series) -> bool:
    """Return whether the value is the same in all rows of every user.

    False if no user has several rows, or a row has no user.
    """
    if users.isna().any() or not users.duplicated().any():
        return False
    by_user = comparable(values).groupby(users.to_numpy())
    return bool((by_user.nunique(dropna=False) <= 1).all())


def _dates_as_text(values: pd.Series) -> bool:
    cells = values.dropna()
    if not (len(cells) and is_text(values)) or not_numbers(cells).mean() < 1:
        return False
    return all_dates(cells)


def _codes(df: pd.DataFrame, columns: Sequence[Column]) -> Iterator[tuple[Hashable, int]]:
    """Yield columns of numbers that may be codes of groups, and their number of groups."""
    for column in columns:
        values = df[column.name]
        if column.kind != "numbers" or comparable(values).nunique() not in FEW_CODES:
            continue
        cells = values.dropna().to_numpy(dtype=np.float64)
        if np.all(cells == np.floor(cells)):
            yield column.name, int(values.nunique())
