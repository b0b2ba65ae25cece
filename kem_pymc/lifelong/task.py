"""Tasks of lifelong optimisation."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kem_pymc.errors import InputError


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
            raise InputError(f"Task {self.name} has no values. Tell one first.")
        place = int(np.nanargmin(sign * np.array(self.values)))
        return dict(self.points[place]), self.values[place]
