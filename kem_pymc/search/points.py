"""Scaled points of a search, and checks of them."""

import numpy as np
import numpy.typing as npt

from kem_pymc.data.scaling import Scaling
from kem_pymc.data.validation import number_array
from kem_pymc.errors import InputError

#: Smallest number of points of a search among compositions.
FEWEST = 5


def scaled(
    x: npt.ArrayLike, y: npt.ArrayLike, fewest: int = FEWEST
) -> tuple[np.ndarray, np.ndarray, Scaling]:
    """Return inputs scaled to [0, 1], standardised targets, and the scaling.

    Parameters
    ----------
    x : array_like, shape (n, D), or (n,) if D is 1
        Inputs.
    y : array_like, shape (n,)
        Targets.
    fewest : int
        Smallest number of points.

    Raises
    ------
    InputError
        If there are fewer points, the shapes don't match, a value isn't a finite number, or the
        targets or an input column are constant.
    """
    x, y = number_array("inputs", x), number_array("targets", y)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or y.shape != (len(x),) or not x.shape[1]:
        raise InputError(
            f"There are inputs of shape {x.shape} and targets of shape {y.shape}. "
            "Give one row of inputs per target, and at least one column."
        )
    if len(y) < fewest:
        raise InputError(
            f"The number of points is {len(y)}. Give at least {fewest} to search a kernel."
        )
    low, high = x.min(axis=0), x.max(axis=0)
    if (low == high).any():
        column = int(np.argmax(low == high))
        raise InputError(f"Input column {column} is constant at {low[column]}. Leave it out.")
    if np.ptp(y) == 0:
        raise InputError(f"All targets are {y[0]}. Give targets that vary.")
    scaling = Scaling(low, high, float(y.mean()), float(y.std()))
    return scaling.inputs(x), scaling.targets(y), scaling
