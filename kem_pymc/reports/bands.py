"""What is predicted, with 95 % intervals: of one normal distribution, or of a mixture of many."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtr, ndtri

from kem_pymc.scaling import Scaling

#: Probabilities below the ends of an interval, and below what is in its middle.
LOW, MIDDLE, HIGH = 0.025, 0.5, 0.975

#: A curve is drawn through so many points.
FINE = 64

#: Halvings of the range in which a quantile is sought: its error is 1e-12 of that range.
HALVINGS = 40

#: Beyond so many sds of each component a quantile isn't sought.
FAR = 5.0


@dataclass(frozen=True, eq=False)
class Band:
    """A predictive median with 95 % intervals, at some places on the horizontal axis.

    In the target's unit, NaN where nothing could be computed.

    Attributes
    ----------
    at, median : ndarray, shape (m,)
    function, observed : ndarray, shape (2, m)
        Ends of the intervals of the function, and of an observation, noise included.
    """

    at: np.ndarray
    median: np.ndarray
    function: np.ndarray
    observed: np.ndarray

    @classmethod
    def of(
        cls,
        at: np.ndarray,
        mean: np.ndarray,
        variance: np.ndarray,
        noise: np.ndarray,
        scaling: Scaling,
        weights: np.ndarray | None = None,
    ) -> Self:
        """Return the band of a mixture of normal distributions, in scaled units.

        Parameters
        ----------
        at : ndarray, shape (m,)
        mean, variance : ndarray, shape (K, m)
            Of the function, by component.
        noise : ndarray, shape (K,)
            Variances.
        scaling : Scaling
        weights : ndarray, shape (K,), optional
            Equal by default.
        """
        if not len(mean):
            nothing = np.full((2, len(at)), np.nan)
            return cls(at, nothing[0], nothing, nothing)
        sd, sd_observed = np.sqrt(variance), np.sqrt(variance + noise[:, None])
        back = scaling.targets_back
        return cls(
            at,
            back(mixture_quantile(mean, sd, MIDDLE, weights)),
            np.array([back(mixture_quantile(mean, sd, p, weights)) for p in (LOW, HIGH)]),
            np.array([back(mixture_quantile(mean, sd_observed, p, weights)) for p in (LOW, HIGH)]),
        )

    @classmethod
    def of_observations(cls, at: np.ndarray, median: np.ndarray, ends: np.ndarray) -> Self:
        """Return the band where only an observation's median (m,) and 95 % interval are known."""
        return cls(at, median, ends, ends)

    def part(self, which: slice) -> "Band":
        """Return the band at some of its places."""
        return Band(
            self.at[which], self.median[which], self.function[:, which], self.observed[:, which]
        )


def mixture_quantile(
    mean: np.ndarray, sd: np.ndarray, share: float, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return a quantile (m,) of mixtures of normal distributions, by halving.

    Parameters
    ----------
    mean, sd : ndarray, shape (K, m)
        By component. An sd may be zero.
    share : float
        Probability below the quantile.
    weights : ndarray, shape (K,), optional
        They add up to one; equal by default.
    """
    weights = np.full(len(mean), 1 / len(mean)) if weights is None else weights
    if len(mean) == 1:
        return mean[0] + ndtri(share) * sd[0]
    low, high = (mean - FAR * sd).min(axis=0), (mean + FAR * sd).max(axis=0)
    spread = np.maximum(sd, np.finfo(float).tiny)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        with np.errstate(over="ignore"):  # without spread everything is far away
            below = weights @ ndtr((middle - mean) / spread) < share
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


def grid_over(x: np.ndarray) -> np.ndarray:
    """Return inputs (m, 1) through which a curve is drawn: the range of others (n, 1), and more."""
    margin = 0.02 * np.ptp(x) or 0.5
    return np.linspace(x.min() - margin, x.max() + margin, FINE)[:, None]


@dataclass(frozen=True, eq=False)
class Predicted:
    """What is predicted for one user at one time step.

    Attributes
    ----------
    seen : ndarray, shape (n, 2)
        Place on the horizontal axis and target of the points up to then.
    following : ndarray, shape (m, 2)
        Of the points of the next time step; after the last, of points to come, if any were asked
        for: their targets are NaN.
    curve : Band
        Over the range of the one feature; with several features, at the points seen, whose place
        is their number in order of arrival.
    ahead : Band
        At the points that follow.
    continuous : bool
        Whether `curve` may be drawn as a line.
    """

    seen: np.ndarray
    following: np.ndarray
    curve: Band
    ahead: Band
    continuous: bool

    @property
    def judged(self) -> int:
        """How many of the next points have a target to judge their prediction by."""
        return int(np.isfinite(self.following[:, 1]).sum())

    @property
    def to_come(self) -> int:
        """How many have none yet."""
        return len(self.following) - self.judged

    @property
    def covered(self) -> int:
        """How many of the judged ones lie within the 95 % interval of their prediction."""
        low, high = self.ahead.observed
        target = self.following[:, 1]
        return int(((low <= target) & (target <= high)).sum())
