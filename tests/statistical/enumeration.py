"""The exact posterior of problems small enough to list every partition and all compositions.

Hyperparameters have priors so narrow that they are as good as fixed; the noise is integrated out
of every cluster by Gauss-Hermite quadrature.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy import stats

type Composition = tuple[bool, ...]
#: Datasets are numbered user by user, time step by time step. A clustering is the first dataset
#: in the cluster of each, with the composition of each.
type Clustering = tuple[tuple[int, ...], tuple[Composition, ...]]

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


class Problem(NamedTuple):
    """A tiny study.

    Attributes
    ----------
    covariances : sequence of (C, n, n) arrays
        Of every dataset under every candidate.
    targets : sequence of (n,) arrays
    step : tuple of int
        Time step of every dataset.
    concentration : float
    stay : float
    enter : tuple of float
    noise : tuple of (mu, sigma)
        Log-normal prior of the noise variance by the parent's size.
    known : tuple of int
        How many of the first points of every dataset its likelihood is conditioned on.
    errors : sequence of (n,) arrays
        Known variances of the targets' own noise.
    """

    covariances: Sequence[np.ndarray]
    targets: Sequence[np.ndarray]
    step: tuple[int, ...]
    concentration: float
    stay: float
    enter: tuple[float, ...]
    noise: tuple[tuple[float, float], ...]
    known: tuple[int, ...]
    errors: Sequence[np.ndarray]

    def __hash__(self) -> int:
        return id(self)


def normal_log_densities(covariance: np.ndarray, y: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return log N(y; 0, covariance + v I) for every v of the noise variances."""
    variance, vectors = np.linalg.eigh(covariance)
    sums = variance[:, None] + noise
    squares = ((vectors.T @ y) ** 2)[:, None]
    return -0.5 * (squares / sums + np.log(2 * math.pi * sums)).sum(0)


@cache
def log_base(problem: Problem, parent: Composition, own: Composition, members: tuple) -> float:
    """Return the log of the base distribution times likelihood of a cluster, noise integrated."""
    total = 0.0
    for was, now, enter in zip(parent, own, problem.enter, strict=True):
        p = problem.stay if was else enter
        total += math.log(p if now else 1 - p)
    mu, sigma = problem.noise[sum(parent)]
    noise = np.exp(mu + sigma * NODES)
    log_likelihood = np.zeros(len(NODES))
    for d in members:
        covariance = np.einsum("c,cij->ij", np.array(own, dtype=float), problem.covariances[d])
        covariance += np.diag(problem.errors[d])
        y, known = problem.targets[d], problem.known[d]
        log_likelihood += normal_log_densities(covariance, y, noise)
        log_likelihood -= normal_log_densities(covariance[:known, :known], y[:known], noise)
    top = log_likelihood.max()
    weighted = WEIGHTS @ np.exp(log_likelihood - top) / math.sqrt(2 * math.pi)
    return total + top + math.log(weighted)


def partitions(items: Sequence[int]) -> Iterator[list[list[int]]]:
    """Yield all partitions of a set."""
    if not items:
        yield []
        return
    for rest in partitions(items[:-1]):
        for k in range(len(rest)):
            yield [*rest[:k], [*rest[k], items[-1]], *rest[k + 1 :]]
        yield [*rest, [items[-1]]]


def clusterings(
    problem: Problem, datasets: Sequence[int], parents: dict[int, Composition]
) -> Iterator[tuple[dict[int, int], dict[int, Composition], float]]:
    """Yield labels, compositions and log weight of all clusterings given datasets' parents."""
    alpha = problem.concentration
    choices = list(product((False, True), repeat=len(problem.enter)))
    for blocks in partitions(datasets):
        if any(len({parents[d] for d in block}) > 1 for block in blocks):
            continue
        for owns in product(choices, repeat=len(blocks)):
            labels, compositions, weight = {}, {}, 0.0
            for block, own in zip(blocks, owns, strict=True):
                labels |= dict.fromkeys(block, block[0])
                compositions |= dict.fromkeys(block, own)
                weight += math.log(alpha) + math.lgamma(len(block))
                weight += log_base(problem, parents[block[0]], own, tuple(block))
            for members in Counter(parents[d] for d in datasets).values():
                weight -= math.lgamma(alpha + members) - math.lgamma(alpha)
            yield labels, compositions, weight


def _normalised(weights: dict[Clustering, float]) -> dict[Clustering, float]:
    top = max(weights.values())
    total = sum(math.exp(w - top) for w in weights.values())
    return {key: math.exp(w - top) / total for key, w in weights.items()}


def joint_posterior(problem: Problem) -> dict[Clustering, float]:
    """Return the posterior of the whole model."""
    n = len(problem.step)
    nothing = (False,) * len(problem.enter)
    weights: dict[Clustering, float] = {}
    choices = list(product((False, True), repeat=len(nothing)))
    for given in product(choices, repeat=n):
        parents = {d: given[d - 1] if problem.step[d] else nothing for d in range(n)}
        for labels, compositions, weight in _within(problem, parents, given):
            weights[_key(n, labels, compositions)] = weight
    return _normalised(weights)


def _within(problem, parents, given):
    """Yield the clusterings in which every dataset has the composition that is given."""
    n, alpha = len(given), problem.concentration
    denominators = sum(
        math.lgamma(alpha + m) - math.lgamma(alpha) for m in Counter(parents.values()).values()
    )
    for blocks in partitions(range(n)):
        kinds = [{(parents[d], given[d]) for d in block} for block in blocks]
        if any(len(kind) > 1 for kind in kinds):
            continue
        weight = -denominators
        for block in blocks:
            weight += math.log(alpha) + math.lgamma(len(block))
            weight += log_base(problem, parents[block[0]], given[block[0]], tuple(block))
        yield {d: block[0] for block in blocks for d in block}, dict(enumerate(given)), weight


def cut_posterior(problem: Problem) -> dict[Clustering, float]:
    """Return the posterior of two time steps, the second given the first, which ignores it.

    Only where no second dataset can be a member of the empty composition's process.
    """
    n = len(problem.step)
    first = [d for d in range(n) if problem.step[d] == 0]
    second = [d for d in range(n) if problem.step[d] == 1]
    posterior: dict[Clustering, float] = defaultdict(float)
    begin = {d: (False,) * len(problem.enter) for d in first}
    ways = list(clusterings(problem, first, begin))
    total = np.logaddexp.reduce([weight for *_, weight in ways])
    for labels, compositions, weight in ways:
        if not all(any(c) for c in compositions.values()):
            continue
        parents = {d: compositions[d - 1] for d in second}
        after = list(clusterings(problem, second, parents))
        below = np.logaddexp.reduce([w for *_, w in after])
        for later, laters, w in after:
            key = _key(n, labels | later, compositions | laters)
            posterior[key] += math.exp(weight - total + w - below)
    return dict(posterior)


def _key(n: int, labels: dict[int, int], compositions: dict[int, Composition]) -> Clustering:
    return tuple(labels[d] for d in range(n)), tuple(compositions[d] for d in range(n))


def visited(assignment: np.ndarray, included: np.ndarray) -> Clustering:
    """Return the clustering of a sampler's state, from clusters (N,) and composition by cluster."""
    clusters = assignment.tolist()
    labels = tuple(clusters.index(cluster) for cluster in clusters)
    return labels, tuple(tuple(bool(v) for v in included[cluster]) for cluster in clusters)


class Estimate(NamedTuple):
    """The probability of an event, as it is and as batches of visits have it."""

    exact: float
    found: float
    error: float

    @property
    def difference(self) -> float:
        """What was found minus what is."""
        return self.found - self.exact


#: Batches of visits whose means give standard errors.
BATCHES = 40


def estimates(
    visits: Sequence[Clustering], exact: dict[Clustering, float]
) -> dict[object, Estimate]:
    """Return what marginal questions say: who shares a cluster, who has what.

    Asked are every partition, every dataset's every composition, and the ten most probable
    clusterings. Events expected fewer than 200 times are left out. A visit that isn't possible is
    an error.
    """
    events: dict[object, set[Clustering]] = defaultdict(set)
    for clustering in exact:
        labels, compositions = clustering
        events["partition", labels].add(clustering)
        for d, composition in enumerate(compositions):
            events["composition", d, composition].add(clustering)
    for clustering in sorted(exact, key=lambda c: -exact[c])[:10]:
        events["clustering", clustering].add(clustering)
    assert all(clustering in exact for clustering in visits)
    found: dict[object, Estimate] = {}
    for event, members in events.items():
        p = sum(exact[c] for c in members)
        if not 200 < p * len(visits) < len(visits) - 200:
            continue
        seen = np.array([v in members for v in visits], dtype=float)
        means = np.array([b.mean() for b in np.array_split(seen, BATCHES)])
        found[event] = Estimate(p, seen.mean(), means.std(ddof=1) / math.sqrt(BATCHES))
    return found


def z_scores(visits: Sequence[Clustering], exact: dict[Clustering, float]) -> dict[object, float]:
    """Return the z scores of `estimates`, the largest first."""
    scores = {}
    for event, estimate in estimates(visits, exact).items():
        t = estimate.difference / estimate.error
        z = stats.norm.isf(stats.t.sf(abs(t), BATCHES - 1))
        scores[event] = math.copysign(z, t)
    return dict(sorted(scores.items(), key=lambda item: -abs(item[1])))
