"""Dynamic online ensembles of basis expansions (Waxman and Djuric, TMLR 2024), and IE-GP.

An expert is a linear regression on basis functions phi with normal weights, which take a step of a
random walk before every observation:

    y_t = phi(x_t)' w_t + e_t,    w_t = w_(t-1) + N(0, s I),    w_0 ~ N(0, v I),    e_t ~ N(0, n).

Its posterior is updated by Kalman's equations. An ensemble predicts with a mixture of experts, each
weighted by the density that it had for the observations so far. Incremental ensembles of GPs (Lu
et al. 2022) have random Fourier features and no random walk (s = 0).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from experiments.peers.forecast import Forecast, ForecastSelector, Pilots, Predictor
from kem_pymc.comparison.costs import NOTHING, Cost
from kem_pymc.gp.likelihood import HALF_LOG_2PI
from kem_pymc.gp.mixture import Mixture

#: Settings of the paper's experiments: number of basis functions, variance of a step of the random
#: walk, how far the bases' box reaches beyond the data, lengthscales at which searches begin (as
#: fractions of the range of the data), experts drawn for each, prior and noise variances.
FUNCTIONS, WALK, BOX, LENGTHSCALES, EXPERTS = 100, 1e-3, 1.5, (0.1, 1.0, 10.0), 5
VARIANCE, NOISE = 1.0, 0.25

#: Bounds of logs of hyperparameters, and largest sd with which experts are drawn around the best.
BOUNDS, WIDEST = (-7.0, 5.0), 1.0

#: Step of finite differences.
STEP = 1e-3


class Basis(Protocol):
    """Protocol of basis functions with lengthscales."""

    def features(self, x: np.ndarray, lengthscales: np.ndarray) -> np.ndarray:
        """Return values (n, F) of the functions at inputs (n, D), given lengthscales (D,)."""


@dataclass(frozen=True, eq=False)
class Hilbert:
    """Hilbert-space bases of an additive GP, squared exponential in each feature.

    (Solin and Särkkä 2020.) They are sines on a box, times roots of the spectral density.

    Attributes
    ----------
    centre, reach : ndarray, shape (D,)
        Middle and half the length of the box.
    count : int
        Number of functions of each feature.
    """

    centre: np.ndarray
    reach: np.ndarray
    count: int

    @classmethod
    def of(cls, x: np.ndarray, rng: np.random.Generator) -> Self:  # noqa: ARG003  as Fourier.of
        """Return bases for inputs (n, D)."""
        low, high = x.min(axis=0), x.max(axis=0)
        return cls((low + high) / 2, BOX * (high - low) / 2, max(1, FUNCTIONS // x.shape[1]))

    def features(self, x: np.ndarray, lengthscales: np.ndarray) -> np.ndarray:
        """Return values; see :class:`Basis`."""
        frequencies = np.pi * np.arange(1, self.count + 1) / (2 * self.reach[:, None])
        lengths = lengthscales[:, None]
        density = np.sqrt(2 * np.pi) * lengths * np.exp(-0.5 * (lengths * frequencies) ** 2)
        away = (x - self.centre + self.reach)[:, :, None]
        sines = np.sin(frequencies * away) / np.sqrt(self.reach)[:, None]
        return (sines * np.sqrt(density)).reshape(len(x), -1)


@dataclass(frozen=True, eq=False)
class Fourier:
    """Random Fourier features of a squared exponential GP (Rahimi and Recht 2007).

    Attributes
    ----------
    frequencies : ndarray, shape (F / 2, D)
        Standard normal.
    """

    frequencies: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, rng: np.random.Generator) -> Self:
        """Return features for inputs (n, D)."""
        return cls(rng.normal(size=(FUNCTIONS // 2, x.shape[1])))

    def features(self, x: np.ndarray, lengthscales: np.ndarray) -> np.ndarray:
        """Return values; see :class:`Basis`."""
        angles = (x / lengthscales) @ self.frequencies.T
        return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(len(self.frequencies))


BASES: dict[str, type[Hilbert] | type[Fourier]] = {"hilbert": Hilbert, "fourier": Fourier}


@dataclass(frozen=True, eq=False)
class Expert:
    """A basis with hyperparameters.

    Attributes
    ----------
    basis : Basis
    logs : ndarray, shape (D + 2,)
        Logs of the lengthscales, of the weights' prior variance, and of the noise variance.
    walk : float
        Variance of a step of the weights' random walk.
    """

    basis: Basis
    logs: np.ndarray
    walk: float

    def features(self, x: np.ndarray) -> np.ndarray:
        """Return values (n, F) of the basis functions."""
        return self.basis.features(x, np.exp(self.logs[:-2]))

    @property
    def variance(self) -> float:
        """Prior variance of weights."""
        return float(np.exp(self.logs[-2]))

    @property
    def noise(self) -> float:
        """Noise variance."""
        return float(np.exp(self.logs[-1]))


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Experts with the posteriors of their weights, after some rows.

    Attributes
    ----------
    experts : sequence of Expert, length K
    logs : ndarray, shape (K,)
        Logs of the experts' weights.
    means : list of ndarray, shape (F,) each
    covariances : list of ndarray, shape (F, F) each
    seen : int
        Number of a user's rows that were seen.
    """

    experts: Sequence[Expert]
    logs: np.ndarray
    means: list[np.ndarray]
    covariances: list[np.ndarray]
    seen: int = 0

    @classmethod
    def of(cls, experts: Sequence[Expert], x: np.ndarray) -> Self:
        """Return experts before any row, for inputs like x (n, D)."""
        sizes = [expert.features(x[:1]).shape[1] for expert in experts]
        covariances = [
            expert.variance * np.eye(size) for expert, size in zip(experts, sizes, strict=True)
        ]
        even = np.full(len(experts), -np.log(len(experts)))
        return cls(experts, even, [np.zeros(size) for size in sizes], covariances)

    def after(self, x: np.ndarray, y: np.ndarray) -> Self:
        """Return the ensemble after rows (n, D) and (n,), which arrive one after the other."""
        logs, means, covariances = self.logs.copy(), [], []
        posteriors = zip(self.experts, self.means, self.covariances, strict=True)
        for number, (expert, mean, covariance) in enumerate(posteriors):
            mean, covariance = mean.copy(), covariance.copy()
            for phi, target in zip(expert.features(x), y, strict=True):
                covariance[np.diag_indices_from(covariance)] += expert.walk
                cross = covariance @ phi
                total = phi @ cross + expert.noise
                error = target - phi @ mean
                logs[number] -= 0.5 * (error**2 / total + np.log(total)) + HALF_LOG_2PI
                mean += cross * (error / total)
                covariance -= np.outer(cross, cross / total)
            means.append(mean)
            covariances.append(covariance)
        logs -= logsumexp(logs)
        return type(self)(self.experts, logs, means, covariances, self.seen + len(y))

    def observations(self, x: np.ndarray) -> Mixture:
        """Return the distribution of the next observation at each input; see `Predictor`."""
        mean, variance = np.empty((2, len(self.experts), len(x)))
        posteriors = zip(self.experts, self.means, self.covariances, strict=True)
        for number, (expert, weights, covariance) in enumerate(posteriors):
            phi = expert.features(x)
            mean[number] = phi @ weights
            spread = np.einsum("nf,fg,ng->n", phi, covariance, phi)
            variance[number] = spread + expert.walk * (phi**2).sum(axis=1) + expert.noise
        return Mixture(np.exp(self.logs), mean, np.sqrt(variance))


def evidence(features: np.ndarray, y: np.ndarray, variance: float, noise: float) -> float:
    """Return the log evidence of targets (n,), given values (n, F) of basis functions.

    It is that of normal weights with a prior variance (Bishop 2006, eq. 3.86).
    """
    n, size = features.shape
    precision = np.eye(size) / variance + features.T @ features / noise
    root = np.linalg.cholesky(precision)
    white = np.linalg.solve(root, features.T @ y / noise)
    logs = n * np.log(noise) + size * np.log(variance) + 2 * np.log(np.diag(root)).sum()
    return float(-0.5 * (y @ y / noise - white @ white + logs) - n * HALF_LOG_2PI)


def pretrained(
    basis: Basis, rows: Sequence[tuple[np.ndarray, np.ndarray]], start: float, walk: float
) -> tuple[Expert, np.ndarray]:
    """Return the expert with the largest evidence, and a root of its Laplace covariance.

    Parameters
    ----------
    basis : Basis
    rows : sequence of tuple of ndarray
        Inputs (n, D) and targets (n,) of each stream.
    start : float
        Lengthscale at which the search begins.
    walk : float
    """
    columns = rows[0][0].shape[1]

    def loss(logs: np.ndarray) -> float:
        lengths, variance, noise = np.exp(logs[:-2]), np.exp(logs[-2]), np.exp(logs[-1])
        each = ((basis.features(x, lengths), y) for x, y in rows)
        return -sum(evidence(phi, y, variance, noise) for phi, y in each)

    first = np.log([*[start] * columns, VARIANCE, NOISE])
    found = minimize(loss, first, method="L-BFGS-B", bounds=[BOUNDS] * len(first))
    curvature, many = np.empty((len(first), len(first))), range(len(first))
    steps = STEP * np.eye(len(first))
    for i in many:
        for j in range(i + 1):
            ends = ((a * b, a * steps[i] + b * steps[j]) for a in (1, -1) for b in (1, -1))
            second = sum(sign * loss(found.x + by) for sign, by in ends) / (4 * STEP**2)
            curvature[i, j] = curvature[j, i] = second
    values, vectors = np.linalg.eigh(curvature)
    return Expert(basis, found.x, walk), vectors / np.sqrt(np.maximum(values, WIDEST**-2))


class EnsembleSelector(ForecastSelector):
    """An ensemble whose experts have hyperparameters found for pilot users.

    As in the paper, these have the largest evidence of the rows for pretraining, or are drawn
    around it by Laplace's approximation, and weights begin with their prior. Every pilot user is a
    stream with weights of its own, as a new user is.

    Parameters
    ----------
    pilots : Pilots
    basis : {"hilbert", "fourier"}
        Basis functions.
    walk : float
        Variance of a step of the random walk.
    seed : int
    """

    def __init__(self, pilots: Pilots, basis: str, walk: float, seed: int) -> None:
        self.scaling = pilots.scaling
        rng = np.random.default_rng(seed)
        own, rows = BASES[basis].of(pilots.x, rng), pilots.by_user()
        experts = []
        for length in LENGTHSCALES:
            best, root = pretrained(own, rows, length, walk)
            experts.append(best)
            for _ in range(EXPERTS - 1):
                logs = best.logs + root @ rng.normal(size=len(root))
                experts.append(Expert(own, np.clip(logs, *BOUNDS), walk))
        self.ensemble = Ensemble.of(experts, pilots.x)

    def _update(
        self, x: np.ndarray, y: np.ndarray, previous: Forecast | None
    ) -> tuple[Predictor, Cost]:
        known = None if previous is None else previous.predictor
        before = known if isinstance(known, Ensemble) else self.ensemble
        return before.after(x[before.seen :], y[before.seen :]), NOTHING
