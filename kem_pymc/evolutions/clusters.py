"""Clusters of the posterior draws, and summaries of the clusters of one composition."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.kernels.composition import Composition

#: Minimum spread of a coordinate between pilot users' clusters.
LEAST_SPREAD = 0.1

#: Spread if all clusters have the same values.
LONE_SPREAD = 0.4

#: Maximum number of starting points that represent the clusters of a child.
STARTS = 5

#: Maximum number of clusters, the largest ones, from which representatives are chosen.
CONSIDERED = 300


@dataclass(frozen=True)
class Cluster:
    """A cluster of one parent's process in one posterior draw: an evolution with its kernel.

    Attributes
    ----------
    draw : int
        Number of the posterior draw.
    parent, child : Composition
    count : int
        Number of datasets in the cluster.
    values : tuple of float, length k + 1
        Coordinates of the child's kernel, in scaled units: in the pool's order, logs of positive
        hyperparameters and values of the others, then the log noise variance
        (:class:`kem_pymc.gp.coordinates.Coordinates`).
    """

    draw: int
    parent: Composition
    child: Composition
    count: int
    values: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class KernelSummary:
    """Summary of the kernels of one composition in the pilot users' clusters.

    Attributes
    ----------
    centre, spread : ndarray, shape (k + 1,)
        Mean and sd of the coordinates over clusters and draws, each cluster weighted by its
        number of members. The spread is at least 0.1, and 0.4 if all clusters are equal.
    starts : ndarray, shape (s, k + 1)
        Coordinates of at most 5 clusters that represent the others (k-medoids).
    """

    centre: np.ndarray
    spread: np.ndarray
    starts: np.ndarray


def summarise(clusters: Sequence[Cluster], noise_floor: float) -> KernelSummary:
    """Return centre, spread and representatives of clusters that have the same composition.

    Noise variances below the noise floor of fits are first raised to it: how far they are below it
    contains no information on a user's noise, which is fitted at or above the floor.
    """
    counts = np.array([c.count for c in clusters], dtype=np.float64)
    values = np.array([c.values for c in clusters])
    values[:, -1] = np.maximum(values[:, -1], math.log(noise_floor))
    centre = np.average(values, axis=0, weights=counts)
    if len(np.unique(values, axis=0)) == 1:
        spread = np.full(values.shape[1], LONE_SPREAD)
    else:
        spread = np.sqrt(np.average((values - centre) ** 2, axis=0, weights=counts))
        spread = np.maximum(spread, LEAST_SPREAD)
    return KernelSummary(centre, spread, representatives(values, counts, spread))


@one_blas_thread()
def representatives(values: np.ndarray, weights: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return at most `STARTS` rows of `values` that represent the others (greedy k-medoids).

    Parameters
    ----------
    values : ndarray, shape (n, d)
    weights : ndarray, shape (n,)
        Weights of the rows.
    scale : ndarray, shape (d,)
        Unit of distance of each column.

    Returns
    -------
    chosen : ndarray, shape (s, d)
        Rows chosen such that the weighted distances (L1) of all rows to the nearest one are small.
    """
    largest = np.argsort(-weights, kind="stable")[:CONSIDERED]
    values, weights = values[largest], weights[largest]
    distance = np.abs(values[:, None] - values[None]) @ (1 / scale)
    nearest = np.full(len(values), np.inf)
    chosen: list[int] = []
    for _ in range(STARTS):
        cost = weights @ np.minimum(nearest[:, None], distance)
        pick = int(np.argmin(cost))
        if nearest[pick] == 0:  # all other rows are copies of chosen ones
            break
        chosen.append(pick)
        nearest = np.minimum(nearest, distance[pick])
    return values[chosen]
