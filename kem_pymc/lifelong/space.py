"""Search spaces of Optuna, with points encoded as rows of columns in [0, 1].

Points are arrays of Optuna's internal values: numbers, and the place of a choice among its
distribution's choices. A parameter may be used with some choices of another one only, such as the
penalty of one of several classifiers. Elsewhere it is inactive, and its columns are 1/2.
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
from optuna.search_space import intersection_search_space
from optuna.trial import FrozenTrial
from scipy.stats import qmc

from kem_pymc.errors import InputError

#: Whole numbers up to this size are exact in floats, as which Optuna stores them.
EXACT = 2**53

#: Columns of a parameter that a point doesn't use.
INACTIVE = 0.5

#: With which choices of a parameter another one is used: its name, and the places of the choices.
type Condition = tuple[str, frozenset[float]]


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
    conditions : mapping of str to Condition
        When parameters are used, by name; the others always are. Of two points that differ in
        what they don't use, both are the same.

    Raises
    ------
    InputError
        As in :func:`check_exact`.
    """

    def __init__(
        self,
        distributions: Mapping[str, BaseDistribution],
        conditions: Mapping[str, Condition] | None = None,
    ) -> None:
        self.distributions, self.conditions = dict(distributions), dict(conditions or {})
        for name, distribution in self.distributions.items():
            check_exact(name, distribution)
        self.dimensions: list[_Number | _Choice] = [
            _Choice(one) if isinstance(one, CategoricalDistribution) else _Number(one)  # type: ignore[arg-type]
            for one in self.distributions.values()
        ]
        self._widths = [dim.columns for dim in self.dimensions]
        self._ends = np.cumsum(self._widths)
        #: Which of the D columns are of numbers.
        self.numeric = self._wide([isinstance(dim, _Number) for dim in self.dimensions])
        names = list(self.distributions)
        #: Places of dimensions that aren't always used, with those that decide and their values.
        self._deciding = {
            names.index(name): (names.index(root), sorted(places))
            for name, (root, places) in self.conditions.items()
        }

    def used(self, point: Mapping[str, Any]) -> dict[str, BaseDistribution]:
        """Return the distributions of the parameters that a point uses."""
        used = dict(self.distributions)
        for name, (root, places) in self.conditions.items():
            choice = self.distributions[root]
            if root not in point or choice.to_internal_repr(point[root]) not in places:
                del used[name]
        return used

    def encode(self, points: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """Return points, parameters by name, as rows (n, D)."""
        named = list(zip(self.distributions.items(), self.dimensions, strict=True))
        values = [
            [
                one.to_internal_repr(point[name]) if name in point else dim.low
                for (name, one), dim in named
            ]
            for point in points
        ]
        return self._rows(values)

    def decode(self, row: np.ndarray) -> dict[str, Any]:
        """Return the parameters that the point nearest to a row (D,) uses."""
        pairs = zip(self.distributions.items(), self._values(row[None])[0].tolist(), strict=True)
        point = {name: one.to_external_repr(value) for (name, one), value in pairs}
        return {name: point[name] for name in self.used(point)}

    def movable(self, row: np.ndarray) -> np.ndarray:
        """Return which columns (D,) of a row (D,) are of numbers that the point uses."""
        return self.numeric & self._wide(self._active(self._values(row[None])))[0]

    def _active(self, values: np.ndarray) -> np.ndarray:
        """Return which dimensions points (n, number of dimensions) use."""
        active = np.ones(values.shape, dtype=bool)
        for place, (root, places) in self._deciding.items():
            active[:, place] = np.isin(values[:, root], places)
        return active

    def _wide(self, dimensions: npt.ArrayLike) -> np.ndarray:
        """Return what holds for dimensions (..., number of dimensions) for columns (..., D)."""
        return np.repeat(dimensions, self._widths, axis=-1)

    def _rows(self, points: npt.ArrayLike) -> np.ndarray:
        """Return points (n, number of dimensions) as rows (n, D)."""
        values = np.array(points, dtype=float).reshape(-1, len(self.dimensions))
        parts = [dim.encode(v) for dim, v in zip(self.dimensions, values.T, strict=True)]
        return np.where(self._wide(self._active(values)), np.concatenate(parts, axis=1), INACTIVE)

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
                for place in np.flatnonzero(self._active(values[None])[0])
                for value in self.dimensions[place].beside(values[place])
            ]
        )

    @property
    def count(self) -> float:
        """Number of points."""
        return math.prod(
            sum(
                math.prod(
                    self.dimensions[place].count
                    for place, (deciding, places) in self._deciding.items()
                    if deciding == root and value in places
                )
                for value in dim.every()
            )
            if root in {deciding for deciding, _ in self._deciding.values()}
            else dim.count
            for root, dim in enumerate(self.dimensions)
            if root not in self._deciding
        )

    def every(self, at_most: int) -> np.ndarray | None:
        """Return all points as rows (n, D); None if there are more than `at_most`."""
        if self.count > at_most:
            return None
        roots = sorted({root for root, _ in self._deciding.values()})
        points: list[tuple[float, ...]] = []
        for chosen in product(*(self.dimensions[root].every() for root in roots)):
            fixed = dict(zip(roots, chosen, strict=True))
            fixed |= {
                place: self.dimensions[place].low
                for place, (root, places) in self._deciding.items()
                if fixed[root] not in places
            }
            points += product(
                *(
                    [fixed[i]] if i in fixed else dim.every()
                    for i, dim in enumerate(self.dimensions)
                )
            )
        return self._rows(points)

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


def learned_space(studies: Sequence[Sequence[FrozenTrial]]) -> Space:
    """Return the space of the last of some studies, given their completed trials.

    Parameters of all trials of the last study that has any are always used. Others have to have the
    same distribution in all of its trials that have them. They are used with some choices of a
    parameter if in all trials, also of earlier studies with the same choices, it is these choices
    that decide whether a trial has them; parameters for which there is none aren't in the space.
    So are those with a single value.

    Parameters
    ----------
    studies : sequence of sequence of optuna.trial.FrozenTrial
        Completed trials, by study.
    """
    tried = [list(trials) for trials in studies if trials]
    if not tried:
        return Space({})
    always = intersection_search_space(tried[-1])
    known = dict(always)
    for trial in (trial for trials in reversed(tried) for trial in reversed(trials)):
        known = {**trial.distributions, **known}
    deciding = {
        name: [
            trial
            for trials in tried
            if all(trial.distributions.get(name) == one for trial in trials)
            for trial in trials
        ]
        for name, one in always.items()
        if isinstance(one, CategoricalDistribution) and not one.single()
    }
    distributions, conditions = dict[str, BaseDistribution](), dict[str, Condition]()
    for name, one in sorted(known.items()):
        own = {trial.distributions[name] == one for trial in tried[-1] if name in trial.params}
        if one.single() or False in own:
            continue
        for root, trials in deciding.items():
            places = [always[root].to_internal_repr(trial.params[root]) for trial in trials]
            has = [name in trial.params for trial in trials]
            with_it, without = (
                frozenset(place for place, one in zip(places, has, strict=True) if one == there)
                for there in (True, False)
            )
            if with_it and without and not with_it & without:
                conditions[name] = root, with_it
                break
        if name in conditions or name in always:
            distributions[name] = one
    return Space(distributions, conditions)
