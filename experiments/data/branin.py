"""Branin functions that differ in their parameters (Zhang et al. 2019, section 3.1)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize

#: Parameters a, b, c, r, s, t of the standard function.
STANDARD = (1.0, 5.1 / (4 * np.pi**2), 5 / np.pi, 6.0, 10.0, 1 / (8 * np.pi))

#: Ranges of both inputs.
RANGES = {"x1": (-5.0, 10.0), "x2": (0.0, 15.0)}

#: Number of points of each input on the grid where the search for the minimum begins.
GRID = 61


@dataclass(frozen=True)
class Branin:
    """The function ``a (x2 - b x1^2 + c x1 - r)^2 + s (1 - t) cos(x1) + s``.

    The paper prints ``s (1 - r)`` in place of ``s (1 - t)``.

    Attributes
    ----------
    parameters : tuple of six floats
        a, b, c, r, s and t.
    """

    parameters: tuple[float, ...] = STANDARD

    def __call__(self, x1: float | np.ndarray, x2: float | np.ndarray) -> np.ndarray:
        """Return values at points."""
        a, b, c, r, s, t = self.parameters
        return np.asarray(a * (x2 - b * x1**2 + c * x1 - r) ** 2 + s * (1 - t) * np.cos(x1) + s)

    @cached_property
    def minimum(self) -> float:
        """The smallest value in the ranges."""
        first, second = np.meshgrid(*(np.linspace(*ends, GRID) for ends in RANGES.values()))
        values = self(first, second).ravel()
        starts = np.stack([first.ravel(), second.ravel()], axis=1)[np.argsort(values)[:10]]
        ends = list(RANGES.values())
        optima = [minimize(lambda x: float(self(*x)), start, bounds=ends) for start in starts]
        return min(float(optimum.fun) for optimum in optima)


def branin_sequence(noise: float, count: int, rng: np.random.Generator) -> list[Branin]:
    """Return functions whose parameters are normal around the standard ones.

    Parameters
    ----------
    noise : float
        Standard deviation of every parameter.
    count : int
    rng : numpy.random.Generator
    """
    drawn = np.array(STANDARD) + noise * rng.normal(size=(count, len(STANDARD)))
    return [Branin(tuple(map(float, constants))) for constants in drawn]
