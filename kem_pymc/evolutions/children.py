"""Child compositions: what followed a parent composition in the pilot study, and how often."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kem_pymc.evolutions.clusters import Cluster, KernelSummary, summarise
from kem_pymc.kernels.composition import Composition

#: Ends of a 90 % interval.
TAILS = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class Child(KernelSummary):
    """A composition that followed a parent composition in the pilot study.

    Attributes
    ----------
    composition : Composition
    probability : float
        Predictive probability that the next dataset below this parent joins a cluster of this
        composition: the posterior mean of n_child / (alpha + N_parent) over the draws in which the
        parent has members, with alpha as in that draw. The remaining probability, up to one, is
        that of kernels not seen yet.
    count : float
        Posterior mean of n_child over all draws; it is 0 in those without the parent.
    interval : tuple of float
        Equal-tailed 90 % interval of n_child / (alpha + N_parent) over the draws with the parent.
    occurrence : float
        Share of all draws in which the evolution occurs.
    """

    composition: Composition
    probability: float
    count: float
    interval: tuple[float, float]
    occurrence: float


def children_below(
    clusters: Sequence[Cluster], members: np.ndarray, alpha: np.ndarray, noise_floor: float
) -> Iterator[Child]:
    """Yield the children of one parent.

    Parameters
    ----------
    clusters : sequence of Cluster
        Clusters of this parent's process, in all draws.
    members : ndarray, shape (n_draws,)
        Number of members of the process in each draw.
    alpha : ndarray, shape (n_draws,)
        Concentration in each draw.
    noise_floor : float
        Smallest noise variance, in scaled units.
    """
    groups: dict[Composition, list[Cluster]] = {}
    for cluster in clusters:
        groups.setdefault(cluster.child, []).append(cluster)
    for composition, same in groups.items():
        counts = np.zeros(len(members))
        for cluster in same:
            counts[cluster.draw] += cluster.count
        shares = shares_of(counts, members, alpha)
        low, high = np.quantile(shares, TAILS)
        yield Child(
            **vars(summarise(same, noise_floor)),
            composition=composition,
            probability=float(shares.mean()),
            count=float(counts.mean()),
            interval=(float(low), float(high)),
            occurrence=float(np.mean(counts > 0)),
        )


def shares_of(counts: np.ndarray, members: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return n_child / (alpha + N_parent) in the draws with the parent, in order.

    `counts`, `members` and `alpha` have shape (n_draws,).
    """
    occupied = members > 0
    return counts[occupied] / (alpha[occupied] + members[occupied])
