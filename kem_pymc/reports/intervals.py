"""Predictions with 95 % intervals, from one normal distribution or a mixture."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from kem_pymc.data.scaling import Scaling
from kem_pymc.gp.mixture import Mixture

#: Probabilities below the lower end of an interval, its median and its upper end.
LOW, MIDDLE, HIGH = 0.025, 0.5, 0.975

#: Number of points of each curve.
FINE = 64


@dataclass(frozen=True, eq=False)
class Band:
    """A predictive median with 95 % intervals, at positions on the horizontal axis.

    Values are in the target's unit, and NaN where they couldn't be computed.

    Attributes
    ----------
    at, median : ndarray, shape (m,)
        Positions on the horizontal axis, and predictive medians.
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
            Means and variances of the function, by component.
        noise : ndarray, shape (K,)
            Noise variances.
        scaling : Scaling
        weights : ndarray, shape (K,), optional
            Weights of the components, which add up to one; equal by default.
        """
        if not len(mean):
            nothing = np.full((2, len(at)), np.nan)
            return cls(at, nothing[0], nothing, nothing)
        weights = np.full(len(mean), 1 / len(mean)) if weights is None else weights
        least = np.finfo(float).tiny  # the function's variance may be zero
        function, observed = (
            Mixture(weights, mean, np.maximum(np.sqrt(v), least))
            for v in (variance, variance + noise[:, None])
        )

        def quantiles(mixture: Mixture, *shares: float) -> np.ndarray:
            with np.errstate(over="ignore"):  # distances in sds, where an sd is the least one
                return np.array([scaling.targets_back(mixture.quantile(p)) for p in shares])

        return cls(
            at,
            quantiles(function, MIDDLE)[0],
            quantiles(function, LOW, HIGH),
            quantiles(observed, LOW, HIGH),
        )

    @classmethod
    def of_observations(cls, at: np.ndarray, median: np.ndarray, ends: np.ndarray) -> Self:
        """Return the band if only an observation's median (m,) and 95 % interval are known."""
        return cls(at, median, ends, ends)

    def part(self, which: slice) -> "Band":
        """Return the band at a slice of its positions."""
        return Band(
            self.at[which], self.median[which], self.function[:, which], self.observed[:, which]
        )


def grid_over(x: np.ndarray) -> np.ndarray:
    """Return inputs (m, 1) of a curve over the slightly widened range of x (n, 1)."""
    margin = 0.02 * np.ptp(x) or 0.5
    return np.linspace(x.min() - margin, x.max() + margin, FINE)[:, None]


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions for one user at one time step.

    Attributes
    ----------
    seen : ndarray, shape (n, 2)
        Positions on the horizontal axis and targets of the points up to the time step.
    following : ndarray, shape (m, 2)
        Positions and targets of the points of the next time step; after the last time step, of
        points to come, if any were requested, whose targets are NaN.
    curve : Band
        Predictions over the range of the feature, if there is only one; with several features,
        predictions at the points seen, whose position is their number in order of arrival.
    ahead : Band
        Predictions at the points that follow.
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
        """Number of next points with a target, for which the prediction can be scored."""
        return int(np.isfinite(self.following[:, 1]).sum())

    @property
    def to_come(self) -> int:
        """Number of next points without a target."""
        return len(self.following) - self.judged

    @property
    def covered(self) -> int:
        """Number of next points whose target is within the predictive 95 % interval."""
        low, high = self.ahead.observed
        target = self.following[:, 1]
        return int(((low <= target) & (target <= high)).sum())
