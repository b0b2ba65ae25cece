"""Cache of the Laplace approximations that :mod:`~kem_pymc.sampler.moves.fits` makes."""

from typing import NamedTuple

import numpy as np

from kem_pymc._system.jit.structs import by_reference

#: Number of fits in the cache, a power of 2, and largest number of coordinates of a cached fit.
MEMORY, LARGEST = 4096, 32


@by_reference
class Fits(NamedTuple):
    """Hash table of fits; a new entry replaces the one in the same cluster.

    Attributes
    ----------
    key : (MEMORY, N + 2 C) bool
        Indicators of the members, of the composition and of the parent composition.
    data : (MEMORY, 2) float64
        Digest of the members' targets and weights, in two halves of 32 bits.
    centre : (MEMORY, LARGEST) float64
        Modes.
    factor : (MEMORY, LARGEST, LARGEST) float64
        Upper triangles U with curvature U'U.
    """

    key: np.ndarray
    data: np.ndarray
    centre: np.ndarray
    factor: np.ndarray


def no_fits(datasets: int, candidates: int) -> Fits:
    """Return an empty cache; its arrays occupy no physical memory before they are written to."""
    return Fits(
        key=np.zeros((MEMORY, datasets + 2 * candidates), dtype=np.bool_),
        data=np.zeros((MEMORY, 2)),
        centre=np.zeros((MEMORY, LARGEST)),
        factor=np.zeros((MEMORY, LARGEST, LARGEST)),
    )
