"""Input validation of arrays, before anything is computed from them."""

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from kem_pymc._system.display import plural
from kem_pymc.errors import InputError

#: Largest absolute value of data; beyond it, squares and products lose digits in covariances.
LARGEST = 1e12

#: Smallest standard deviation of a column; below it, squares lose digits or are zero.
LEAST_SPREAD = 1e-150


def input_rows(x: npt.ArrayLike, dimension: int, missing: bool = False) -> np.ndarray:
    """Return inputs, shape (m, D) or (m,) if D is 1, as a float64 array (m, D).

    Raises
    ------
    InputError
        If the inputs aren't finite numbers of at most 1e12 in size, or NaN if values may be
        `missing`, or aren't rows of D.
    """
    inputs = number_array("inputs", x, missing)
    if dimension == 1 and inputs.ndim == 1:
        inputs = inputs[:, None]
    if inputs.ndim != 2 or inputs.shape[1] != dimension:
        raise InputError(
            f"The inputs have shape {inputs.shape}. Give one row per point and "
            f"{plural(dimension, 'column')}."
        )
    return inputs


def check_points(
    x: npt.ArrayLike, y: npt.ArrayLike, dimension: int, least: int = 1
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
    least : int
        Least number of points, 0 or 1.

    Raises
    ------
    InputError
        If there are too few points, the shapes don't fit, or a value isn't a finite number of at
        most 1e12 in size.
    """
    x, y = input_rows(x, dimension), number_array("targets", y)
    if y.shape != (len(x),) or len(y) < least:
        raise InputError(
            f"There are inputs of shape {x.shape} and targets of shape {y.shape}. "
            f"Give one target per row of inputs{', for at least one point' * least}."
        )
    return x, y


def check_noise(noise: npt.ArrayLike, y: np.ndarray) -> np.ndarray:
    """Return the known standard deviations (n,) of the noise of targets (n,).

    Raises
    ------
    InputError
        If there isn't one for each target, or one isn't a finite number of zero or more.
    """
    sds = number_array("noise", noise)
    if sds.shape != y.shape or (sds < 0).any():
        raise InputError(
            f"The noise of shape {sds.shape} isn't one standard deviation of zero or more for each "
            f"of {len(y)} targets. Correct it."
        )
    return sds


def number_array(name: str, values: npt.ArrayLike, missing: bool = False) -> np.ndarray:
    """Return real, finite numbers as a float64 array.

    Parameters
    ----------
    name : str
        Name of the values in error messages.
    values : array_like
    missing : bool
        Whether values may be NaN.

    Raises
    ------
    InputError
        If the values aren't a regular array of real numbers, or one of them is infinite, larger
        than 1e12 in size, or missing unless that is allowed.
    """
    try:
        given = np.ma.array(values)
    except ValueError as error:
        raise InputError(f"The {name} have rows of unequal length. Give an array.") from error
    except TypeError as error:  # such as of a variable of PyTensor
        raise InputError(f"The {name} aren't an array. Give an array of numbers.") from error
    if given.dtype.kind not in "biuf":  # strings of digits would convert without complaint
        raise InputError(f"The {name} aren't all numbers. Give an array of real numbers.")
    array = filled(given)
    # NaN compares false.
    if not np.all((np.abs(array) <= LARGEST) | (missing & np.isnan(array))):
        raise InputError(
            f"The {name} contain a missing, infinite or huge value. "
            f"Give finite values of at most {LARGEST:.0e}, rescaled if necessary."
        )
    return np.asarray(array, order="C")


def filled(values: npt.ArrayLike) -> np.ndarray:
    """Return values as a float64 array, NaN where they are masked: what is below isn't data.

    Raises
    ------
    InputError
        If they aren't a regular array of real numbers; None is NaN.
    """
    try:
        given = np.ma.array(values)
        if given.dtype.kind not in "biufO":  # strings of digits would convert without complaint
            raise TypeError(f"they are {given.dtype}")
        return np.ma.array(given, dtype=np.float64).filled(np.nan)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"Values aren't a regular array of real numbers ({error}). Give numbers."
        ) from error


def frozen(values: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> np.ndarray:
    """Return a read-only, C-contiguous copy of an array."""
    array = np.array(values, dtype=dtype, order="C")
    array.flags.writeable = False
    return array


def is_text(name: object) -> bool:
    """Return whether it is text that can be written to files: without lone surrogates."""
    return isinstance(name, str) and name == name.encode("utf-8", "ignore").decode()


def check_ends(user: Hashable, given: npt.ArrayLike, points: int) -> None:
    """Check that prefix lengths increase and end at the number of points."""
    try:
        ends = np.asanyarray(given)
    except ValueError:  # rows of unequal length
        ends = np.array(None)
    counts = ends.ndim == 1 and ends.size and ends.dtype.kind in "iu" and not np.ma.is_masked(ends)
    if not (counts and ends[0] > 0 and np.all(ends[1:] > ends[:-1]) and ends[-1] == points):
        raise InputError(
            f"The time steps of user {user!r} end at {ends.tolist()}. "
            f"Give increasing whole numbers from 1 on, the last one {points}."
        )
