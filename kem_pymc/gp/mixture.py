"""Mixtures of normal distributions, for predictions averaged over several kernels."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import logsumexp, ndtr, ndtri

from kem_pymc.data.transforms import Transform
from kem_pymc.gp.likelihood import HALF_LOG_2PI

#: Largest number of steps for a quantile, of which every other one halves its range; and the
#: error, in sds of a normal distribution of the same probability, at which they end.
STEPS, EXACT = 80, 1e-11


#: Largest number of normal distributions of which all pairs are compared for the CRPS.
PAIRED = 300

#: Probabilities of the quantiles over whose scores the CRPS of other mixtures is averaged.
_LEVELS = (np.arange(200) + 0.5) / 200

#: Quadrature nodes and weights for the moments of a transformed normal distribution.
_NODES, _SHARES = hermegauss(40)
_SHARES = _SHARES / _SHARES.sum()


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of K normal distributions at each of m places, with the same weights everywhere.

    Attributes
    ----------
    weights : ndarray, shape (K,)
        Weights, which add up to one.
    mean, sd : ndarray, shape (K, m)
        Means and standard deviations of the normal distributions.
    transform : Transform, optional
        A transform g: the distribution is that of y, where g(y) has the mixture.
    """

    weights: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    transform: Transform | None = None

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation (m,), of a transformed mixture by quadrature."""
        if self.transform is None:
            mean = self.weights @ self.mean
            return mean, np.sqrt(self.weights @ (self.sd**2 + (self.mean - mean) ** 2))
        shares = np.multiply.outer(_SHARES, self.weights)
        values = self.transform.inverse(self.mean + np.multiply.outer(_NODES, self.sd))
        mean = np.einsum("jk,jkm->m", shares, values)
        return mean, np.sqrt(np.einsum("jk,jkm->m", shares, (values - mean) ** 2))

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """Return the log density (m,) at values (m,)."""
        slope: np.ndarray | float = 0.0
        if self.transform is not None:
            y, slope = self.transform.forward(y), self.transform.log_slope(y)
        z = (y - self.mean) / self.sd
        terms = -0.5 * z**2 - np.log(self.sd) - HALF_LOG_2PI
        return logsumexp(terms, b=self.weights[:, None], axis=0) + slope

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """Return the cumulative distribution function (m,) at values (m,)."""
        if self.transform is not None:
            y = self.transform.forward(y)
        total = self.weights @ ndtr((y - self.mean) / self.sd)
        return np.minimum(total, 1.0)  # weights may add up to more by rounding

    def quantile(self, probability: float) -> np.ndarray:
        """Return quantiles (m,), which lie between those of the normal distributions."""
        ends = self.mean + ndtri(probability) * self.sd
        normal = replace(self, transform=None)
        found = inverted(normal.cdf, ends.min(axis=0), ends.max(axis=0), probability)
        return found if self.transform is None else self.transform.inverse(found)

    def crps(self, y: np.ndarray) -> np.ndarray:
        """Return the continuous ranked probability score (m,) at values (m,), smaller is better.

        The closed form is used: E|Y - y| - E|Y - Y'| / 2 (Grimit et al. 2006). Of a transformed
        mixture, or one of very many distributions, it is twice the mean of the quantile scores
        (Gneiting and Raftery 2007).
        """
        if self.transform is not None or len(self.weights) > PAIRED:
            quantiles = np.array([self.quantile(level) for level in _LEVELS])
            losses = ((y < quantiles) - _LEVELS[:, None]) * (quantiles - y)
            return 2 * losses.mean(axis=0)
        from_y = self.weights @ _mean_distance(y - self.mean, self.sd)
        apart = self.mean[:, None] - self.mean[None]
        spread = np.hypot(self.sd[:, None], self.sd[None])
        pairs = np.outer(self.weights, self.weights)
        return from_y - 0.5 * np.einsum("kl,klm->m", pairs, _mean_distance(apart, spread))


def inverted(
    cdf: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray, probability: float
) -> np.ndarray:
    """Return quantiles (m,) between two values (m,) of a continuous distribution function.

    Linear interpolation and halving take turns, of the distribution function's probit, which is
    nearly linear.
    """
    probit = ndtri(probability)
    below, above = (ndtri(cdf(end)) - probit for end in (low, high))
    for step in range(STEPS):
        with np.errstate(divide="ignore", invalid="ignore"):  # where all parts are the same
            linear = np.nan_to_num(np.clip(below / (below - above), 0, 1), nan=0.5)
        middle = low + (high - low) * (0.5 if step % 2 else linear)
        away = ndtri(cdf(middle)) - probit
        if (np.abs(away) < EXACT).all():
            break
        low, below = np.where(away < 0, (middle, away), (low, below))
        high, above = np.where(away < 0, (high, above), (middle, away))
    return middle


def _mean_distance(distance: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Return E|Z| for Z ~ N(distance, sd^2)."""
    z = distance / sd
    return sd * (z * (2 * ndtr(z) - 1) + 2 * np.exp(-0.5 * z**2 - HALF_LOG_2PI))
