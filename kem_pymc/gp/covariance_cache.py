"""Cache of candidates' covariance matrices.

A step of a chain changes one candidate's hyperparameters, or the set of candidates; the covariances
of the other candidates stay the same. Each of them depends only on a user's inputs and the
candidate's own hyperparameters, so it can be looked up if it has been computed before. The
covariance of a composition is bitwise identical whether those of its candidates come from the cache
or not.
"""

from typing import NamedTuple

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc._system.jit.simd import LANES, add_multiple, load, padded, store
from kem_pymc._system.jit.structs import by_reference
from kem_pymc.gp.covariance import covariance
from kem_pymc.kernels.pool import PoolLayout

#: Number of covariances in the cache, a power of 2, and their maximum size in bytes: with very many
#: points per user the cache holds fewer covariances, or none.
MEMORY, ROOM = 512, 2**25


@by_reference
class Covariances(NamedTuple):
    """Hash table of covariances; a new entry replaces the one in the same slot.

    Attributes
    ----------
    key : (M, 2 + largest number of hyperparameters of a candidate) int64
        Candidate, user, then the bit patterns of the hyperparameters.
    points : (M,) int64
        Number of the user's points that the covariance covers; 0 for an empty slot.
    matrix : (M, n, padded(n)) float64
        Covariances; only upper triangles are read.
    """

    key: np.ndarray
    points: np.ndarray
    matrix: np.ndarray


def no_covariances(layout: PoolLayout, points: int) -> Covariances:
    """Return an empty cache for users with at most `points` points.

    Its arrays occupy no physical memory before they are written to.
    """
    width = int(padded(points))
    places = MEMORY
    while places * 8 * points * width > ROOM:
        places //= 2
    most = int(np.diff(layout.hyper_start).max(initial=0))
    return Covariances(
        key=np.zeros((places, 2 + most), dtype=np.int64),
        points=np.zeros(places, dtype=np.int64),
        matrix=np.zeros((places, points, width)),
    )


@compiled
def place_of(key, places):
    """Return the index of the slot for a key (k,)."""
    digest = 1469598103934665603
    for part in key:
        digest = (digest ^ part) * 1099511628211
        digest ^= digest >> 29
    return digest & (places - 1)


@compiled
def same_key(one, other):
    """Return whether two keys (k,) are equal."""
    for i in range(one.shape[0]):
        if one[i] != other[i]:
            return False
    return True


@compiled
def remembered_covariance(memory, kernels, layout, active, h, user, x, out, scratch):
    """Fill `out` like :func:`~kem_pymc.gp.covariance.covariance`, using and updating a cache.

    Parameters
    ----------
    memory : Covariances
        The cache.
    user : int
        Number of the user whose first n points are `x` (D, n).
    out, scratch : (n, padded(n)) float64
        Output and work array. Narrower arrays would be overrun.
    """
    if memory.points.shape[0] == 0:
        covariance(kernels, layout, active, h, x, out, scratch)
        return
    n = x.shape[1]
    bits = h.view(np.int64)
    key = np.zeros(memory.key.shape[1], dtype=np.int64)
    if active.shape[0] == 0:
        out[:] = 0.0
    for k in range(active.shape[0]):
        first, last = layout.hyper_start[active[k]], layout.hyper_start[active[k] + 1]
        key[:] = 0
        key[0], key[1] = active[k], user
        key[2 : 2 + last - first] = bits[first:last]
        place = place_of(key, memory.points.shape[0])
        stored = memory.matrix[place]
        if memory.points[place] < n or not same_key(memory.key[place], key):
            covariance(kernels, layout, active[k : k + 1], h, x, stored, scratch)
            memory.key[place] = key
            memory.points[place] = n
        for i in range(n):
            for j in range(i // LANES * LANES, n, LANES):
                part = load(stored, i, j)
                store(out, i, j, part if k == 0 else add_multiple(load(out, i, j), 1.0, part))
