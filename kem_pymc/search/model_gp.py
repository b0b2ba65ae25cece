"""A Gaussian process over models, which predicts scores that haven't been computed."""

import math

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.stats import norm

from kem_pymc.gp.likelihood import HALF_LOG_2PI

#: Normal priors of the logs of standard deviation, lengthscale and noise, in this order: means and
#: standard deviations. Scores are standardised, and squared distances are between 0 and 1.
MEANS, SDS = np.log([3.0, 2.4, 0.05]), np.array([0.7, 0.7, 1.0])

#: Interquartile ranges below the median at which scores are cut off: how bad the worst models are
#: says nothing about the best ones.
LOWEST = 2.0

#: Added to the diagonal, relative to the variance: distances are Monte Carlo estimates.
JITTER = 1e-6


class ModelGP:
    """A Gaussian process with constant mean and Hellinger squared exponential covariance (eq. 4).

    Scores are standardised. When hyperparameters aren't fitted anew, a further model adds a row to
    the Cholesky factor.

    Parameters
    ----------
    every : int
        Number of models after which hyperparameters are fitted again.
    """

    def __init__(self, every: int = 10) -> None:
        self.every = every
        self._distances = np.empty((0, 0))
        self._scores = np.empty(0)
        self._logs = MEANS.copy()
        self._root = np.empty((0, 0))

    def __len__(self) -> int:
        return len(self._scores)

    def add(self, distances: np.ndarray, score: float) -> None:
        """Add a model, with its squared distances (m,) from the models added before."""
        m = len(self)
        grown = np.zeros((m + 1, m + 1))
        grown[:m, :m] = self._distances
        grown[m, :m] = grown[:m, m] = distances
        self._distances = grown
        self._scores = np.append(self._scores, score)
        if (m + 1) % self.every == 0:
            self._fit()
        else:
            self._extend(distances)

    def expected_improvement(self, distances: np.ndarray) -> np.ndarray:
        """Return the expected improvement of models over the best score, in standardised units.

        Parameters
        ----------
        distances : ndarray, shape (c, m)
            Squared distances of c models from those that were added.

        Returns
        -------
        ndarray, shape (c,)
        """
        mean, sd = self.predict(distances)
        gain = mean - self._standardised().max()
        z = gain / sd
        return gain * norm.cdf(z) + sd * norm.pdf(z)

    def predict(self, distances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (c,) and sd (c,) of the standardised scores of models, without noise."""
        sd, _, _ = np.exp(self._logs)
        cross = self._covariance(distances)
        scores = self._standardised()
        level, weights = _level(self._root, scores)
        half = solve_triangular(self._root, cross.T, lower=True, check_finite=False)
        residual = solve_triangular(self._root, scores - level, lower=True, check_finite=False)
        ones = solve_triangular(self._root, np.ones(len(self)), lower=True, check_finite=False)
        # The last term is due to the estimated mean (Rasmussen & Williams 2006, eq. 2.42).
        missing = (1 - half.T @ ones) ** 2 / weights
        variance = sd**2 - (half**2).sum(axis=0) + missing
        return level + half.T @ residual, np.sqrt(np.maximum(variance, 1e-12))

    def _standardised(self) -> np.ndarray:
        finite = self._scores[np.isfinite(self._scores)]
        if not len(finite):
            return np.zeros(len(self))
        low, median, high = np.quantile(finite, [0.25, 0.5, 0.75])
        scores = np.maximum(self._scores, median - LOWEST * max(high - low, 1e-12))
        spread = scores.std()
        return (scores - scores.mean()) / (spread if spread > 0 else 1.0)

    def _covariance(self, distances: np.ndarray) -> np.ndarray:
        sd, lengthscale, _ = np.exp(self._logs)
        return sd**2 * np.exp(-0.5 * distances / lengthscale**2)

    def _full(self) -> np.ndarray:
        sd, _, noise = np.exp(self._logs)
        covariance = self._covariance(self._distances)
        covariance[np.diag_indices(len(self))] += noise**2 + JITTER * sd**2
        return covariance

    def _extend(self, distances: np.ndarray) -> None:
        m = len(self) - 1
        sd, _, noise = np.exp(self._logs)
        row = solve_triangular(
            self._root, self._covariance(distances), lower=True, check_finite=False
        )
        rest = sd**2 * (1 + JITTER) + noise**2 - row @ row
        root = np.zeros((m + 1, m + 1))
        root[:m, :m] = self._root
        root[m, :m] = row
        # Estimated distances may violate the triangle inequality a little.
        root[m, m] = math.sqrt(max(rest, noise**2))
        self._root = root

    def _fit(self) -> None:
        """Maximise the density of the hyperparameters, with the constant mean profiled out."""
        found = minimize(self._loss, self._logs, method="L-BFGS-B")
        self._logs = found.x
        self._root = _cholesky(self._full())

    def _loss(self, logs: np.ndarray) -> float:
        self._logs = logs
        scores = self._standardised()
        root = _cholesky(self._full())
        level, _ = _level(root, scores)
        residual = solve_triangular(root, scores - level, lower=True, check_finite=False)
        likelihood = -0.5 * residual @ residual - np.log(np.diag(root)).sum()
        likelihood -= HALF_LOG_2PI * len(self)
        return -likelihood + 0.5 * float((((logs - MEANS) / SDS) ** 2).sum())


def _level(root: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """Return the generalised least squares estimate of the mean, and its precision."""
    ones = solve_triangular(root, np.ones(len(scores)), lower=True, check_finite=False)
    precision = float(ones @ ones)
    own = solve_triangular(root, scores, lower=True, check_finite=False)
    return float(ones @ own) / precision, precision


def _cholesky(covariance: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor, with as much jitter as it needs."""
    jitter = 0.0
    while True:
        try:
            return np.linalg.cholesky(covariance + jitter * np.eye(len(covariance)))
        except np.linalg.LinAlgError:
            jitter = max(10 * jitter, 1e-8 * covariance[0, 0])
