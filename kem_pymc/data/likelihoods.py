"""Distributions of an observation y given its latent value g, and normal approximations of them.

Every likelihood has the same methods, whose arguments are targets y (n,), latent values g with last
axis n, and sizes (n,): exposures of counts and trials of binomials, not used by the others. What
they return has the shape of g. All of them are larger, in the stochastic order, where g is.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import (
    betainc,
    betaln,
    expit,
    gammainc,
    gammaincc,
    gammaincinv,
    gammaln,
    log_expit,
    log_ndtr,
    logsumexp,
    ndtr,
    ndtri,
    polygamma,
    psi,
    stdtr,
    stdtrit,
    xlogy,
)
from scipy.stats import binom, poisson

from kem_pymc.data.transforms import LARGEST
from kem_pymc.data.validation import LARGEST as LARGEST_TARGET

HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)

#: Least weight of an observation; its inverse is a variance, which has to be finite.
LEAST = 1e-12

#: Gauss-Hermite nodes, and their log weights without the factor of the normal density.
NODES, _WEIGHTS = hermegauss(40)
LOG_WEIGHTS = np.log(_WEIGHTS) + 0.5 * NODES**2

#: The logistic function is a mixture of normal distribution functions of these precisions' roots,
#: with these shares, to 2e-9 (Monahan and Stefanski 1992, in Balakrishnan, Handbook of the logistic
#: distribution).
LOGISTIC_ROOTS = np.array(
    [
        *(1.365340806296348, 1.059523971016916, 0.830791313765644, 0.650732166639391),
        *(0.508135425366489, 0.396313345166341, 0.308904252267995, 0.238212616409306),
    ]
)
LOGISTIC_SHARES = np.array(
    [
        *(0.003246343272134, 0.051517477033972, 0.195077912673858, 0.315569823632818),
        *(0.274149576158423, 0.131076880695470, 0.027912418727972, 0.001449567805354),
    ]
)

#: Newton steps to a mode, the longest of them, and how exact the last has to be, in sds.
STEPS, LONGEST, CLOSE = 50, 2.0, 1e-8


class Likelihood(Protocol):
    """Protocol of the distribution of an observation given its latent value."""

    def support(self, sizes: np.ndarray) -> tuple[float | np.ndarray, float | np.ndarray]:
        """Return the smallest and the largest value of y."""

    def pseudo_observations(
        self, y: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return z (n,) and v (n,): as a function of g, the likelihood is about N(z; g, v)."""

    def log_density(self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Return the log density of y, or its log probability."""

    def derivatives(
        self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivative of the log density in g, and the weight of a Newton step."""

    def mean(self, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Return the mean of y."""

    def averaged(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return the mean of y per unit of size, over latent values N(mean, variance)."""

    def variance(self, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Return the variance of y."""

    def cdf(self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Return the probability of at most y."""

    def quantile(self, probability: float, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Return the smallest y of which at most y has this probability or more."""


class Poisson:
    """Counts with log rate g in each of `sizes` units of exposure."""

    def support(self, sizes: np.ndarray) -> tuple[float, float]:
        return 0.0, np.inf

    def pseudo_observations(
        self, y: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return moments of g under Jeffreys' prior, by which the rate has a gamma distribution."""
        return psi(y + 0.5) - np.log(sizes), polygamma(1, y + 0.5)

    def log_density(self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return y * (g + np.log(sizes)) - self.mean(g, sizes) - gammaln(y + 1)

    def derivatives(
        self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        expected = self.mean(g, sizes)
        return y - expected, np.maximum(expected, LEAST)

    def mean(self, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(g + np.log(sizes), LARGEST))

    def averaged(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(mean + variance / 2, LARGEST))

    variance = mean

    def cdf(self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        k = np.floor(y)
        return np.where(k < 0, 0.0, gammaincc(np.maximum(k, 0) + 1, self.mean(g, sizes)))

    def quantile(self, probability: float, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        # Targets are never larger, and SciPy has no quantiles of means that overflow.
        return poisson.ppf(probability, np.minimum(self.mean(g, sizes), LARGEST_TARGET))


class Binomial:
    """Successes with log odds g in each of `sizes` trials."""

    def support(self, sizes: np.ndarray) -> tuple[float, np.ndarray]:
        return 0.0, sizes

    def pseudo_observations(
        self, y: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return moments of g under Jeffreys' prior: the probability has a beta distribution."""
        yes, no = y + 0.5, sizes - y + 0.5
        return psi(yes) - psi(no), polygamma(1, yes) + polygamma(1, no)

    def log_density(self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        choices = -np.log1p(sizes) - betaln(sizes - y + 1, y + 1)
        return choices + y * log_expit(g) + (sizes - y) * log_expit(-g)

    def derivatives(
        self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return y - self.mean(g, sizes), np.maximum(self.variance(g, sizes), LEAST)

    def mean(self, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return sizes * expit(g)

    def averaged(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        total = np.zeros(np.broadcast_shapes(mean.shape, variance.shape))
        for share, root in zip(LOGISTIC_SHARES, LOGISTIC_ROOTS, strict=True):
            total += share * ndtr(root * mean / np.sqrt(1 + root**2 * variance))
        return total

    def variance(self, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return sizes * expit(g) * expit(-g)

    def cdf(self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        k = np.floor(y)
        within = np.clip(k, 0, sizes - 1)
        below = betainc(sizes - within, within + 1, expit(-g))
        return np.where(k < 0, 0.0, np.where(k >= sizes, 1.0, below))

    def quantile(self, probability: float, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return binom.ppf(probability, sizes, expit(g))


@dataclass(frozen=True)
class Gamma:
    """Positive numbers with log mean g: a gamma distribution of the same shape everywhere."""

    shape: float

    def support(self, sizes: np.ndarray) -> tuple[float, float]:
        return 0.0, np.inf

    def pseudo_observations(
        self, y: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return moments of g under a flat prior: 1 / mean has a gamma distribution."""
        z = np.log(y) + np.log(self.shape) - psi(self.shape)
        return z, np.full(y.shape, polygamma(1, self.shape))

    def _ratio(self, y: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Return the shape times y over its mean."""
        with np.errstate(divide="ignore"):
            return self.shape * np.exp(np.minimum(np.log(y) - g, LARGEST))

    def log_density(self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        s = self.shape
        constant = s * np.log(s) - gammaln(s) + xlogy(s - 1, y)
        return constant - s * g - self._ratio(y, g)

    def derivatives(
        self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        ratio = self._ratio(y, g)
        return ratio - self.shape, np.maximum(ratio, LEAST)

    def mean(self, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(g, LARGEST))

    def averaged(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(mean + variance / 2, LARGEST))

    def variance(self, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(2 * g, LARGEST)) / self.shape

    def cdf(self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return gammainc(self.shape, self._ratio(np.maximum(y, 0.0), g))

    def quantile(self, probability: float, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return self.mean(g, sizes) * gammaincinv(self.shape, probability) / self.shape


@dataclass(frozen=True, eq=False)
class CumulativeProbit:
    """Levels k from `lowest` on, with P(y <= k) = Phi(c_k - g).

    A latent g + u with u ~ N(0, 1) is between the cut points of the level.
    """

    lowest: float
    cuts: np.ndarray

    def support(self, sizes: np.ndarray) -> tuple[float, float]:
        return self.lowest, self.lowest + len(self.cuts)

    def _interval(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the cut points below and above levels."""
        ends = np.concatenate([[-np.inf], self.cuts, [np.inf]])
        place = (y - self.lowest).astype(np.intp)
        return ends[place], ends[place + 1]

    def pseudo_observations(
        self, y: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the normal likelihood that gives the moments of g under the prior N(0, 1).

        There (g + u) / sqrt(2) is a standard normal variable truncated to an interval. With its
        mean m and variance 1 - d, the moments of g are m / sqrt(2) and 1 - d / 2; so the precision
        1 / v is 1 / (1 - d / 2) - 1, and z / v is the ratio of the moments.
        """
        low, high = self._interval(y)
        _, mean, reduction = truncated(low / np.sqrt(2), high / np.sqrt(2))
        return np.sqrt(2) * mean / reduction, (2 - reduction) / reduction

    def log_density(self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        low, high = self._interval(y)
        return log_mass(low - g, high - g)

    def derivatives(
        self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        low, high = self._interval(y)
        _, mean, reduction = truncated(low - g, high - g)
        return mean, reduction

    def _above(self, g: np.ndarray) -> np.ndarray:
        """Return P(y > k) for the levels k but the last, on a new first axis."""
        return ndtr(np.subtract.outer(-self.cuts, -np.asarray(g)))

    def mean(self, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return self.lowest + self._above(g).sum(axis=0)

    def averaged(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        sd = np.sqrt(1 + variance)
        return self.lowest + sum(ndtr((mean - cut) / sd) for cut in self.cuts)

    def variance(self, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        above = self._above(g)
        second = np.tensordot(2 * np.arange(len(self.cuts)) + 1, above, axes=1)  # of y - lowest
        return second - above.sum(axis=0) ** 2

    def cdf(self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return ndtr(self.threshold(y) - g)

    def threshold(self, y: np.ndarray) -> np.ndarray:
        """Return the cut point above levels, minus or plus infinity where y is none of them."""
        ends = np.concatenate([[-np.inf], self.cuts, [np.inf]])
        place = np.clip(np.floor(y) - self.lowest + 1, 0, len(ends) - 1)
        return ends[place.astype(np.intp)]

    def quantile(self, probability: float, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return self.lowest + np.searchsorted(self.cuts, np.asarray(g) + ndtri(probability))


@dataclass(frozen=True)
class StudentT:
    """Numbers around g with the errors of Student's t, whose tails are heavy."""

    degrees: float
    scale: float

    def support(self, sizes: np.ndarray) -> tuple[float, float]:
        return -np.inf, np.inf

    def pseudo_observations(
        self, y: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return y, and the variance of a normal error with the same Fisher information."""
        v = self.scale**2 * (self.degrees + 3) / (self.degrees + 1)
        return np.array(y), np.full(y.shape, v)

    def reweighted(self, residuals: np.ndarray) -> np.ndarray:
        """Return the variances of normal errors in the EM algorithm, given y - g."""
        return (self.degrees * self.scale**2 + residuals**2) / (self.degrees + 1)

    def log_density(self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        nu = self.degrees
        constant = -betaln(0.5, nu / 2) - 0.5 * np.log(nu) - np.log(self.scale)
        return constant - 0.5 * (nu + 1) * np.log1p(((y - g) / self.scale) ** 2 / nu)

    def derivatives(
        self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        weight = 1 / self.reweighted(y - g)
        return weight * (y - g), weight

    def mean(self, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return np.array(g)

    def averaged(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return np.array(np.broadcast_arrays(mean, variance)[0])

    def variance(self, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return np.full(np.shape(g), self.scale**2 * self.degrees / (self.degrees - 2))

    def cdf(self, y: np.ndarray, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return stdtr(self.degrees, (y - g) / self.scale)

    def quantile(self, probability: float, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        return g + self.scale * stdtrit(self.degrees, probability)


def log_mass(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the log probability of an interval under N(0, 1), also in the tails."""
    # In the upper tail probabilities are near one, and their difference would have no digits.
    mirrored = low > 0
    low, high = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    top = log_ndtr(high)
    return top + np.log(-np.expm1(log_ndtr(low) - top))


def truncated(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log probability, mean, and 1 - variance, of N(0, 1) truncated to an interval.

    As functions of g for the interval from low - g to high - g, mean and 1 - variance are the first
    derivative of the log probability, and minus the second. The latter isn't a difference of
    numbers near one where the interval is wide, and is at least :data:`LEAST`.
    """
    mass = log_mass(low, high)
    at_low, at_high = (np.exp(-0.5 * end**2 - HALF_LOG_2PI - mass) for end in (low, high))
    mean = at_low - at_high
    low, high = (np.where(np.isinf(end), 0.0, end) for end in (low, high))
    reduction = mean**2 + high * at_high - low * at_low
    return mass, mean, np.clip(reduction, LEAST, 1.0)


def tilted(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, sd: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log p(y), and the mean and variance of g given y, where g is N(mean, sd^2) before.

    Gauss-Hermite nodes lie around the mode of p(y | g) N(g; mean, sd^2), which may be far from the
    mean and narrower than the sd (Liu and Pierce 1994). Likelihoods have to be log-concave, as all
    but that of Student's t are.

    Parameters
    ----------
    likelihood : Likelihood
    y : ndarray, shape (n,)
    mean, sd : ndarray, shape (..., n)
    sizes : ndarray, shape (n,) or ()

    Returns
    -------
    tuple of three ndarray, shape (..., n)
    """
    precision = sd**-2.0
    z, v = likelihood.pseudo_observations(y, sizes)
    mode = (z / v + mean * precision) / (1 / v + precision)
    for _ in range(STEPS):
        first, weight = likelihood.derivatives(y, mode, sizes)
        step = (first - (mode - mean) * precision) / (weight + precision)
        mode = mode + np.clip(step, -LONGEST, LONGEST)
        if (np.abs(step) < CLOSE * sd).all():
            break
    scale = 1 / np.sqrt(likelihood.derivatives(y, mode, sizes)[1] + precision)
    nodes, log_weights = (
        np.expand_dims(a, tuple(range(1, mode.ndim + 1))) for a in (NODES, LOG_WEIGHTS)
    )
    terms = likelihood.log_density(y, mode + nodes * scale, sizes) + log_weights
    terms = terms - 0.5 * ((mode + nodes * scale - mean) / sd) ** 2 + np.log(scale / sd)
    log_total = logsumexp(terms, axis=0)
    shares = np.exp(terms - log_total)
    centre = (shares * nodes).sum(axis=0)
    spread = (shares * (nodes - centre) ** 2).sum(axis=0)
    return log_total - HALF_LOG_2PI, mode + centre * scale, spread * scale**2
