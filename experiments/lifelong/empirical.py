"""Empirical Gaussian processes (Lin et al. 2026): the prior moments of earlier functions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.stats import gmean

from kem_pymc.lifelong.matern import JITTER, Kernel, fitted

#: Most iterations of expectation-maximisation, largest change of a covariance at which they end,
#: and how many tasks the base kernel counts for.
ROUNDS, SAME, PSEUDO = 20, 1e-12, 4.0


def curve_moments(
    places: Sequence[np.ndarray],
    values: Sequence[np.ndarray],
    noise: float,
    prior: np.ndarray,
    pseudo: float = PSEUDO,
    noisy: bool = False,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return mean (m,) and covariance (m, m) of functions at m points, and the noise variance.

    They maximise the likelihood of all functions with `pseudo` more functions, whose covariance is
    the prior one, by expectation-maximisation in closed form (Lin et al. 2026). If every function
    was observed everywhere without noise, they are the mean and the covariance of the values, the
    latter shrunk towards the prior one.

    Parameters
    ----------
    places : sequence of ndarray of int, shape (n,) each
        Of the points at which each function was observed.
    values : sequence of ndarray, shape (n,) each
        Observations there.
    noise : float
        Variance of the observations' noise.
    prior : ndarray, shape (m, m)
    pseudo : float
        Number of functions for which the prior covariance counts.
    noisy : bool
        Whether the noise variance is learned as well, beginning with the given one.
    """
    count = sum(len(y) for y in values)
    mean, covariance = np.zeros(len(prior)), prior
    for _ in range(ROUNDS):
        means, spread, left = [], pseudo * prior, 0.0
        for own, y in zip(places, values, strict=True):  # the posterior of each function
            total = covariance[np.ix_(own, own)] + noise * np.eye(len(own))
            gain = np.linalg.solve(total, covariance[own]).T
            means.append(mean + gain @ (y - mean[own]))
            after = covariance - gain @ covariance[own]
            spread = spread + after
            left += np.sum((y - means[-1][own]) ** 2) + np.trace(after[np.ix_(own, own)])
        mean = np.mean(means, axis=0)
        away, before = np.array(means) - mean, covariance
        covariance = (spread + away.T @ away) / (len(places) + pseudo)
        noise = float(left) / count if noisy else noise
        if np.abs(covariance - before).max() < SAME:
            break
    return mean, covariance, noise


def typical_kernel(
    tasks: Sequence[tuple[np.ndarray, np.ndarray]], rng: np.random.Generator
) -> Kernel:
    """Return the kernel with the geometric means of the hyperparameters of single tasks.

    Parameters
    ----------
    tasks : sequence of tuple of ndarray
        Points (n, D) and values (n,) of each.
    rng : numpy.random.Generator
        Draws the starting points of fits.
    """
    fits = [fitted(rows, y, rng) for rows, y in tasks]
    lengthscales, variances, noises = map(gmean, zip(*fits, strict=True))
    return Kernel(lengthscales, float(variances.item()), float(noises))


@dataclass(frozen=True, eq=False)
class EmpiricalProcess:
    """A Gaussian process whose prior moments at some points are learned (Lin et al. 2026).

    Elsewhere they follow from those by the base kernel k: with weights ``a(x) = K^-1 k(Z, x)`` the
    mean is ``a(x)^T m``, and the covariance ``k(x, x') + a(x)^T (S - K) a(x')``.

    Attributes
    ----------
    base : Kernel
        With the noise.
    points : ndarray, shape (m, D)
        The points Z.
    moments : tuple of ndarray, shapes (m,) and (m, m)
        Mean m and covariance S of functions there.
    """

    base: Kernel
    points: np.ndarray
    moments: tuple[np.ndarray, np.ndarray]

    @classmethod
    def learn(
        cls, tasks: Sequence[tuple[np.ndarray, np.ndarray]], base: Kernel, noisy: bool = False
    ) -> Self:
        """Return the process of points (n, D) and values (n,) of tasks.

        Moments maximise the likelihood of all tasks with as many more tasks as `PSEUDO`, whose
        covariance is that of the base kernel, by expectation-maximisation in closed form; so does
        the noise variance if `noisy`.
        """
        rows = np.concatenate([rows for rows, _ in tasks])
        points, numbers = np.unique(rows, axis=0, return_inverse=True)
        ends = np.cumsum([len(y) for _, y in tasks])
        places = np.split(numbers.ravel(), ends[:-1])
        prior = base.covariance(points, points) + JITTER * np.eye(len(points))
        values = [y for _, y in tasks]
        *moments, noise = curve_moments(places, values, base.noise, prior, noisy=noisy)
        return cls(replace(base, noise=noise), points, (moments[0], moments[1]))

    @property
    def dimension(self) -> int:
        """Number of columns."""
        return self.points.shape[1]

    @cached_property
    def _prior(self) -> np.ndarray:
        size = len(self.points)
        return self.base.covariance(self.points, self.points) + JITTER * np.eye(size)

    def _weights(self, x: np.ndarray) -> np.ndarray:
        """Return the weights (m, n) of the points for new ones (n, D)."""
        return np.linalg.solve(self._prior, self.base.covariance(self.points, x))

    def mean(self, x: np.ndarray) -> np.ndarray:
        """Return prior means (n,)."""
        return self._weights(x).T @ self.moments[0]

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return prior covariances (n, m) of points (n, D) and (m, D)."""
        more = self.moments[1] - self._prior
        return self.base.covariance(x, z) + self._weights(x).T @ more @ self._weights(z)

    def variance(self, x: np.ndarray) -> np.ndarray:
        """Return prior variances (n,) at points (n, D)."""
        weights = self._weights(x)
        more = self.moments[1] - self._prior
        return self.base.variance + np.einsum("mi,mk,ki->i", weights, more, weights)

    def noise_at(self, x: np.ndarray) -> np.ndarray:
        """Return noise variances (n,)."""
        return np.full(len(x), self.base.noise + JITTER)
