"""Choice of the columns of a table that are features, and of the kind of each.

The rules are in one function, :func:`feature_columns`, which :meth:`kem_pymc.Cohort.from_frame` and
the command line both use. It also returns why other columns are left out.
"""

import re
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api import types as dtypes

from kem_pymc.data.missing import mostly_missing
from kem_pymc.data.validation import (
    check_features,
    check_numeric,
    check_roles,
    is_nameless,
    is_text,
    is_time,
    meant_as_numbers,
    names_of,
    not_numbers,
    place,
)
from kem_pymc.errors import DataWarning, InputError

#: Usual names of columns of row numbers or ids; the values are checked as well.
ROW_NAMES = re.compile(
    r"(?i)(row|line|record|obs|observation|case|subject|patient|participant|person|user)?"
    r"[ _.-]*(names?|numbers?|num|nr|no|ids?|index|idx)?"
)

#: Text with more different values than this isn't a feature by default.
MOST_LEVELS = 20

#: Numbers of different values with which a column of whole numbers may be codes of groups.
FEW_CODES = range(3, 7)

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
    """The features of a table, and the columns that were left out.

    Attributes
    ----------
    features : tuple of Column
        Features, in the order of the columns of the inputs.
    left_out : tuple of (column name, str)
        Columns that are neither user, time, target nor feature, each with the reason why it isn't
        a feature. Empty if the features were named.
    codes : tuple of (column name, int)
        Features that were chosen as numbers but may be codes of groups: whole numbers with few
        different values, and how many of them. Empty if the features were named.
    """

    features: tuple[Column, ...]
    left_out: tuple[tuple[Hashable, str], ...] = ()
    codes: tuple[tuple[Hashable, int], ...] = ()

    @property
    def names(self) -> tuple[Hashable, ...]:
        """Names of the features."""
        return tuple(column.name for column in self.features)

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
    scope: Literal["pilot", "new"] = "pilot",
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
    check_roles(df, user, time, target, features)
    asked = () if categorical is None else names_of(categorical, "categorical")
    if features is not None:
        features = names_of(features, "features")
        check_features(user, target, features)
    for column in asked:
        if column not in df.columns:
            raise InputError(
                f"The table has no column {column!r}. Choose one of {list(df.columns)}."
            )
        if column in (user, time, target) or (features is not None and column not in features):
            raise InputError(
                f"Column {column!r} is given as categorical, but isn't a feature. "
                "Add it to the features, or remove it from the categorical columns."
            )
    left_out: tuple[tuple[Hashable, str], ...] = ()
    users, chosen = comparable(df[user]), features
    if chosen is None:
        reasons = {
            c: None if c in asked else _not_a_feature(df, c, users, scope)
            for c in df.columns
            if c not in (user, time, target)
        }
        others = [c for c, reason in reasons.items() if reason is None]
        if others and scope == "pilot" and comparable(df[time]).nunique() < 2:
            reasons[time] = "the same in every row"
            chosen = (*others,)
        else:
            chosen = (time, *others)
        left_out = tuple((c, reason) for c, reason in reasons.items() if reason is not None)
    named = isinstance(categorical, Mapping)
    found = []
    for column in chosen:
        constant = _constant_within(df[column], users)
        if column == time:
            found.append(Column(column, "time", constant))
        elif column in asked or (not named and is_category(df[column])):
            levels = categorical[column] if isinstance(categorical, Mapping) else None
            own = tuple(levels) if levels is not None else levels_of(df[column])
            found.append(Column(column, "categories", constant, own))
        else:
            found.append(Column(column, "numbers", constant))
    codes = tuple(_codes(df, found)) if features is None else ()
    return Columns(tuple(found), left_out, codes)


def is_category(values: pd.Series) -> bool:
    """Return whether a column has categories: booleans, pandas' categoricals, or words."""
    if isinstance(values.dtype, pd.CategoricalDtype) or dtypes.infer_dtype(values) == "boolean":
        return True
    if not is_text(values) or meant_as_numbers(values):
        return False
    words = all(isinstance(cell, str | int | float) for cell in values.dropna())
    return words and bool(not_numbers(values).any())


def comparable(values: pd.Series) -> pd.Series:
    """Return values that are equal wherever the given ones are, and can be counted and sorted.

    Objects and categoricals are replaced by their repr.
    """
    mixed = dtypes.is_object_dtype(values) or isinstance(values.dtype, pd.CategoricalDtype)
    return values.astype(object).map(repr, na_action="ignore") if mixed else values


def levels_of(values: pd.Series) -> tuple[str, ...]:
    """Return the names of a column's categories.

    Categories of a pandas categorical keep their order, and unused ones are left out; others are
    sorted.

    Raises
    ------
    InputError
        If a cell is neither text nor a number.
    """
    if isinstance(values.dtype, pd.CategoricalDtype):
        there = set(values.dropna().unique())
        return tuple(level_name(level) for level in values.cat.categories if level in there)
    known = values.dropna()
    if not all(isinstance(level, str | int | float | np.generic) for level in known):
        raise InputError(
            f"Column {values.name!r} has cells that are neither text nor numbers, which can't be "
            "categories. Convert them to text, or leave the column out."
        )
    distinct = known.unique().tolist()
    if all(isinstance(level, int | float) for level in distinct):
        return tuple(map(level_name, sorted(distinct)))
    return tuple(sorted(map(level_name, distinct)))


def level_name(level: object) -> str:
    """Return the name of a category as text; whole numbers have no decimal point."""
    if isinstance(level, float | np.floating) and float(level).is_integer():
        return str(int(level))
    return str(level)


def coded(
    df: pd.DataFrame, column: Hashable, levels: Sequence[str], user: Hashable, scope: str
) -> pd.Series:
    """Encode a column of categories as numbers.

    The k-th level becomes k, counted from 0, and missing cells become NaN. The k-th level of new
    users that isn't among `levels` becomes -k, counted from 1.

    Parameters
    ----------
    df : DataFrame
    column : column name
    levels : sequence of str
        Names of the levels.
    user : column name
    scope : {"pilot", "new"}

    Returns
    -------
    Series of float

    Raises
    ------
    InputError
        If a pilot user has a level that isn't among `levels`.

    Warns
    -----
    DataWarning
        If a new user has such a level.
    """
    values = df[column]
    names = [None if gone else level_name(v) for v, gone in zip(values, values.isna(), strict=True)]
    code = {name: float(k) for k, name in enumerate(levels)}
    others = [n for n in dict.fromkeys(names) if n is not None and n not in code]
    for k, level in enumerate(others, start=1):
        row = names.index(level)
        if scope == "pilot":
            raise InputError(
                f"Column {column!r} has {level!r} in {place(df.index, row)}, which isn't one of "
                f"its levels {', '.join(levels)}. Correct the cell, or add the level."
            )
        warnings.warn(
            f"User {df[user].iloc[row]} has {column} {level!r}, which no pilot user had "
            f"({', '.join(levels)}). Its effect is predicted as the mean over these levels, with "
            "more uncertainty.",
            DataWarning,
            stacklevel=4,
        )
        code[level] = -float(k)
    return pd.Series([np.nan if n is None else code[n] for n in names], df.index)


def _not_a_feature(df: pd.DataFrame, column: Hashable, users: pd.Series, scope: str) -> str | None:
    """Return why a column isn't a feature by default, or None if it is one."""
    values = df[column]
    known = comparable(values.dropna())
    if is_nameless(column):
        return "it has no name in the file"
    if is_time(values) or dtypes.infer_dtype(values) == "date" or _dates_as_text(values):
        return "dates"
    if mostly_missing(values):
        return f"{values.isna().mean():.0%} of its values are missing"
    if meant_as_numbers(values):
        check_numeric(df, [column])  # raises, and names a cell that isn't a number
    numeric = dtypes.is_numeric_dtype(values) and not dtypes.is_complex_dtype(values)
    if not (numeric or is_category(values)):
        return "not numbers"
    if is_category(values):
        if known.nunique() > MOST_LEVELS:
            return f"text with {known.nunique()} different values"
        if _one_each(values, users):
            return "another name for users"
    elif _row_numbers(values, str(column), users):
        return "row numbers or ids"
    if scope == "pilot" and known.nunique() < 2:
        return "the same in every row"
    return None


def _row_numbers(values: pd.Series, name: str, users: pd.Series) -> bool:
    """Return whether a column counts the rows, or is an id of rows or users.

    An id has a name that is usual for ids, and a different value for every row or every user.
    """
    if values.isna().any():
        return False
    found = values.to_numpy(dtype=np.float64)
    if not np.all(np.isfinite(found)) or np.any(found != np.floor(found)):
        return False
    several = users.nunique() > 1
    if several and np.all(np.diff(found) == 1):
        return True
    ids = values.is_unique or _one_each(values, users)
    return several and ids and ROW_NAMES.fullmatch(name.strip()) is not None


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
    known = values.dropna()
    if not (len(known) and is_text(values)) or not_numbers(known).mean() < 1:
        return False
    dates = pd.to_datetime(known, format="ISO8601", utc=True, errors="coerce")
    return bool(dates.notna().all())


def _codes(df: pd.DataFrame, columns: Sequence[Column]) -> Iterator[tuple[Hashable, int]]:
    """Yield columns of numbers that may be codes of groups, and their number of groups."""
    for column in columns:
        values = df[column.name]
        if column.kind != "numbers" or comparable(values).nunique() not in FEW_CODES:
            continue
        found = values.dropna().to_numpy(dtype=np.float64)
        if np.all(found == np.floor(found)):
            yield column.name, int(values.nunique())
