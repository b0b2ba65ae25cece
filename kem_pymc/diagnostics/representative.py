"""Representative clustering of a posterior, based on the expected variation of information."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform

from kem_pymc._system.display import Display, Displayed, Listing, beyond, plural, some
from kem_pymc._system.options import checked
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.diagnostics.quantities import Draws, compositions, parents
from kem_pymc.errors import InputError
from kem_pymc.evolutions.from_posterior import read_shared
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.population.shared_part import SharedPart
from kem_pymc.priors import Priors

if TYPE_CHECKING:
    from xarray import DataTree

    from kem_pymc.model.cluster_model import ClusterModel

#: Number of cuts of each dendrogram that are evaluated.
CUTS = 30

#: Maximum number of clusters, and of members of each, that are shown.
SHOWN, MEMBERS = 20, 6


@dataclass(frozen=True)
class RepresentativeCluster:
    """A cluster of the representative clustering.

    Attributes
    ----------
    parent, composition : Composition
    members : tuple of (user, time step)
        Members, with the labels of users in the posterior; time steps count from 0.
    certainty : float
        Posterior probability of the composition, averaged over members.
    cohesion : float
        Probability that two members share a cluster, averaged over pairs; 1 for a single member.
    """

    parent: Composition
    composition: Composition
    members: tuple[tuple[Any, int], ...]
    certainty: float
    cohesion: float


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Representative(Displayed):
    """Representative clustering of all datasets, see :func:`representative`.

    It has positive probability in the model: the members of a cluster have the same parent.

    Attributes
    ----------
    clusters : tuple of RepresentativeCluster
        In order of parent, then size.
    time_steps : int
        Largest number of time steps of a user.
    pool : CandidatePool
    settings : dict
        Settings of the study, as stored with the posterior.
    shared : SharedPart or None
        Mean function that all users share.
    """

    clusters: tuple[RepresentativeCluster, ...]
    time_steps: int
    pool: CandidatePool
    settings: dict[str, Any]
    shared: SharedPart | None = None

    def model(self, index: int, cohort: Cohort, priors: Priors | None = None) -> "ClusterModel":
        """Return the PyMC model of one cluster's hyperparameters, to be sampled with ``pm.sample``.

        Parameters
        ----------
        index : int
            Index of the cluster in ``clusters``.
        cohort : Cohort
            Pilot users from which the posterior was sampled. For the posterior of a
            :func:`kem_pymc.final_model` these are ``cohort.at(-1)``.
        priors : Priors, optional
            Priors of the study; by default those stored with the posterior, in which custom
            distributions can't be stored.

        Returns
        -------
        ClusterModel

        Raises
        ------
        InputError
            If there is no such cluster, the cohort lacks its users or has other time steps, or the
            priors weren't stored.
        """
        from kem_pymc.model.cluster_model import ClusterModel

        if not 0 <= index < len(self.clusters):
            raise InputError(
                f"There is no cluster {index}. Give an index from 0 to {len(self.clusters) - 1}."
            )
        if cohort.max_steps != self.time_steps:
            raise InputError(
                f"The posterior has {self.time_steps} time steps, but the cohort has "
                f"{cohort.max_steps}. Give the cohort from which it was sampled."
            )
        cluster = self.clusters[index]
        # Labels that aren't numbers are stored as text.
        users: dict[Any, Hashable] = {str(u): u for u in cohort.users}
        return ClusterModel(
            cohort,
            self.pool,
            cluster.composition,
            parent=cluster.parent,
            members=[(users.get(str(u), u), t) for u, t in cluster.members],
            priors=Priors.from_dict(self.settings["priors"]) if priors is None else priors,
            scaling=Scaling.from_dict(self.settings["scaling"]),
            likelihood=self.settings.get("likelihood", "cumulative"),
            shared=None if self.shared is None else replace(self.shared, users=cohort.users),
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row per cluster."""
        rows = [
            {
                "parent": c.parent.label(self.pool.dimension),
                "composition": c.composition.label(self.pool.dimension),
                "datasets": len(c.members),
                "certainty": c.certainty,
                "cohesion": c.cohesion,
                "members": ", ".join(f"{u}/{t}" for u, t in c.members),
            }
            for c in self.clusters
        ]
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        datasets = sum(len(c.members) for c in self.clusters)
        clusters = plural(len(self.clusters), "cluster")
        return f"Representative({clusters} of {plural(datasets, 'dataset')})"

    def _display(self) -> Display:
        table = self.to_frame().head(SHOWN).rename(columns={"members": "user/time step"})
        table["user/time step"] = [
            some((f"{u}/{t}" for u, t in c.members), MEMBERS) for c in self.clusters[:SHOWN]
        ]
        rows, forms = list(table.itertuples(index=False)), {"certainty": ".2f", "cohesion": ".2f"}
        more = beyond(SHOWN, len(self.clusters), "clusters are shown.")
        return Display(repr(self), listings=[Listing(tuple(table), rows, forms, more=more)])


@checked
def representative(idata: "DataTree") -> Representative:
    """Return a clustering that represents all draws of a posterior.

    Every dataset is given its most probable composition, which is also the parent of the user's
    next dataset. Datasets with the same parent and composition are then partitioned so that the
    expected variation of information to the posterior's partitions is minimal (in fact its lower
    bound, Wade & Ghahramani 2018, section 4, which only needs the co-clustering matrix). Hence all
    members of a cluster have the same parent, and every user's sequence of clusters is possible in
    the model.

    Parameters
    ----------
    idata : DataTree
        Posterior of an ``EvolutionModel``.

    Returns
    -------
    Representative
        Its clusters are in order of parent, then size.

    Raises
    ------
    InputError
        If `idata` isn't the posterior of an ``EvolutionModel``.
    """
    draws = Draws.of(idata)
    places = np.argwhere(draws.present)
    code, named = compositions(draws)
    code = code.reshape(-1, *draws.present.shape)
    modal, share = modes(code)
    together = shared_clusters(draws.assignment[:, :, draws.present])
    kind = np.stack([parents(modal)[draws.present], modal[draws.present]], axis=1)
    clusters = []
    for parent, composition in np.unique(kind, axis=0):
        alike = np.flatnonzero((kind == (parent, composition)).all(axis=1))
        label = best_partition(together[np.ix_(alike, alike)])
        for number in np.unique(label):
            members = alike[label == number]
            clusters.append(
                RepresentativeCluster(
                    named[parent],
                    named[composition],
                    tuple((draws.users[u], int(t)) for u, t in places[members]),
                    float(np.mean(share[tuple(places[members].T)])),
                    _cohesion(together[np.ix_(members, members)]),
                )
            )
    clusters.sort(key=lambda c: (c.parent, -len(c.members), c.composition))
    shared = read_shared(idata, draws.settings)
    steps = draws.present.shape[1]
    return Representative(tuple(clusters), steps, draws.pool, draws.settings, shared)


def expected_information(together: np.ndarray, label: np.ndarray) -> float:
    """Return the lower bound of the expected variation of information, up to a constant, in bits.

    It is the mean over i of log2 sum_j [c_j = c_i] - 2 log2 sum_j P_ij [c_j = c_i].

    Parameters
    ----------
    together : ndarray, shape (n, n)
        P, the probability that two items share a cluster.
    label : ndarray, shape (n,)
        c, the cluster of each item.

    Returns
    -------
    float
    """
    same = label[:, None] == label
    size, mass = same.sum(axis=1), (together * same).sum(axis=1)
    return float(np.mean(np.log2(size) - 2 * np.log2(mass)))


def best_partition(together: np.ndarray) -> np.ndarray:
    """Return the partition (n,) that minimises :func:`expected_information`, by local search.

    The search starts from the best cut of two dendrograms (average and complete linkage of 1 - P).
    Single items are moved until no step is an improvement.
    """
    n = len(together)
    if n == 1:
        return np.zeros(1, dtype=int)
    distance = squareform(1 - together, checks=False)
    sizes = np.unique(np.linspace(1, n, min(n, CUTS)).round().astype(int))
    cuts = [cut_tree(linkage(distance, method), sizes).T for method in ("average", "complete")]
    label = min(np.vstack(cuts), key=lambda cut: expected_information(together, cut)).copy()
    while any([_move(together, label, item) for item in range(n)]):  # every item is tried
        pass
    return np.unique(label, return_inverse=True)[1]


def _cost(together: np.ndarray, members: np.ndarray) -> float:
    """Return the contribution of one cluster to n times the expected information."""
    if not len(members):
        return 0.0
    mass = together[np.ix_(members, members)].sum(axis=1)
    return float(len(members) * np.log2(len(members)) - 2 * np.log2(mass).sum())


def _move(together: np.ndarray, label: np.ndarray, item: int) -> bool:
    """Move an item to the existing or new cluster of least cost; return whether it moved."""
    rest = np.flatnonzero(label == label[item])
    rest = rest[rest != item]
    best, target = _cost(together, np.append(rest, item)) - _cost(together, rest), label[item]
    # Only clusters with an item that it shares a cluster with in some draw can be better.
    others = np.unique(label[together[item] > 0])
    for other in (*others[others != label[item]], label.max() + 1):
        members = np.flatnonzero(label == other)
        cost = _cost(together, np.append(members, item)) - _cost(together, members)
        if cost < best - 1e-12:
            best, target = cost, other
    moved = bool(target != label[item])
    label[item] = target
    return moved


def shared_clusters(assignment: np.ndarray) -> np.ndarray:
    """Return the fraction of draws in which two datasets share a cluster (N, N).

    `assignment` has shape (K, S, N).
    """
    flat = assignment.reshape(-1, assignment.shape[-1])
    together = np.zeros((flat.shape[1], flat.shape[1]))
    for draw in flat:
        together += draw[:, None] == draw
    return together / len(flat)


def modes(code: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the most frequent value (U, T) over draws (S, U, T), and its relative frequency."""
    counts = np.apply_along_axis(np.bincount, 0, code, minlength=code.max() + 1)
    return counts.argmax(axis=0), counts.max(axis=0) / len(code)


def _cohesion(together: np.ndarray) -> float:
    n = len(together)
    return 1.0 if n == 1 else float((together.sum() - n) / (n * (n - 1)))
