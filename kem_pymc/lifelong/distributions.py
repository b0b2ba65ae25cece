"""Values that one dimension of a space may have: numbers and categories, encoded in [0, 1]."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kem_pymc.errors import InputError

#: Value of a categorical distribution.
type Choice = str | bool | int | float | None


def plain(value: Any) -> Any:
    """Return a NumPy scalar as a number or text of Python, and any other value as it is."""
    return value.item() if isinstance(value, np.generic) else value


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number, and not a truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


class Distribution(ABC):
    """Values that one dimension of a space may have."""

    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the distribution as plain data, for JSON."""
        data = {name: getattr(self, name) for name in self.__match_args__}  # type: ignore[attr-defined]
        return {"kind": self.kind} | {
            name: list(value) if isinstance(value, tuple) else value for name, value in data.items()
        }

    @property
    def columns(self) -> int:
        """Number of columns of the encoding."""
        return 1

    @abstractmethod
    def own(self, value: Any) -> Any:
        """Return the distribution's value that is equal to another, which may be of another type.

        Raises
        ------
        ValueError
            If it isn't one of the values.
        """

    @abstractmethod
    def beside(self, value: Any) -> list[Any]:
        """Return the values that are one step from one of them; none if there are no steps."""

    @abstractmethod
    def encode(self, value: Any) -> list[float]:
        """Return the columns of one of the values."""

    @abstractmethod
    def decode(self, columns: np.ndarray) -> Any:
        """Return the value nearest to columns."""


@dataclass(frozen=True)
class _Range(Distribution):
    """Values between two numbers."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        ends = (plain(self.low), plain(self.high))
        if not all(map(is_number, ends)) or not is_number(ends[1] - ends[0]):
            raise InputError(
                f"The range from {self.low!r} to {self.high!r} isn't one between two finite "
                "numbers. Give such ends."
            )
        for name, end in zip(("low", "high"), ends, strict=True):
            object.__setattr__(self, name, self._typed(end))
        if not self.low < self.high:
            raise InputError(
                f"The range from {self.low} to {self.high} is empty or has one value. Give a "
                "larger upper end, or leave the dimension out."
            )
        if self.log and self.low <= 0:
            raise InputError(
                f"The range begins at {self.low}, which has no logarithm. Give a positive lower "
                "end, or leave log out."
            )

    @staticmethod
    def _typed(value: float) -> float:
        """Return a number with the type of the range's values."""
        return float(value)

    def _ends(self) -> tuple[float, float]:
        return (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)

    def own(self, value: Any) -> float:
        """Return the number as one of the range; see :class:`Distribution`."""
        value = plain(value)
        if not is_number(value):
            raise ValueError("it isn't a number")
        if not self.low <= value <= self.high:
            raise ValueError(f"it isn't between {self.low} and {self.high}")
        return self._typed(value)

    def encode(self, value: float) -> list[float]:
        """Return the place of a value in the range, in [0, 1]; see :class:`Distribution`."""
        low, high = self._ends()
        return [((math.log(value) if self.log else float(value)) - low) / (high - low)]

    def decode(self, columns: np.ndarray) -> float:
        """Return the value at a place in the range; see :class:`Distribution`."""
        place = float(columns[0])
        if place <= 0.0 or place >= 1.0:  # without rounding errors of logarithms
            return self.low if place <= 0.0 else self.high
        low, high = self._ends()
        value = low + place * (high - low)
        return min(max(math.exp(value) if self.log else value, self.low), self.high)


@dataclass(frozen=True)
class FloatDistribution(_Range):
    """Numbers between two ends.

    Attributes
    ----------
    low, high : float
    log : bool
        Whether values are uniform in their logarithm.

    Raises
    ------
    InputError
        If the range is empty, or has no logarithm.
    """

    kind: ClassVar[str] = "float"

    def beside(self, value: float) -> list[float]:
        """Return nothing; see :class:`Distribution`."""
        return []


@dataclass(frozen=True)
class IntDistribution(_Range):
    """Whole numbers between two ends, which are included.

    Attributes
    ----------
    low, high : int
    log : bool
        Whether values are uniform in their logarithm.

    Raises
    ------
    InputError
        If the range is empty, has no logarithm, or an end isn't a whole number.
    """

    kind: ClassVar[str] = "int"
    low: int
    high: int

    def __post_init__(self) -> None:
        try:
            super().__post_init__()
        except InputError:
            raise
        except ValueError as error:
            raise InputError(
                f"The range from {self.low} to {self.high} has an end that isn't a whole number. "
                "Use FloatDistribution, or round the ends."
            ) from error

    @staticmethod
    def _typed(value: float) -> int:
        if value != int(value):
            raise ValueError("it isn't a whole number")
        return int(value)

    def spread(self, places: np.ndarray) -> list[int]:
        """Return whole numbers at places (n,) in [0, 1] of the range with half a number more at
        each end, so that the ends are as frequent as their neighbours."""
        low, high = self.low - 0.5, self.high + 0.5
        if self.log:
            found = np.exp(math.log(low) + places * (math.log(high) - math.log(low)))
        else:
            found = low + places * (high - low)
        return [min(max(int(own), self.low), self.high) for own in np.floor(found + 0.5)]

    def beside(self, value: int) -> list[int]:
        """Return the whole numbers before and after; see :class:`Distribution`."""
        return [own for own in (value - 1, value + 1) if self.low <= own <= self.high]

    def decode(self, columns: np.ndarray) -> int:
        """Return the whole number nearest to a place in the range; see :class:`Distribution`."""
        return round(super().decode(columns))


@dataclass(frozen=True)
class CategoricalDistribution(Distribution):
    """Choices without an order, each with a column of its own.

    Attributes
    ----------
    choices : sequence of str, bool, int, float or None

    Raises
    ------
    InputError
        If there are fewer than two choices, or one of them occurs twice.
    """

    kind: ClassVar[str] = "categorical"
    choices: tuple[Choice, ...]

    def __post_init__(self) -> None:
        if isinstance(self.choices, str) or not isinstance(self.choices, Iterable):
            raise InputError(f"The choices are {self.choices!r}. Give a list of choices.")
        object.__setattr__(self, "choices", tuple(map(plain, self.choices)))
        known = str | bool | int | float | None
        for choice in self.choices:
            if not isinstance(choice, known) or choice != choice:  # NaN isn't equal to itself
                raise InputError(
                    f"The choice {choice!r} isn't text, a number, a truth value or None. "
                    "Give its name, and look it up where it is used."
                )
        keys = {(type(choice), choice) for choice in self.choices}
        if len(self.choices) < 2 or len(keys) < len(self.choices):
            raise InputError(
                f"The choices {self.choices} are fewer than two, or one of them occurs twice. "
                "Give different ones."
            )

    @property
    def columns(self) -> int:
        """Number of choices."""
        return len(self.choices)

    def own(self, value: Any) -> Choice:
        """Return the choice of the same type, or otherwise the equal one; see the base class."""
        value = plain(value)
        equal = [own for own in self.choices if own == value]
        if not equal:
            raise ValueError(f"it isn't one of {', '.join(map(repr, self.choices))}")

        def likeness(own: Choice) -> tuple[bool, bool]:
            truth = isinstance(own, bool) is isinstance(value, bool)  # 1.0 is rather 1 than True
            return type(own) is type(value), truth

        return max(equal, key=likeness)

    def beside(self, value: Choice) -> list[Choice]:
        """Return the other choices; see :class:`Distribution`."""
        return [own for own in self.choices if type(own) is not type(value) or own != value]

    def encode(self, value: Choice) -> list[float]:
        """Return 1 in the column of a choice; see :class:`Distribution`."""
        return [float(type(own) is type(value) and own == value) for own in self.choices]

    def decode(self, columns: np.ndarray) -> Choice:
        """Return the choice with the largest column; see :class:`Distribution`."""
        return self.choices[int(np.argmax(columns))]
