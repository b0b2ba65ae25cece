"""Spaces of points to try, encoded as rows of columns in [0, 1]."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import qmc

from kem_pymc.errors import InputError
from kem_pymc.lifelong.distributions import (
    CategoricalDistribution,
    Distribution,
    IntDistribution,
)

#: A point of a space: values by name.
type Point = Mapping[str, Any]


class SpaceExhausted(InputError):
    """There is no point of a space that wasn't asked for in the current task."""

    def __init__(
        self, message: str = "All points of the space were asked for. Begin the next task."
    ) -> None:
        super().__init__(message)


class Space:
    """A space of points with named dimensions.

    Parameters
    ----------
    dimensions : mapping of str to Distribution
        Values of each dimension, by name.

    Raises
    ------
    InputError
        If there is no dimension, or one isn't a distribution.

    Examples
    --------
    >>> depth, solver = IntDistribution(1, 10), CategoricalDistribution(["lbfgs", "saga"])
    >>> Space({"depth": depth, "solver": solver})
    """

    def __init__(self, dimensions: Mapping[str, Distribution]) -> None:
        if not isinstance(dimensions, Mapping):
            raise InputError(
                f"The space is {dimensions!r}. Give a mapping of names to distributions."
            )
        if not dimensions:
            raise InputError("The space has one point only. Give at least one dimension.")
        for name, distribution in dimensions.items():
            if not isinstance(name, str):
                raise InputError(f"The dimension {name!r} has a name that isn't text. Give text.")
            if not isinstance(distribution, Distribution):
                raise InputError(
                    f"{name} is {distribution!r}. Give a FloatDistribution, IntDistribution or "
                    "CategoricalDistribution of kem_pymc.lifelong."
                )
        if len({name.replace("/", ".") for name in dimensions}) < len(dimensions):
            raise InputError(
                "Two dimensions differ only in '.' for '/' in their names. Rename one."
            )
        self.dimensions = dict(dimensions)

    @classmethod
    def of(cls, given: "Space | Mapping[str, Distribution]") -> "Space":
        """Return a space, or that of its dimensions."""
        return given if isinstance(given, Space) else cls(given)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space):
            return False
        return list(self.dimensions.items()) == list(other.dimensions.items())

    __hash__ = None  # type: ignore[assignment]

    @property
    def columns(self) -> int:
        """Number of columns D of encoded points."""
        return sum(own.columns for own in self.dimensions.values())

    def _slices(self) -> Iterator[tuple[str, Distribution, slice]]:
        first = 0
        for name, own in self.dimensions.items():
            yield name, own, slice(first, first + own.columns)
            first += own.columns

    @property
    def numeric(self) -> np.ndarray:
        """Which of the D columns are of numbers."""
        found = np.zeros(self.columns, dtype=bool)
        for _, own, columns in self._slices():
            found[columns] = not isinstance(own, CategoricalDistribution)
        return found

    def own(self, point: Point) -> dict[str, Any]:
        """Return a point with the values, types and order of the space.

        Raises
        ------
        InputError
            If the point has other names, or a value isn't one of its dimension.
        """
        if not isinstance(point, Mapping):
            raise InputError(
                f"The point is {point!r}. Give a mapping with values of "
                f"{', '.join(self.dimensions)}."
            )
        if set(point) != set(self.dimensions):
            raise InputError(
                f"The point has values of {', '.join(map(str, point)) or 'nothing'}. "
                f"Give values of {', '.join(self.dimensions)}."
            )
        found = {}
        for name, own in self.dimensions.items():
            try:
                found[name] = own.own(point[name])
            except ValueError as error:
                raise InputError(f"{name} can't be {point[name]!r}: {error}.") from None
        return found

    def encode(self, points: Sequence[Point]) -> np.ndarray:
        """Return points as rows (n, D).

        Raises
        ------
        InputError
            If a point has other names, or a value isn't one of its dimension.
        """
        return self._rows([self.own(point) for point in points])

    def _rows(self, points: Sequence[Point]) -> np.ndarray:
        """Return points with the space's own values as rows (n, D)."""
        rows = np.zeros((len(points), self.columns))
        for row, point in zip(rows, points, strict=True):
            for name, own, columns in self._slices():
                row[columns] = own.encode(point[name])
        return rows

    def decode(self, rows: np.ndarray) -> list[dict[str, Any]]:
        """Return the points that are nearest to rows (n, D)."""
        return [
            {name: own.decode(row[columns]) for name, own, columns in self._slices()}
            for row in np.atleast_2d(rows)
        ]

    def nearest(self, rows: np.ndarray) -> np.ndarray:
        """Return the encoded points nearest to rows (n, D)."""
        return self._rows(self.decode(rows))

    def neighbours(self, rows: np.ndarray) -> np.ndarray:
        """Return the points that differ from rows (n, D) by one step of one dimension.

        Returns
        -------
        ndarray, shape (m, D)
            A category has all others as steps, a whole number those before and after, and other
            numbers none.
        """
        return self._rows(
            [
                point | {name: value}
                for point in self.decode(rows)
                for name, own in self.dimensions.items()
                for value in own.beside(point[name])
            ]
        )

    def every(self, at_most: int) -> np.ndarray | None:
        """Return all points as rows (n, D); None if there are more than `at_most`."""
        values: list[Sequence[Any]] = []
        count = 1
        for own in self.dimensions.values():
            if isinstance(own, CategoricalDistribution):
                values.append(own.choices)
                count *= len(own.choices)
            elif isinstance(own, IntDistribution):
                values.append(range(own.low, own.high + 1))
                count *= own.high - own.low + 1
            else:
                return None
        if count > at_most:
            return None
        names = list(self.dimensions)
        return self._rows([dict(zip(names, point, strict=True)) for point in product(*values)])

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n random points as rows (n, D)."""
        return self._spread(rng.random((n, len(self.dimensions))))

    def sobol(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n points of a scrambled Sobol sequence as rows (n, D)."""
        engine = qmc.Sobol(len(self.dimensions), rng=rng)
        return self._spread(engine.random_base2(max(0, math.ceil(math.log2(n))))[:n])

    def _spread(self, uniform: np.ndarray) -> np.ndarray:
        """Return the points at places (n, number of dimensions) in [0, 1]."""
        rows = np.zeros((len(uniform), self.columns))
        for place, (_, own, columns) in zip(uniform.T, self._slices(), strict=True):
            if isinstance(own, CategoricalDistribution):
                chosen = np.minimum((place * own.columns).astype(int), own.columns - 1)
                rows[np.arange(len(rows)), columns.start + chosen] = 1.0
            elif isinstance(own, IntDistribution):
                rows[:, columns] = [own.encode(value) for value in own.spread(place)]
            else:
                rows[:, columns.start] = place
        return self.nearest(rows)

    def combinations(self, at_most: int) -> np.ndarray | None:
        """Return columns of all combinations of choices; None if there are more than `at_most`.

        Returns
        -------
        ndarray, shape (m, D), or None
            Columns of numbers are zero.
        """
        places = [range(columns.start, columns.stop) for columns in self.categories]
        if math.prod(map(len, places)) > at_most:
            return None
        chosen = list(product(*places))
        rows = np.zeros((len(chosen), self.columns))
        for row, places_of_one in zip(rows, chosen, strict=True):
            row[list(places_of_one)] = 1.0
        return rows

    @property
    def categories(self) -> list[slice]:
        """The columns of each categorical dimension."""
        return [
            columns
            for _, own, columns in self._slices()
            if isinstance(own, CategoricalDistribution)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the space as plain data, for JSON."""
        return {name: own.to_dict() for name, own in self.dimensions.items()}
