"""A Gaussian process over models, which predicts scores that haven't been computed."""

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from kem_pymc.gp.acquisition import expected_improvement
from kem_pymc.gp.posterior import Conditional

#: Normal priors of the logs of hyperparameters: standard deviation and lengthscale of the Hellinger
#: part of the covariance, those of the structural part, and the noise, for standardised scores.
#: Means and standard deviations.
MEANS, SDS = np.log([1.5, 2.0, 1.3, 1.7, 0.05]), np.array([0.7, 0.7, 0.7, 0.5, 1.0])

#: Interquartile ranges below the median at which scores are cut off: how bad the worst models are
#: says nothing about the best ones.
LOWEST = 2.0

#: Added to the diagonal, relative to the variance.
JITTER = 1e-6


class ModelGP:
    """A Gaussian process over models, with a constant mean.

    The covariance is the sum of squared exponentials of the expected Hellinger distance (eq. 4) and
    of the structural distance (:mod:`kem_pymc.search.distances`). Scores are standardised.

    Parameters
    ----------
    every : int
        Number of models after which hyperparameters are fitted again.
    """

    def __init__(self, every: int = 10) -> None:
        self.every = every
        self._distances = np.empty((0, 0, 2))
        self._scores = np.empty(0)
        self._logs = MEANS.copy()

    def __len__(self) -> int:
        return len(self._scores)

    def add(self, distances: np.ndarray, score: float) -> None:
        """Add a model, with its squared distances (m, 2) from the models added before."""
        m = len(self)
        grown = np.zeros((m + 1, m + 1, 2))
        grown[:m, :m] = self._distances
        grown[m, :m] = grown[:m, m] = distances
        self._distances = grown
        self._scores = np.append(self._scores, score)
        if (m + 1) % self.every == 0:  # the constant mean is profiled out
            fitted = minimize(self._loss, self._logs, self._standardised(), method="L-BFGS-B")
            self._logs = fitted.x

    def expected_improvement(self, distances: np.ndarray) -> np.ndarray:
        """Return the expected improvement of models over the best score, in standardised units.

        Parameters
        ----------
        distances : ndarray, shape (c, m, 2)
            Squared distances of c models from those that were added: Hellinger and structural.

        Returns
        -------
        ndarray, shape (c,)
        """
        mean, sd = self.predict(distances)
        return expected_improvement(-mean, sd, -float(self._standardised().max()))

    def predict(self, distances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (c,) and sd (c,) of the standardised scores of models, without noise."""
        given, ones, level = self._conditional(self._standardised())
        cross = self._covariance(distances).T
        added, explained = given.moments(cross)
        # The last term is due to the estimated mean (Rasmussen & Williams 2006, eq. 2.42).
        missing = (1 - ones @ given.whiten(cross)) ** 2 / (ones @ ones)
        variance = self._variance - explained + missing
        return level + added, np.sqrt(np.maximum(variance, 1e-12))

    def _standardised(self) -> np.ndarray:
        finite = self._scores[np.isfinite(self._scores)]
        if not len(finite):
            return np.zeros(len(self))
        low, median, high = np.quantile(finite, [0.25, 0.5, 0.75])
        scores = np.maximum(self._scores, median - LOWEST * max(high - low, 1e-12))
        spread = scores.std()
        return (scores - scores.mean()) / (spread if spread > 0 else 1.0)

    @property
    def _variance(self) -> float:
        sd, _, structural, _, _ = np.exp(self._logs)
        return float(sd**2 + structural**2)

    def _covariance(self, distances: np.ndarray) -> np.ndarray:
        sd, lengthscale, structural, length, _ = np.exp(self._logs)
        hellinger = sd**2 * np.exp(-0.5 * distances[..., 0] / lengthscale**2)
        return hellinger + structural**2 * np.exp(-0.5 * distances[..., 1] / length**2)

    def _conditional(self, scores: np.ndarray) -> tuple[Conditional, np.ndarray, float]:
        """Return what scores (m,) say, with their mean estimated by generalised least squares.

        The second is the whitened vector of ones (m,), and the third the estimate.
        """
        nugget = float(np.exp(2 * self._logs[-1])) + JITTER * self._variance
        full = self._covariance(self._distances) + nugget * np.eye(len(self))
        given = Conditional.of_root(_cholesky(full), scores)
        ones = given.whiten(np.ones(len(scores)))
        level = float(ones @ given.white) / float(ones @ ones)
        return replace(given, white=given.white - level * ones), ones, level

    def _loss(self, logs: np.ndarray, scores: np.ndarray) -> float:
        self._logs = logs
        given, _, _ = self._conditional(scores)
        return -given.log_density + 0.5 * float((((logs - MEANS) / SDS) ** 2).sum())


def _cholesky(covariance: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor, with as much jitter as it needs."""
    jitter = 0.0
    while True:
        try:
            return np.linalg.cholesky(covariance + jitter * np.eye(len(covariance)))
        except np.linalg.LinAlgError:
            jitter = max(10 * jitter, 1e-8 * covariance[0, 0])
