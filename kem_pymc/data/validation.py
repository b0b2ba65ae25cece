"""Input validation of arrays and tables, before anything is computed from them.

Every check that fails raises an :class:`InputError` that names the column, the row or the user.
"""

import re
import textwrap
from collections.abc import Hashable, Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types as dtypes

from kem_pymc.errors import InputError

#: Largest absolute value of data; beyond it, squares and products lose digits in covariances.
LARGEST = 1e12

#: Largest number of characters in a list of column names in an error message.
LISTED = 500

#: Names of indices whose labels are positions in a file; labels of other indices are row labels.
FILE_ROWS = ("line", "data row")

#: A text column with a smaller fraction of non-numeric cells is treated as numbers with errors.
FEW_CELLS = 0.5

#: Name that pandas gives to a column without one, such as row numbers from `DataFrame.to_csv`.
NAMELESS = re.compile(r"Unnamed: \d+")


def new_inputs(x: npt.ArrayLike, dimension: int) -> np.ndarray:
    """Return inputs to predict at, shape (m, D) or (m,) if D is 1, as an array (m, D).

    Raises
    ------
    InputError
        If the inputs aren't finite numbers, or aren't rows.
    """
    inputs = np.asarray(x)
    if inputs.dtype.kind not in "biuf" or not np.isfinite(inputs).all():
        raise InputError("The inputs aren't all finite numbers. Give an array of real numbers.")
    if dimension == 1 and inputs.ndim == 1:
        inputs = inputs[:, None]
    if inputs.ndim != 2:
        raise InputError(
            f"The inputs have shape {inputs.shape}. Give one row per point and {dimension} columns."
        )
    return inputs


def check_points(
    x: npt.ArrayLike, y: npt.ArrayLike, dimension: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of one user as float64 arrays of shape (n, D) and (n,).

    Parameters
    ----------
    x : array_like, shape (n, D), or (n,) if D is 1
        Inputs.
    y : array_like, shape (n,)
        Targets.
    dimension : int
        Number of features, D.

    Raises
    ------
    InputError
        If there are no points, the shapes don't fit, or a value isn't a finite number of at most
        1e12 in size.
    """
    x, y = number_array("inputs", x), number_array("targets", y)
    if dimension == 1 and x.ndim == 1:
        x = x[:, None]
    if x.ndim != 2 or x.shape[1] != dimension:
        raise InputError(
            f"The inputs have shape {x.shape}. Give one row per point and {dimension} columns."
        )
    if y.shape != (len(x),) or not len(y):
        raise InputError(
            f"There are inputs of shape {x.shape} and targets of shape {y.shape}. "
            "Give one target per row of inputs, for at least one point."
        )
    return x, y


def number_array(name: str, values: npt.ArrayLike) -> np.ndarray:
    """Return real, finite numbers as a float64 array.

    Parameters
    ----------
    name : str
        Name of the values in error messages.
    values : array_like

    Raises
    ------
    InputError
        If the values aren't a regular array of real numbers, or one of them is missing, infinite
        or larger than 1e12 in size.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"The {name} have rows of unequal length. Give an array.") from error
    if array.dtype.kind not in "biuf":  # strings of digits would convert without complaint
        raise InputError(f"The {name} aren't all numbers. Give an array of real numbers.")
    if not np.all(np.abs(array.astype(np.float64)) <= LARGEST):  # NaN compares false
        raise InputError(
            f"The {name} contain a missing, infinite or huge value. "
            f"Give finite values of at most {LARGEST:.0e}, rescaled if necessary."
        )
    return np.asarray(array, dtype=np.float64, order="C")


def frozen(values: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> np.ndarray:
    """Return a read-only, C-contiguous copy of an array."""
    array = np.array(values, dtype=dtype, order="C")
    array.flags.writeable = False
    return array


def check_ends(user: Hashable, ends: np.ndarray, points: int) -> None:
    """Check that prefix lengths increase and end at the number of points."""
    counts = ends.ndim == 1 and ends.size and ends.dtype.kind in "iu"
    if not (counts and ends[0] > 0 and np.all(ends[1:] > ends[:-1]) and ends[-1] == points):
        raise InputError(
            f"The time steps of user {user!r} end at {ends.tolist()}. "
            f"Give increasing whole numbers from 1 on, the last one {points}."
        )


def check_options(batch: int | None, gaps: str, scope: str, missing: str) -> None:
    """Check the options of :meth:`kem_pymc.Cohort.from_frame`."""
    if batch is not None and not (isinstance(batch, Integral) and batch >= 1):
        raise InputError("{batch} isn't a valid number of points. Give 1 or more.", batch=batch)
    if gaps not in ("error", "skip"):
        raise InputError("{gaps} is unknown. Give 'error' or 'skip'.", gaps=gaps)
    if scope not in ("pilot", "new"):
        raise InputError("{scope} is unknown. Give 'pilot' or 'new'.", scope=scope)
    if missing not in ("error", "drop"):
        raise InputError("{missing} is unknown. Give 'error' or 'drop'.", missing=missing)


def check_roles(
    df: pd.DataFrame,
    user: Hashable,
    time: Hashable,
    target: Hashable,
    features: Sequence[Hashable] | None = None,
) -> None:
    """Check that a table has rows, the named columns, and different user, time and target."""
    if not isinstance(df, pd.DataFrame):
        raise InputError(f"The table is a {type(df).__name__}. Give a pandas DataFrame.")
    if not df.columns.is_unique:
        twice = df.columns[df.columns.duplicated()][0]
        raise InputError(f"The table has two columns {twice!r}. Rename or drop one of them.")
    roles = (user, time, target)
    for name, column in zip(("user", "time", "target"), roles, strict=True):
        if not dtypes.is_hashable(column):
            raise InputError(
                f"{name}= is a {type(column).__name__}, not a column name. Give one column name."
            )
    features = (time,) if features is None else names_of(features, "features")
    for column in (*roles, *features):
        if column not in df.columns:
            known = textwrap.shorten(str(list(df.columns)), LISTED, placeholder="...")
            raise InputError(f"The table has no column {column!r}. Choose one of {known}.")
    if len({*roles}) < len(roles):
        raise InputError(
            f"User, time and target are columns {list(roles)}. Choose three different columns."
        )
    if df.empty:
        raise InputError("The table has no rows. Give at least one row per user.")


def check_features(user: Hashable, target: Hashable, features: Sequence[Hashable]) -> None:
    """Check that features are named, each once, and that none is the user or the target."""
    if not features or len(set(features)) < len(features) or {user, target} & set(features):
        raise InputError(
            f"The features {list(features)} are empty, repeated, or include the user or the target "
            "column. Give each input column once."
        )


def names_of(columns: Any, argument: str) -> tuple[Hashable, ...]:
    """Return the column names given by an argument: a single name, or several.

    Parameters
    ----------
    columns : str or iterable of column names
    argument : str
        Name of the argument, for error messages.

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
            f"{argument}= is a {type(columns).__name__} that isn't a list of column names. "
            "Give a list of names."
        )
    return names


def is_nameless(column: Hashable) -> bool:
    """Return whether pandas read a column with an empty name, which usually holds row numbers."""
    return isinstance(column, str) and NAMELESS.fullmatch(column) is not None


def place(index: pd.Index, position: int | np.integer) -> str:
    """Return a row's label, or its line in the file that it was read from, as text."""
    kind = index.name if index.name in FILE_ROWS else "row"
    return f"{kind} {index[position]}"


def not_numbers(values: pd.Series) -> np.ndarray:
    """Return a mask of the cells that aren't missing and can't be parsed as numbers."""
    try:
        text = values.astype("str")
    except UnicodeEncodeError:  # lone surrogates can't be encoded
        text = values.map(lambda cell: str(cell).encode("utf-8", "replace").decode())
    found = pd.to_numeric(text, errors="coerce")
    return (found.isna() & values.notna()).to_numpy()


def check_numeric(df: pd.DataFrame, columns: Sequence[Hashable]) -> None:
    """Check that columns have a real numeric dtype."""
    for column in columns:
        values = df[column]
        if dtypes.is_numeric_dtype(values) and not dtypes.is_complex_dtype(values):
            continue
        if is_text(values) and (bad := not_numbers(values)).any():
            cell = textwrap.shorten(str(values.iloc[bad.argmax()]), 30, placeholder="...")
            others = f" (other such cells: {bad.sum() - 1})" if bad.sum() > 1 else ""
            raise InputError(
                f"Column {column!r} has {cell!r} in {place(df.index, bad.argmax())}{others}, "
                "where numbers belong. Correct such cells, drop their rows or leave the column out."
            )
        if is_time(values):
            raise InputError(
                f"Column {column!r} has dates where numbers belong. "
                "Convert them to numbers, or use the column as the time, which is the only feature "
                "that may have dates."
            )
        raise InputError(
            f"Column {column!r} has type {values.dtype} where numbers belong. "
            "Convert it, for example with pandas.to_numeric."
        )


def numbers(df: pd.DataFrame, column: Hashable) -> np.ndarray:
    """Return a complete column of numbers as float64.

    Raises
    ------
    InputError
        If a value is larger than 1e12 in size.
    """
    found = df[column].to_numpy(dtype=np.float64)
    huge = np.abs(found) > LARGEST
    if huge.any():
        raise InputError(
            f"Column {column!r} has a value beyond {LARGEST:.0e} in "
            f"{place(df.index, huge.argmax())}. Rescale the column, for example to another unit."
        )
    return found


def users_of(df: pd.DataFrame, user: Hashable) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    """Return the number of each row's user, counted from 0, and the labels of the users.

    Raises
    ------
    InputError
        If a row has no user, or a cell can't be a label.
    """
    try:
        codes, labels = pd.factorize(df[user])
        found = tuple(labels.tolist())
    except (TypeError, ValueError, UnicodeEncodeError) as error:  # for example, cells with lists
        raise InputError(
            f"Column {user!r} has cells that can't be a user's label ({error}). "
            "Give numbers or text."
        ) from error
    if (codes < 0).any():
        raise InputError(
            f"Column {user!r} has no user in {place(df.index, codes.argmin())}. "
            "Fill in the user or drop the row."
        )
    return codes, found


def times_of(df: pd.DataFrame, time: Hashable) -> pd.Series:
    """Return the time column, with ``datetime.date`` objects converted to datetime64.

    Raises
    ------
    InputError
        If it doesn't hold numbers, dates or durations.
    """
    times = df[time]
    if dtypes.infer_dtype(times) == "date":  # read from parquet files
        times = pd.to_datetime(times)
    numeric = dtypes.is_numeric_dtype(times) and not dtypes.is_complex_dtype(times)
    if not (numeric or is_time(times)):
        raise InputError(
            f"Column {time!r} has type {times.dtype} where numbers or dates belong. "
            "Convert it with pandas.to_datetime or pandas.to_numeric."
        )
    return times


def check_complete(
    index: pd.Index, users: Sequence[Hashable] | None, columns: dict[Hashable, pd.Series]
) -> None:
    """Check that columns have no missing or infinite values.

    Parameters
    ----------
    index : Index
        Index of the table.
    users : sequence of labels, optional
        User of every row, if there are users.
    columns : dict of column name to Series
        Columns to check.
    """
    missing = np.column_stack([_missing(values) for values in columns.values()])
    rows = missing.any(axis=1)
    if not rows.any():
        return
    first = int(rows.argmax())
    column = list(columns)[missing[first].argmax()]
    where = place(index, first)
    if users is not None:
        where += f" (user {users[first]!r})"
    if rows.sum() == 1:
        raise InputError(
            f"Column {column!r} has a missing or infinite value in {where}. "
            "Fill in the value, or drop the row with {missing}.",
            missing="drop",
        )
    raise InputError(
        f"{rows.sum()} of {len(rows)} rows have missing or infinite values; the first one is "
        f"{column!r} in {where}. Fill in the values, or drop the rows with {{missing}}.",
        missing="drop",
    )


def _missing(values: pd.Series) -> np.ndarray:
    if is_time(values):
        return values.isna().to_numpy()
    return ~np.isfinite(values.to_numpy(dtype=np.float64, na_value=np.nan))


def meant_as_numbers(values: pd.Series) -> bool:
    """Return whether a column of text holds numbers except in a few cells."""
    if not is_text(values):
        return False
    bad = not_numbers(values)
    return bool(0 < bad.sum() < FEW_CELLS * values.notna().sum())


def is_text(values: pd.Series) -> bool:
    """Return whether a column holds text, or text mixed with other values."""
    return dtypes.infer_dtype(values) in ("string", "mixed", "mixed-integer")


def is_time(values: pd.Series) -> bool:
    """Return whether a column holds dates or durations."""
    return dtypes.is_datetime64_any_dtype(values) or dtypes.is_timedelta64_dtype(values)


def days(times: pd.Series, users: np.ndarray) -> np.ndarray | None:
    """Convert dates to days since the user's first row, and durations to days.

    Parameters
    ----------
    times : Series
        Times from :func:`times_of`, complete, and in order for every user.
    users : ndarray of int
        Number of each row's user.

    Returns
    -------
    ndarray or None
        None if the times are numbers.
    """
    if not is_time(times):
        return None
    times = times.reset_index(drop=True)
    if dtypes.is_datetime64_any_dtype(times):
        times = times - times.groupby(users).transform("first")
    return (times / pd.Timedelta(days=1)).to_numpy(dtype=np.float64)


def check_order(user: Hashable, index: pd.Index, order: np.ndarray) -> None:
    """Check that a user's rows are in order of time.

    Parameters
    ----------
    user : hashable
        Label of the user.
    index : Index
        Index of the user's rows.
    order : ndarray of int
        Rank of the time of each row.
    """
    late = np.diff(order) < 0
    if late.any():
        raise InputError(
            f"{place(index, late.argmax() + 1).capitalize()} of user {user!r} is earlier than the "
            "one before. "
            "Sort the table by user and time."
        )


def check_gaps(users: Sequence[Hashable], rows: list[np.ndarray], times: np.ndarray) -> None:
    """Check that no user lacks a whole-numbered time, between two of their own, that others have.

    Times that no user has aren't gaps: measurements may be planned at weeks 1, 2, 4 and 8. Tables
    with times that aren't whole numbers aren't checked.
    """
    if np.any(times != np.floor(times)):
        return
    planned = np.unique(times)
    for label, own in zip(users, rows, strict=True):
        places = np.searchsorted(planned, times[own])
        jumps = np.diff(places) > 1
        if jumps.any():
            missed = planned[places[jumps.argmax()] + 1]
            raise InputError(
                f"User {label!r} has no data at time {missed:.0f}, but other users have. "
                "Add the missing rows, or allow gaps with {gaps}.",
                gaps="skip",
            )


def check_varies(names: Sequence[Hashable], values: np.ndarray) -> None:
    """Check that no column is constant.

    Parameters
    ----------
    names : sequence of column names
        Names of the features, then of the target.
    values : ndarray, shape (n, number of names)
    """
    for name, column in zip(names, values.T, strict=True):
        # The standard deviation of distinct but tiny values can underflow to zero.
        if np.ptp(column) == 0 or column.std() == 0:
            remedy = "Choose another target" if name == names[-1] else "Leave it out of {features}"
            raise InputError(
                f"Column {name!r} is constant over the whole cohort. "
                f"{remedy}, or add users for whom it varies.",
                features=...,
            )


def check_lengths(users: Sequence[Any], rows: Sequence[np.ndarray]) -> None:
    """Check that every pilot user has at least two points.

    Parameters
    ----------
    users : sequence
        Labels of the users.
    rows : sequence of ndarray of int
        Row numbers of every user's points.

    Raises
    ------
    InputError
        If a user has one point.
    """
    for label, own in zip(users, rows, strict=True):
        if len(own) < 2:
            raise InputError(
                f"User {label!r} has one point, too few to learn from. "
                "Leave the user out; only new users ({scope}) may have one.",
                scope="new",
            )


def repeats(df: pd.DataFrame, columns: Sequence[Any]) -> str:
    """Return a message with the number of rows that equal an earlier row; "" if there is none."""
    count = df.duplicated(subset=list(dict.fromkeys(columns))).sum()
    if not count:
        return ""
    return (
        f"{count} rows repeat an earlier row's user, time, inputs and target. "
        "Check that they are separate measurements, or drop them."
    )
