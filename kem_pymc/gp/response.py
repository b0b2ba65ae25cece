"""The distribution of a new target of a family, whose latent value has a mixture of normals.

At each place the latent value g is the function plus an error. What follows of the target are
expectations over g, by quadrature for each normal distribution N(m, s^2) of the mixture:

- moments: Gauss-Hermite nodes;
- densities: Gauss-Hermite nodes around the mode of p(y | g) N(g; m, s^2);
- probabilities P(Y <= y): as g grows, P(Y <= y | g) falls from one to zero, about where the
  pseudo-observation of y lies and within a few of its standard deviations. There it is integrated
  by Gauss-Legendre nodes; below, it is one.

Levels of ``ordinal`` and errors of ``student`` need no quadrature over g: a normal error is added
to g, for Student's t given its precision.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.polynomial.legendre import leggauss
from scipy.special import gammainccinv, gammaincinv, logsumexp, ndtr, ndtri

from kem_pymc.data.families import Family
from kem_pymc.data.likelihoods import CumulativeProbit, StudentT, tilted
from kem_pymc.gp.likelihood import HALF_LOG_2PI
from kem_pymc.gp.mixture import Mixture, inverted

#: Gauss-Hermite nodes, and their shares, which add up to one.
NODES, SHARES = hermegauss(40)
SHARES = SHARES / SHARES.sum()

#: Gauss-Legendre nodes between 0 and 1, and how far they reach: in sds of the pseudo-observation
#: and of the latent value. Probabilities are exact to 1e-6 then, of gamma shapes below 1 to 1e-5.
PLACES, WIDTHS = leggauss(64)
PLACES, WIDTHS = (PLACES + 1) / 2, WIDTHS / 2
REACH, FAR = 9.0, 8.5

#: Nodes of the precision of Student's t, and the probability of its values beyond them.
PRECISIONS, BEYOND = 50, 1e-12

#: Number of evenly spaced probabilities of each function, of which curves have quantiles.
FINE = 400

#: Probability of the tails that the CRPS leaves out, in which its integrand is below the square of
#: this; and the number of whole numbers in each of its parts up to which all are added up.
TAIL, WHOLE = 1e-3, 100


@dataclass(frozen=True, eq=False)
class Response:
    """The distribution of a new target at each of m places.

    It has the methods of :class:`Mixture`.

    Attributes
    ----------
    function : Mixture
        Distribution of the latent function, a mixture of K normals.
    noises : ndarray, shape (K, m)
        Variances of latent values around the function, by which targets vary more than the family
        alone has it.
    family : Family
    sizes : ndarray, shape (m,), optional
        Exposures of counts, one each if they aren't given, or trials of binomials.
    """

    function: Mixture
    noises: np.ndarray
    family: Family
    sizes: np.ndarray | None = None

    @cached_property
    def latent(self) -> Mixture:
        """The distribution of the latent value of a target."""
        sd = np.sqrt(self.function.sd**2 + self.noises)
        return Mixture(self.function.weights, self.function.mean, sd)

    @property
    def _known_sizes(self) -> np.ndarray:
        return np.ones(()) if self.sizes is None else self.sizes

    @cached_property
    def _normals(self) -> Mixture | None:
        """The distribution of y, or of what the cut points divide, if it is a mixture of normals.

        Student's t is a normal error with the variance s^2 / p, where p has a gamma distribution
        with mean one and shape nu / 2. Nodes of log p are evenly spaced, so that they are also
        among the small precisions on which the tails depend.
        """
        g, likelihood = self.latent, self.family.likelihood
        if isinstance(likelihood, CumulativeProbit):
            return Mixture(g.weights, g.mean, np.hypot(g.sd, 1.0))
        if not isinstance(likelihood, StudentT):
            return None
        half = likelihood.degrees / 2
        low, high = gammaincinv(half, BEYOND) / half, gammainccinv(half, BEYOND) / half
        log_p = np.linspace(np.log(low), np.log(high), PRECISIONS)
        density = np.exp(half * (log_p - np.exp(log_p) + 1))
        variances = likelihood.scale**2 * np.exp(-log_p)
        return Mixture(
            np.multiply.outer(density / density.sum(), g.weights).ravel(),
            np.tile(g.mean, (PRECISIONS, 1)),
            np.sqrt(g.sd**2 + variances[:, None, None]).reshape(-1, g.sd.shape[1]),
        )

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation (m,) of a new target."""
        g = self.latent
        values = g.mean + np.multiply.outer(NODES, g.sd)
        shares = np.multiply.outer(SHARES, g.weights)
        means = self.family.mean(values, self.sizes)
        mean = np.einsum("jk,jkm->m", shares, means)
        spread = self.family.variance(values, self.sizes) + (means - mean) ** 2
        return mean, np.sqrt(np.einsum("jk,jkm->m", shares, spread))

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation (m,) of the mean of targets given the function.

        The mean is that over errors e: h(f) = E[mean of y | f + e], a curve in the target's unit.
        """
        h = self._curve(NODES)
        shares = np.multiply.outer(SHARES, self.function.weights)
        mean = np.einsum("jk,jkm->m", shares, h)
        return mean, np.sqrt(np.einsum("jk,jkm->m", shares, (h - mean) ** 2))

    def curve_quantile(self, probability: float) -> np.ndarray:
        """Return quantiles (m,) of the curve, see :meth:`curve`."""
        h = self._curve(ndtri((np.arange(FINE) + 0.5) / FINE))
        weights = np.tile(self.function.weights, FINE)
        return np.array(
            [
                np.quantile(each, probability, weights=weights, method="inverted_cdf")
                for each in h.reshape(len(weights), -1).T
            ]
        )

    def _curve(self, places: np.ndarray) -> np.ndarray:
        """Return the curve (j, K, m) at standardised values (j,) of the functions."""
        f = self.function.mean + np.multiply.outer(places, self.function.sd)
        return self._known_sizes * self.family.averaged(f, self.noises)

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """Return log densities (m,) at targets (m,), log probabilities of a discrete family."""
        if self._normals is not None and not self.family.discrete:
            return self._normals.log_density(y)
        g = self.latent
        each, _, _ = tilted(self.family.likelihood, y, g.mean, g.sd, self._known_sizes)
        return logsumexp(each, b=g.weights[:, None], axis=0)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """Return probabilities (m,) of at most y (m,)."""
        if self._normals is not None:
            if isinstance(self.family.likelihood, CumulativeProbit):
                y = self.family.likelihood.threshold(y)
            return self._normals.cdf(y)
        low, high = self.family.support(self.sizes)
        nearest = y
        if self.family.discrete:
            y = np.floor(y)
            nearest = np.clip(y, low, high - 1) + 0.5
        g, nearest = self.latent, np.maximum(nearest, low)
        with np.errstate(divide="ignore"):  # of a positive y at zero
            centre, variance = self.family.likelihood.pseudo_observations(
                nearest, self._known_sizes
            )
        reach = REACH * np.sqrt(variance)
        start = np.maximum(g.mean - FAR * g.sd, centre - reach)
        length = np.maximum(np.minimum(g.mean + FAR * g.sd, centre + reach) - start, 0.0)
        values = start + np.multiply.outer(PLACES, length)
        terms = np.exp(-0.5 * ((values - g.mean) / g.sd) ** 2 - HALF_LOG_2PI)
        terms *= self.family.cdf(y, values, self.sizes)
        falling = np.einsum("j,jkm->km", WIDTHS, terms) * length / g.sd
        total = g.weights @ (ndtr((start - g.mean) / g.sd) + falling)
        return np.where(y < low, 0.0, np.where(y >= high, 1.0, np.clip(total, 0.0, 1.0)))

    def quantile(self, probability: float) -> np.ndarray:
        """Return quantiles (m,): the smallest y of which at most y has the probability or more.

        A quantile is at least that of half the probability, given that g is at its own, since
        larger y come with larger g; and likewise at most.
        """
        if self._normals is not None and not self.family.discrete:
            return self._normals.quantile(probability)
        below, above = probability / 2, (1 + probability) / 2
        low, high = (
            self.family.quantile(p, self.latent.quantile(p), self.sizes) for p in (below, above)
        )
        if not self.family.discrete:
            found = inverted(lambda t: self.cdf(np.exp(t)), np.log(low), np.log(high), probability)
            return np.exp(found)
        while (low < high).any():
            middle = np.floor((low + high) / 2)
            enough = self.cdf(middle) >= probability
            high = np.where(enough, middle, high)
            low = np.where(enough, low, np.minimum(middle + 1, high))
        return high

    def probabilities(self) -> np.ndarray:
        """Return the probabilities (m, L) of the levels of ``binary`` or ``ordinal`` targets.

        Raises
        ------
        InputError
            If the family has no levels.
        """
        levels = self.family.levels
        each = np.repeat(levels[:, None], self.latent.mean.shape[1], axis=1)
        return np.exp([self.log_density(y) for y in each]).T

    def crps(self, y: np.ndarray) -> np.ndarray:
        """Return the continuous ranked probability score (m,) at targets (m,), smaller is better.

        It is the integral of (P(Y <= t) - 1{y <= t})^2 over t, of a discrete family the sum over
        whole numbers t. It is taken in three parts, between y, the median and the tails. Where a
        part has many whole numbers some are left out, the more the further they are from its start.
        """
        low, median, high = (self.quantile(p) for p in (TAIL, 0.5, 1 - TAIL))
        inside = np.clip(y, low, high)
        below = self._squares(np.minimum(inside, median), low, False)
        above = self._squares(np.maximum(inside, median), high, True)
        between = self._squares(median, inside, inside < median)
        return np.abs(y - inside) + below + between + above

    def _squares(self, start: np.ndarray, end: np.ndarray, above: np.ndarray | bool) -> np.ndarray:
        """Return the integral, or sum, of squared probabilities of at most t, or above t.

        Parameters
        ----------
        start, end : ndarray, shape (m,)
            What t is between: of whole numbers, the smaller is included and the larger isn't.
        above : ndarray, shape (m,), or bool
            Whether the probabilities are those above t.
        """
        length, upwards = np.abs(end - start), end > start
        if not self.family.discrete:
            away = np.multiply.outer(PLACES**2, length)
            widths = np.multiply.outer(2 * PLACES * WIDTHS, length)
        else:
            last = length - 1
            steps = np.arange(1 + np.clip(last.max(), 0, WHOLE))[:, None]
            further = np.round(np.maximum(last - WHOLE, 0.0) * (steps / WHOLE) ** 3)
            away = np.minimum(steps, last) + further
            # Each term stands for half of those up to its neighbours, the ends also for themselves.
            gaps = np.diff(away, axis=0, prepend=away[:1] - 1, append=away[-1:] + 1)
            widths = (gaps[:-1] + gaps[1:]) / 2 * (length > 0)
            start = np.where(upwards, start, start - 1)
        values = np.where(upwards, start + away, start - away)
        probabilities = np.array([self.cdf(t) for t in values])
        return (widths * np.where(above, 1 - probabilities, probabilities) ** 2).sum(axis=0)
