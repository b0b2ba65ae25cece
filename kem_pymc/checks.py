"""What data have to be before anything is computed from them: the door of the package.

Every refusal is an :class:`InputError` that names the column, the row or the user.
"""

from collections.abc import Hashable, Sequence
from numbers import Integral

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types as dtypes

from kem_pymc.errors import InputError

#: Beyond this, squares and products of values lose the digits that a covariance needs.
LARGEST = 1e12


def check_points(
    x: npt.ArrayLike, y: npt.ArrayLike, dimension: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of one user as float64 arrays of shape (n, D) and (n,).

    Parameters
    ----------
    x : array_like, shape (n, D), or (n,) if D is 1
    y : array_like, shape (n,)
    dimension : int
        D.

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
    """Return real, finite numbers as a float64 array."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"The {name} have rows of unequal length. Give an array.") from error
    if array.dtype.kind not in "biuf":  # strings of digits would convert without complaint
        raise InputError(f"The {name} aren't all numbers. Give an array of real numbers.")
    if not np.all(np.abs(array.astype(np.float64)) <= LARGEST):  # NaN compares false
        raise InputError(
            f"The {name} hold a missing, infinite or huge value. "
            f"Give finite values of at most {LARGEST:.0e}, rescaled if need be."
        )
    return np.asarray(array, dtype=np.float64, order="C")


def frozen(values: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> np.ndarray:
    """Return a read-only copy."""
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


def check_options(batch: int | None, gaps: str, scope: str) -> None:
    """Check the options of a table reader."""
    if batch is not None and not (isinstance(batch, Integral) and batch >= 1):
        raise InputError(f"batch={batch!r} is no number of points. Give 1 or more, or None.")
    if gaps not in ("error", "skip"):
        raise InputError(f"gaps={gaps!r} is unknown. Give 'error' or 'skip'.")
    if scope not in ("pilot", "new"):
        raise InputError(f"scope={scope!r} is unknown. Give 'pilot' or 'new'.")


def check_columns(
    df: pd.DataFrame,
    user: Hashable,
    time: Hashable,
    target: Hashable,
    features: Sequence[Hashable] | None,
) -> tuple[Hashable, ...]:
    """Return the feature columns, once the table has every column in its one role."""
    if not isinstance(df, pd.DataFrame):
        raise InputError(f"The table is a {type(df).__name__}. Give a pandas DataFrame.")
    if not df.columns.is_unique:
        twice = df.columns[df.columns.duplicated()][0]
        raise InputError(f"The table has two columns {twice!r}. Rename or drop one of them.")
    roles = (user, time, target)
    if features is None:
        numeric = [column for column in df.columns if dtypes.is_numeric_dtype(df[column])]
        features = [column for column in numeric if column not in roles] or [time]
    features = (features,) if isinstance(features, str) else tuple(features)
    for column in (*roles, *features):
        if column not in df.columns:
            raise InputError(f"The table has no column {column!r}. Name one of {list(df.columns)}.")
    if len({*roles}) < len(roles):
        raise InputError(
            f"User, time and target are columns {list(roles)}. Name three different columns."
        )
    if not features or len(set(features)) < len(features) or {user, target} & set(features):
        raise InputError(
            f"The features {list(features)} are none, repeated, or hold the user or the target. "
            "Name each input column once."
        )
    if df.empty:
        raise InputError("The table has no rows. Give at least one row per user.")
    return features


def numbers(df: pd.DataFrame, column: Hashable) -> np.ndarray:
    """Return a column as float64, once it holds nothing but usable numbers."""
    found = finite(df, column)
    huge = np.abs(found) > LARGEST
    if huge.any():
        raise InputError(
            f"Column {column!r} has a value beyond {LARGEST:.0e} in row {df.index[huge.argmax()]}. "
            "Rescale the column, for example by another unit."
        )
    return found


def finite(df: pd.DataFrame, column: Hashable) -> np.ndarray:
    """Return a column as float64, once it holds nothing but finite numbers."""
    values = df[column]
    if not dtypes.is_numeric_dtype(values) or dtypes.is_complex_dtype(values):
        raise InputError(
            f"Column {column!r} has type {values.dtype} where numbers belong. "
            "Convert it, for example with pandas.to_numeric."
        )
    found = values.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~np.isfinite(found)
    if bad.any():
        raise InputError(
            f"Column {column!r} has a missing or infinite value in row {df.index[bad.argmax()]}. "
            "Fill in the value or drop the row."
        )
    return found


def time_order(df: pd.DataFrame, time: Hashable) -> np.ndarray:
    """Return the rank of each row's time; equal times share a rank."""
    times = df[time]
    if dtypes.is_datetime64_any_dtype(times) or dtypes.is_timedelta64_dtype(times):
        missing = times.isna().to_numpy()
        if missing.any():
            raise InputError(
                f"Column {time!r} has no time in row {df.index[missing.argmax()]}. "
                "Fill in the time or drop the row."
            )
    else:
        finite(df, time)
    return times.rank(method="dense").to_numpy(dtype=np.int64)


def check_order(user: Hashable, index: pd.Index, order: np.ndarray) -> None:
    """Check that a user's rows are in order of time."""
    late = np.diff(order) < 0
    if late.any():
        raise InputError(
            f"Row {index[late.argmax() + 1]} of user {user!r} is earlier than the one before. "
            "Sort the table by user and time."
        )


def check_gaps(users: Sequence[Hashable], rows: list[np.ndarray], times: np.ndarray) -> None:
    """Check that whole-numbered times leave none out."""
    if np.any(times != np.floor(times)):
        return
    for label, own in zip(users, rows, strict=True):
        jumps = np.diff(times[own]) > 1
        if jumps.any():
            raise InputError(
                f"User {label!r} has no data at time {times[own][jumps.argmax()] + 1:.0f}. "
                "Add the missing rows, or pass gaps='skip' if time steps may be left out."
            )


def check_varies(names: Sequence[Hashable], values: np.ndarray) -> None:
    """Check that no column (n, names) is constant."""
    for name, column in zip(names, values.T, strict=True):
        # The sd of distinct but tiny values can underflow to zero.
        if np.ptp(column) == 0 or column.std() == 0:
            raise InputError(
                f"Column {name!r} is constant over the whole cohort. "
                "Drop the column, or add users for whom it varies."
            )
