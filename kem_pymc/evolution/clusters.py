"""Clusters of the posterior draws, and what those of one composition have in common."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kem_pymc.kernels.composition import Composition
from kem_pymc.machine import one_blas_thread

#: Smallest spread of a coordinate between pilot users' clusters.
LEAST_SPREAD = 0.1

#: The spread where there is one value alone.
LONE_SPREAD = 0.4

#: How many starting points represent the clusters of a child.
STARTS = 5

#: Representatives are chosen from at most this many clusters, the largest.
CONSIDERED = 300


@dataclass(frozen=True)
class Cluster:
    """One cluster of one parent's process in one posterior draw: an evolution with its kernel.

    Attributes
    ----------
    draw : int
    parent, child : Composition
    count : int
        How many data sets are its members.
    values : tuple of float, length k + 1
        Coordinates of the child's kernel: in the pool's order, logs of positive hyperparameters
        and values of the others, then the log noise variance
        (:class:`kem_pymc.gp.objective.Coordinates`). In scaled units.
    """

    draw: int
    parent: Composition
    child: Composition
    count: int
    values: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Typical:
    """What pilot users' clusters say about the kernel of one composition.

    Attributes
    ----------
    centre, spread : ndarray, shape (k + 1,)
        Mean and sd of the coordinates over clusters and draws, each cluster weighted by its
        members. The spread is at least 0.1, and 0.4 where there is one value.
    starts : ndarray, shape (s, k + 1)
        At most 5 clusters' coordinates that represent the others (k-medoids).
    """

    centre: np.ndarray
    spread: np.ndarray
    starts: np.ndarray


def summarise(clusters: Sequence[Cluster], noise_floor: float) -> Typical:
    """Return centre, spread and representatives of clusters that share a composition.

    Noise variances below the floor of fits are raised to it first: how far below it they are says
    nothing about a user's noise, which is fitted at or above it.
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
    return Typical(centre, spread, representatives(values, counts, spread))


@one_blas_thread()
def representatives(values: np.ndarray, weights: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return at most `STARTS` rows of `values` to which the others are near (greedy k-medoids).

    Parameters
    ----------
    values : ndarray, shape (n, d)
    weights : ndarray, shape (n,)
    scale : ndarray, shape (d,)
        Unit of distance of each column.
    """
    largest = np.argsort(-weights, kind="stable")[:CONSIDERED]
    values, weights = values[largest], weights[largest]
    distance = np.abs(values[:, None] - values[None]) @ (1 / scale)
    nearest = np.full(len(values), np.inf)
    chosen: list[int] = []
    for _ in range(STARTS):
        cost = weights @ np.minimum(nearest[:, None], distance)
        pick = int(np.argmin(cost))
        if nearest[pick] == 0:  # the rest are copies
            break
        chosen.append(pick)
        nearest = np.minimum(nearest, distance[pick])
    return values[chosen]
