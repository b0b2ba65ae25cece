"""What is known about a task: evaluated points, and their values as models suppose them to be."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from kem_pymc.data.transforms import Transform

#: Magnitude of values from which they are made smaller, and largest magnitude of scaled ones.
HUGE, LARGEST = 1e100, 1e12

#: Difference of the standard normal distribution's quartiles.
QUARTILES = 1.349


@dataclass(frozen=True, eq=False)
class Task:
    """The evaluations of one function, which is to be minimised.

    Attributes
    ----------
    rows : ndarray, shape (n, D)
        Encoded points (:class:`kem_pymc.lifelong.space.Space`).
    values : ndarray, shape (n,)
        Values of the function; NaN where the evaluation failed.
    """

    rows: np.ndarray
    values: np.ndarray

    @cached_property
    def y(self) -> np.ndarray:
        """Values (n,) as models learn from them: normalised, failures as bad as the worst value.

        If all other values are equal, failures are what can be avoided: they are 1, others 0. If
        all evaluations failed, or all values are equal, they are zero.
        """
        failed = np.isnan(self.values)
        if failed.all():
            return np.zeros(len(self.values))
        if np.ptp(self.values[~failed]) > 0:
            return normalised(np.where(failed, np.nanmax(self.values), self.values))
        return normalised(failed.astype(float))

    def value_of(self, y: float, normalised: np.ndarray) -> float:
        """Return the value of the function of which y is the normalised one.

        It is interpolated between the values of the evaluations, and isn't beyond them.

        Parameters
        ----------
        y : float
        normalised : ndarray, shape (n,)
            Normalised values of the evaluations.
        """
        known = ~np.isnan(self.values)
        order = np.argsort(self.values[known], kind="stable")
        return float(np.interp(y, normalised[known][order], self.values[known][order]))

    @property
    def varies(self) -> bool:
        """Whether there is something to learn: two values that differ."""
        return bool(np.any(self.y != 0))

    def filled(self, worst: float) -> np.ndarray:
        """Return the values (n,), with the worst one of several tasks where evaluations failed."""
        return np.where(np.isnan(self.values), worst, self.values)

    def spread(self, n: int) -> "Task":
        """Return the task with at most n evaluations, evenly spread over the ranks of values."""
        order = np.argsort(self.values, kind="stable")
        kept = order[np.unique(np.linspace(0, len(order) - 1, min(n, len(order))).astype(int))]
        return Task(self.rows[kept], self.values[kept])

    def first(self, n: int) -> "Task":
        """Return the task when it had n evaluations."""
        return Task(self.rows[:n], self.values[:n])


@dataclass(frozen=True)
class Normalisation:
    """A transform of Yeo and Johnson (2000), and scales before and after it.

    Functions often have a few values that are far worse than all others; a model would fit these.
    Before the transform values have a median of zero, and quartiles as far apart as those of the
    standard normal distribution: moments would be those of the few. The quartiles are those of
    distinct values, since many failures may have one penalty.

    Attributes
    ----------
    unit : float
        Divisor of huge values, whose squares would be infinite.
    median, scale : float
        Of values divided by it; the scale is zero if values are equal.
    transform : Transform
    mean, sd : float
        Of transformed values.
    """

    unit: float
    median: float
    scale: float
    transform: Transform
    mean: float = 0.0
    sd: float = 1.0

    @classmethod
    def learn(cls, values: np.ndarray) -> Self:
        """Return the normalisation that makes values (n,) standardised."""
        unit = HUGE**2 if len(values) and np.abs(values).max() > HUGE else 1.0
        identity = Transform("yeo-johnson", 1.0)
        if len(values) < 2:
            return cls(unit, 0.0, 0.0, identity)
        low, median, high = np.quantile(np.unique(values / unit), [0.25, 0.5, 0.75])
        own = cls(unit, float(median), float(high - low) / QUARTILES, identity)
        if not own.scale > 0:
            return replace(own, scale=0.0)
        own = replace(own, transform=Transform.learn("yeo-johnson", own._scaled(values)))
        transformed = own(values)
        return replace(own, mean=float(transformed.mean()), sd=float(transformed.std()))

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.clip((values / self.unit - self.median) / self.scale, -LARGEST, LARGEST)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return normalised values (n,); zeros if those it was learned from are equal."""
        if not (self.scale > 0 and self.sd > 0):
            return np.zeros(len(values))
        return (self.transform.forward(self._scaled(values)) - self.mean) / self.sd


def normalised(values: np.ndarray) -> np.ndarray:
    """Return values (n,) standardised; see :class:`Normalisation`. Equal values become zero."""
    return Normalisation.learn(values)(values)
