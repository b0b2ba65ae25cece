"""Which columns of a table are features, of what kind they are, and why others are left out.

The rules are one function, :func:`feature_columns`, that :meth:`kem_pymc.Cohort.from_frame` and the
command line both follow.
"""

import re
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api import types as dtypes

from kem_pymc.checks import (
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
from kem_pymc.missing import mostly_missing

#: Names of columns that hold row numbers or ids, where their values are such as well.
ROW_NAMES = re.compile(
    r"(?i)(row|line|record|obs|observation|case|subject|patient|participant|person|user)?"
    r"[ _.-]*(names?|numbers?|num|nr|no|ids?|index|idx)?"
)

#: Text with more different values than this is no feature unless it is asked for.
MOST_LEVELS = 20

#: Whole numbers with so many different values may be names of groups.
FEW_CODES = range(3, 7)

#: How a feature is described that doesn't change while a user is observed.
CONSTANT = "the same throughout each user's rows"


@dataclass(frozen=True)
class Column:
    """A column that is a feature.

    Attributes
    ----------
    name : column name
    kind : {"time", "numbers", "categories"}
    constant : bool
        Whether it is the same in all rows of every user.
    levels : tuple of str
        Names of its categories, in the order of their codes; none of numbers and times.
    """

    name: Hashable
    kind: Literal["time", "numbers", "categories"]
    constant: bool = False
    levels: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}{f', {CONSTANT}' if self.constant else ''})"


@dataclass(frozen=True)
class Columns:
    """What the columns of a table are.

    Attributes
    ----------
    features : tuple of Column
        In order.
    left_out : tuple of (column name, str)
        Columns without a role, where no features were named, and why each is none.
    codes : tuple of (column name, int)
        Features that were chosen as numbers but have only so many different whole ones.
    """

    features: tuple[Column, ...]
    left_out: tuple[tuple[Hashable, str], ...] = ()
    codes: tuple[tuple[Hashable, int], ...] = ()

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The features."""
        return tuple(column.name for column in self.features)

    @property
    def levels(self) -> dict[Hashable, tuple[str, ...]]:
        """Names of categories by feature, of those that have them."""
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
    """Return which columns of a table are features, and of what kind.

    By default they are the time, then all other columns of numbers or categories but row numbers
    and ids, dates, text that differs in more than 20 ways or names every user another way, and what
    is the same in every row. Text, truth values and pandas' categories are categories.

    Parameters
    ----------
    df : DataFrame
    user, time, target : column names
    features : sequence of column names, optional
        Exactly these.
    categorical : sequence of column names, or mapping of these to names of levels, optional
        Columns, of numbers for instance, that are categories as well. A mapping says which columns
        are categories, no others, and what levels they have; text of others is refused then.
    scope : {"pilot", "new"}
        Columns of new users aren't left out for being the same in every row.

    Raises
    ------
    InputError
        If a column is missing or has two roles, a category isn't a feature, or a column of numbers
        has a cell that isn't one.
    """
    check_roles(df, user, time, target, features)
    asked = () if categorical is None else names_of(categorical, "categorical")
    if features is not None:
        features = names_of(features, "features")
        check_features(user, target, features)
    for column in asked:
        if column not in df.columns:
            raise InputError(f"The table has no column {column!r}. Name one of {list(df.columns)}.")
        if column in (user, time, target) or (features is not None and column not in features):
            raise InputError(
                f"Column {column!r} has categories, but isn't a feature. "
                "Name it among the features, or not among the categories."
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
    """Return whether a column has categories: truth values, pandas' categories, or words."""
    if isinstance(values.dtype, pd.CategoricalDtype) or dtypes.infer_dtype(values) == "boolean":
        return True
    if not is_text(values) or meant_as_numbers(values):
        return False
    words = all(isinstance(cell, str | int | float) for cell in values.dropna())
    return words and bool(not_numbers(values).any())


def comparable(values: pd.Series) -> pd.Series:
    """Return values that are equal where these are, and that can be counted and sorted."""
    mixed = dtypes.is_object_dtype(values) or isinstance(values.dtype, pd.CategoricalDtype)
    return values.astype(object).map(repr, na_action="ignore") if mixed else values


def levels_of(values: pd.Series) -> tuple[str, ...]:
    """Return the names of a column's categories: pandas' in their order, others sorted."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        there = set(values.dropna().unique())
        return tuple(level_name(level) for level in values.cat.categories if level in there)
    known = values.dropna()
    if not all(isinstance(level, str | int | float | np.generic) for level in known):
        raise InputError(
            f"Column {values.name!r} has cells that are neither words nor numbers, which can't be "
            "categories. Convert them to text, or leave the column out."
        )
    distinct = known.unique().tolist()
    if all(isinstance(level, int | float) for level in distinct):
        return tuple(map(level_name, sorted(distinct)))
    return tuple(sorted(map(level_name, distinct)))


def level_name(level: object) -> str:
    """Return a category's name: numbers as they are written, whole ones without a point."""
    if isinstance(level, float | np.floating) and float(level).is_integer():
        return str(int(level))
    return str(level)


def coded(
    df: pd.DataFrame, column: Hashable, levels: Sequence[str], user: Hashable, scope: str
) -> pd.Series:
    """Return a column of categories as numbers: the k-th level is k, from 0; missing ones are NaN.

    The k-th level of new users that is none of these is -k, from 1.

    Raises
    ------
    InputError
        If a pilot user has a level that is none of these.

    Warns
    -----
    DataWarning
        If a new user does.
    """
    values = df[column]
    names = [None if gone else level_name(v) for v, gone in zip(values, values.isna(), strict=True)]
    code = {name: float(k) for k, name in enumerate(levels)}
    others = [n for n in dict.fromkeys(names) if n is not None and n not in code]
    for k, level in enumerate(others, start=1):
        row = names.index(level)
        if scope == "pilot":
            raise InputError(
                f"Column {column!r} has {level!r} in {place(df.index, row)}, which is none of its "
                f"levels {', '.join(levels)}. Correct the cell, or add the level."
            )
        warnings.warn(
            f"User {df[user].iloc[row]} has {column} {level!r}, which no pilot user had "
            f"({', '.join(levels)}). It is predicted as the mean of these, with less certainty.",
            DataWarning,
            stacklevel=4,
        )
        code[level] = -float(k)
    return pd.Series([np.nan if n is None else code[n] for n in names], df.index)


def _not_a_feature(df: pd.DataFrame, column: Hashable, users: pd.Series, scope: str) -> str | None:
    """Return why a column is no feature by default; None of one that is."""
    values = df[column]
    known = comparable(values.dropna())
    if is_nameless(column):
        return "it has no name in the file"
    if is_time(values) or dtypes.infer_dtype(values) == "date" or _dates_as_text(values):
        return "dates"
    if mostly_missing(values):
        return f"{values.isna().mean():.0%} of its values are missing"
    if meant_as_numbers(values):
        check_numeric(df, [column])  # names the cells that aren't
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
    """Return whether numbers count rows, or are called like ids and name every row or user."""
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
    """Return whether a column says who a user is: one value each, and another of each."""
    distinct = users.nunique()
    one_each = _constant_within(values, users) and comparable(values).nunique() == distinct
    return distinct > 1 and one_each


def _constant_within(values: pd.Series, users: pd.Series) -> bool:
    """Return whether no user's value changes, where some user has several rows."""
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
    """Yield columns of numbers that may be names of groups, and how many these would be."""
    for column in columns:
        values = df[column.name]
        if column.kind != "numbers" or comparable(values).nunique() not in FEW_CODES:
            continue
        found = values.dropna().to_numpy(dtype=np.float64)
        if np.all(found == np.floor(found)):
            yield column.name, int(values.nunique())
