"""Search spaces of Optuna, with points encoded as rows of columns in [0, 1].

Points are arrays of Optuna's internal values: numbers, and the place of a choice among its
distribution's choices.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from scipy.stats import qmc

from kem_pymc.errors import InputError

#: Whole numbers up to this size are exact in floats, as which Optuna stores them.
EXACT = 2**53


class _Number:
    """A number in a range: its place in the range, or in that of its logarithm, is one column."""

    columns = 1

    def __init__(self, distribution: FloatDistribution | IntDistribution) -> None:
        self.low, self.high, self.log = distribution.low, distribution.high, distribution.log
        self.step: float = distribution.step or 0.0  # zero without a step
        self.ends = self._scaled(np.array([self.low, self.high], dtype=float))

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        return np.log(values) if self.log else values

    @property
    def count(self) -> float:
        """Number of values."""
        return round((self.high - self.low) / self.step) + 1 if self.step else math.inf

    def every(self) -> np.ndarray:
        """Return all values, if they have a step."""
        return self.low + np.arange(self.count) * self.step

    def beside(self, value: float) -> list[float]:
        """Return the values that are one step away."""
        near = (value - self.step, value + self.step) if self.step else ()
        return [v for v in near if self.low <= v <= self.high]

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Return the columns (n, 1) of values (n,)."""
        low, high = self.ends
        return ((self._scaled(values) - low) / (high - low))[:, None]

    def decode(self, columns: np.ndarray) -> np.ndarray:
        """Return the values (n,) nearest to columns (n, 1)."""
        low, high = self.ends
        return self._nearest((1.0 - columns[:, 0]) * low + columns[:, 0] * high)

    def spread(self, uniform: np.ndarray) -> np.ndarray:
        """Return values (n,) at places (n,) in [0, 1].

        With a step, the range has half a step more at both ends, so that the ends are as frequent
        as their neighbours.
        """
        half = 0.5 * self.step
        low, high = self._scaled(np.array([self.low - half, self.high + half]))
        return self._nearest(low + uniform * (high - low))

    def _nearest(self, scaled: np.ndarray) -> np.ndarray:
        """Return the values nearest to those before scaling; ends without rounding errors."""
        values = np.exp(scaled) if self.log else scaled
        values = np.where(scaled <= self.ends[0], self.low, values)
        values = np.where(scaled >= self.ends[1], self.high, values)
        if self.step:
            values = self.low + np.round((values - self.low) / self.step) * self.step
        return np.clip(values, self.low, self.high)


class _Choice:
    """A choice without an order: each one has a column, which is 1 where it is chosen."""

    low = 0.0

    def __init__(self, distribution: CategoricalDistribution) -> None:
        self.count = self.columns = len(distribution.choices)

    def every(self) -> np.ndarray:
        """Return the places of all choices."""
        return np.arange(self.count)

    def beside(self, value: float) -> list[float]:
        """Return the places of all other choices."""
        return [place for place in range(self.count) if place != value]

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Return the columns (n, number of choices) of places (n,)."""
        return np.eye(self.count)[values.astype(int)]

    def decode(self, columns: np.ndarray) -> np.ndarray:
        """Return the places (n,) of the largest columns."""
        return np.argmax(columns, axis=1)

    def spread(self, uniform: np.ndarray) -> np.ndarray:
        """Return places (n,) for uniform variates."""
        return np.minimum((uniform * self.count).astype(int), self.count - 1)


def check_exact(name: str, distribution: BaseDistribution) -> None:
    """Check that the numbers of a parameter can be told apart.

    Raises
    ------
    InputError
        If whole numbers are beyond 2^53.
    """
    if isinstance(distribution, IntDistribution):
        low, high = distribution.low, distribution.high
        if max(-low, high) > EXACT:
            exact = f"a number from 0 to {high - low} and add it to {low}"
            raise InputError(
                f"{name} has whole numbers from {low} to {high}, and Optuna rounds those beyond "
                f"2^53. Suggest {exact if high - low <= EXACT else 'a float'}."
            )


class Space:
    """A search space of numbers and categories.

    Parameters
    ----------
    distributions : mapping of str to optuna.distributions.BaseDistribution
        Parameters with at least two values, by name.

    Raises
    ------
    InputError
        As in :func:`check_exact`.
    """

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self.distributions = dict(distributions)
        for name, distribution in self.distributions.items():
            check_exact(name, distribution)
        self.dimensions: list[_Number | _Choice] = [
            _Choice(one) if isinstance(one, CategoricalDistribution) else _Number(one)  # type: ignore[arg-type]
            for one in self.distributions.values()
        ]
        widths = [dim.columns for dim in self.dimensions]
        self._ends = np.cumsum(widths)
        #: Which of the D columns are of numbers.
        self.numeric = np.repeat([isinstance(dim, _Number) for dim in self.dimensions], widths)

    def encode(self, points: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """Return points, parameters by name, as rows (n, D)."""
        values = [
            [one.to_internal_repr(point[name]) for name, one in self.distributions.items()]
            for point in points
        ]
        return self._rows(values)

    def decode(self, row: np.ndarray) -> dict[str, Any]:
        """Return the parameters of the point that is nearest to a row (D,)."""
        pairs = zip(self.distributions.items(), self._values(row[None])[0].tolist(), strict=True)
        return {name: one.to_external_repr(value) for (name, one), value in pairs}

    def _rows(self, points: npt.ArrayLike) -> np.ndarray:
        """Return points (n, number of dimensions) as rows (n, D)."""
        values = np.array(points, dtype=float).reshape(-1, len(self.dimensions))
        parts = [dim.encode(v) for dim, v in zip(self.dimensions, values.T, strict=True)]
        return np.concatenate(parts, axis=1)

    def _values(self, rows: np.ndarray) -> np.ndarray:
        """Return the points (n, number of dimensions) that are nearest to rows (n, D)."""
        pairs = zip(self.dimensions, np.split(rows, self._ends[:-1], axis=1), strict=True)
        return np.column_stack([dim.decode(columns) for dim, columns in pairs])

    def nearest(self, rows: np.ndarray) -> np.ndarray:
        """Return the encoded points nearest to rows (n, D)."""
        return self._rows(self._values(rows))

    def neighbours(self, rows: np.ndarray) -> np.ndarray:
        """Return the points that differ from rows (n, D) by one step of one dimension.

        Returns
        -------
        ndarray, shape (m, D)
            A category has all others as steps, a number with a step those before and after, and
            other numbers none.
        """
        return self._rows(
            [
                [*values[:place], value, *values[place + 1 :]]
                for values in self._values(rows)
                for place, dim in enumerate(self.dimensions)
                for value in dim.beside(values[place])
            ]
        )

    @property
    def count(self) -> float:
        """Number of points."""
        return math.prod(dim.count for dim in self.dimensions)

    def every(self, at_most: int) -> np.ndarray | None:
        """Return all points as rows (n, D); None if there are more than `at_most`."""
        if self.count > at_most:
            return None
        return self._rows(list(product(*(dim.every() for dim in self.dimensions))))

    def combinations(self, at_most: int) -> np.ndarray | None:
        """Return columns of all combinations of choices; None if there are more than `at_most`.

        Returns
        -------
        ndarray, shape (m, D), or None
            Columns of numbers are zero.
        """
        choices = [d.every() if isinstance(d, _Choice) else [d.low] for d in self.dimensions]
        if math.prod(map(len, choices)) > at_most:
            return None
        return self._rows(list(product(*choices)))

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n random points as rows (n, D)."""
        return self._spread(rng.random((n, len(self.dimensions))))

    def sobol(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n points of a scrambled Sobol sequence as rows (n, D)."""
        engine = qmc.Sobol(len(self.dimensions), rng=rng)
        return self._spread(engine.random_base2(math.ceil(math.log2(n)))[:n])

    def _spread(self, uniform: np.ndarray) -> np.ndarray:
        """Return the points at places (n, number of dimensions) in [0, 1] as rows (n, D)."""
        pairs = zip(self.dimensions, uniform.T, strict=True)
        return self._rows(np.column_stack([dim.spread(places) for dim, places in pairs]))
