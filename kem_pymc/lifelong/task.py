"""Tasks of lifelong optimisation."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kem_pymc.errors import InputError


def same_point(point: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a point is one of others: with values that are equal and of the same types.

    Without types, the choices 1 and True would be one.
    """
    types = [type(value) for value in point.values()]
    return any(
        point == other and types == [type(value) for value in other.values()] for other in others
    )


@dataclass
class Task:
    """One function, and what is known about it.

    Attributes
    ----------
    name : str
    points : list of dict
        Points that were evaluated, in the order in which values were recorded.
    values : list of float
        Their values; NaN where the evaluation failed.
    pending : list of dict
        Points that were asked for, without a value yet.
    asked : int
        Number of points that were asked for.
    """

    name: str
    points: list[dict[str, Any]] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    pending: list[dict[str, Any]] = field(default_factory=list)
    asked: int = 0

    def awaits(self, point: Mapping[str, Any]) -> bool:
        """Return whether a point was asked for and has no value yet."""
        return same_point(point, self.pending)

    def forget(self, point: Mapping[str, Any]) -> None:
        """Remove a point from those without a value, if it is one of them."""
        for place, own in enumerate(self.pending):
            if same_point(point, [own]):
                del self.pending[place]
                return

    @property
    def has_values(self) -> bool:
        """Whether an evaluation didn't fail."""
        return bool(np.isfinite(self.values).any())

    def best(self, sign: float) -> tuple[dict[str, Any], float]:
        """Return the best point, and its value.

        Parameters
        ----------
        sign : float
            1 if the smallest value is the best one, -1 if the largest one is.

        Raises
        ------
        InputError
            If there is no value, or all evaluations failed.
        """
        if not self.has_values:
            if self.values:
                raise InputError(f"All evaluations of task {self.name} failed. Tell another.")
            raise InputError(f"Task {self.name} has no values. Tell one first.")
        place = int(np.nanargmin(sign * np.array(self.values)))
        return dict(self.points[place]), self.values[place]
