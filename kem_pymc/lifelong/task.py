"""Tasks of lifelong optimisation."""

from dataclasses import dataclass, field
from typing import Any


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
