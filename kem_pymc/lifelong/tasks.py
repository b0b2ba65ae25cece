"""What is known about a task: evaluated points, and their values as models suppose them to be."""

from dataclasses import dataclass
from functools import cached_property

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

    def value_of(self, y: float) -> float:
        """Return the value of the function of which y is the normalised one.

        It is interpolated between the values of the evaluations, and isn't beyond them.
        """
        known = ~np.isnan(self.values)
        order = np.argsort(self.values[known], kind="stable")
        return float(np.interp(y, self.y[known][order], self.values[known][order]))

    @property
    def varies(self) -> bool:
        """Whether there is something to learn: two values that differ."""
        return bool(np.any(self.y != 0))

    def first(self, n: int) -> "Task":
        """Return the task when it had n evaluations."""
        return Task(self.rows[:n], self.values[:n])


def normalised(values: np.ndarray) -> np.ndarray:
    """Return values (n,) standardised, after a transform of Yeo and Johnson (2000) of them.

    Functions often have a few values that are far worse than all others; a model would fit these.
    Before the transform values have a median of zero, and quartiles as far apart as those of the
    standard normal distribution: moments would be those of the few. The quartiles are those of
    distinct values, since many failures may have one penalty. Equal values become zero.
    """
    if len(values) < 2:
        return np.zeros(len(values))
    if np.abs(values).max() > HUGE:  # squares would be infinite
        values = values / HUGE**2
    low, median, high = np.quantile(np.unique(values), [0.25, 0.5, 0.75])
    scale = (high - low) / QUARTILES
    if not scale > 0:
        return np.zeros(len(values))
    with np.errstate(over="ignore"):
        scaled = np.clip((values - median) / scale, -LARGEST, LARGEST)
    transformed = Transform.learn("yeo-johnson", scaled).forward(scaled)
    sd = transformed.std()
    return (transformed - transformed.mean()) / sd if sd > 0 else np.zeros(len(values))
