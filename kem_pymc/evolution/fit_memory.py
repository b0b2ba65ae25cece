"""Where fits of clusters are remembered."""

from typing import NamedTuple

import numpy as np

from kem_pymc.references import by_reference

#: Fits that are remembered at once, a power of 2, and the most coordinates of one that is.
MEMORY, LARGEST = 4096, 32


@by_reference
class Fits(NamedTuple):
    """Fits made already; one that has the place of another replaces it.

    Attributes
    ----------
    key : (MEMORY, N + 2 C) bool
        Which datasets are members, which candidates are in, which are in the parent.
    data : (MEMORY, 2) float64
        What tells members' targets apart: their weighted sum, and 1 + their number (0: no fit).
    centre : (MEMORY, LARGEST) float64
    factor : (MEMORY, LARGEST, LARGEST) float64
    """

    key: np.ndarray
    data: np.ndarray
    centre: np.ndarray
    factor: np.ndarray


def no_fits(datasets: int, candidates: int) -> Fits:
    """Return an empty memory. It takes no room before it is used."""
    return Fits(
        key=np.zeros((MEMORY, datasets + 2 * candidates), dtype=np.bool_),
        data=np.zeros((MEMORY, 2)),
        centre=np.zeros((MEMORY, LARGEST)),
        factor=np.zeros((MEMORY, LARGEST, LARGEST)),
    )
