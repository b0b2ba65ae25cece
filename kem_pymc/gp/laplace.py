"""Laplace's approximation: a normal distribution at an optimum, with the curvature there."""

import math
from functools import cached_property

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.gp.likelihood import HALF_LOG_2PI
from kem_pymc.gp.objective import Curvature, Objective
from kem_pymc.gp.problem import differenced, evaluate

#: Step of finite differences of the gradient.
STEP = 1e-4

#: Smallest curvature in any direction, that of a standard deviation of 10: without a prior a
#: direction may be flat.
LEAST_CURVATURE = 0.01


def curvature_at(objective: Objective, values: np.ndarray, central: bool = False) -> Curvature:
    """Return height, gradient (d,) and curvature (d, d) of an objective at coordinates (d,).

    The curvature is minus the Hessian, by finite differences of the gradient: forward ones, or
    central ones at twice the cost. Results are cached.
    """
    place = values.tobytes(), central
    if place not in objective.curvatures:
        objective.curvatures[place] = objective.compute(_curvature, values, central)
    return objective.curvatures[place]


@compiled
def _curvature(problem, values, central):
    """Return what :func:`curvature_at` does."""
    size = values.shape[0]
    gradient, before, after = np.empty(size), np.empty((size, size)), np.empty((size, size))
    likelihood, density = evaluate(problem, values, gradient)
    for i in range(size):
        there = values.copy()
        there[i] = values[i] + STEP
        evaluate(problem, there, after[i])
        before[i] = gradient
        if central:
            there[i] = values[i] - STEP
            evaluate(problem, there, before[i])
    curvature = differenced(before, after, 2 * STEP if central else STEP)
    return likelihood + density, gradient, curvature


@compiled
def principal_axes(curvature):
    """Return the curvatures (d,) along the principal axes, and these as columns (d, d).

    Curvatures below `LEAST_CURVATURE` are replaced by it.
    """
    curvatures, vectors = np.linalg.eigh(curvature)
    return np.maximum(curvatures, LEAST_CURVATURE), vectors


class Laplace:
    """A normal approximation to a density around its optimum.

    Parameters
    ----------
    curvature : ndarray, shape (d, d)
        Minus the Hessian of the log density. Curvatures below `LEAST_CURVATURE` are replaced by it.

    Attributes
    ----------
    curvatures : ndarray, shape (d,)
        Curvatures along the principal axes.
    vectors : ndarray, shape (d, d)
        Principal axes, one a column.
    """

    def __init__(self, curvature: np.ndarray) -> None:
        self.curvatures, self.vectors = principal_axes(curvature)

    @property
    def curvature(self) -> np.ndarray:
        """Curvature (d, d) of the approximation, which is positive definite."""
        return (self.vectors * self.curvatures) @ self.vectors.T

    @cached_property
    def covariance(self) -> np.ndarray:
        """Covariance (d, d)."""
        return (self.vectors / self.curvatures) @ self.vectors.T

    def scaled(self, normal: np.ndarray) -> np.ndarray:
        """Return steps (s, d) from the optimum, given standard normal ones along the axes."""
        return (normal / np.sqrt(self.curvatures)) @ self.vectors.T

    def squares(self, steps: np.ndarray) -> np.ndarray:
        """Return squared lengths (s,) of steps (s, d) from the optimum, in sds."""
        return (steps @ self.vectors) ** 2 @ self.curvatures

    @property
    def log_volume(self) -> float:
        """Log integral of the density over that at the optimum: d/2 log 2 pi - 1/2 log |A|."""
        return float((HALF_LOG_2PI - 0.5 * np.log(self.curvatures)).sum())


def log_volume(curvature: np.ndarray) -> float:
    """Return :attr:`Laplace.log_volume`; minus infinity if a curvature isn't positive.

    Precisions may differ by many orders of magnitude.
    """
    scale = np.sqrt(np.maximum(np.diag(curvature), 0.0))
    if not (np.isfinite(curvature).all() and (scale > 0).all()):
        return -math.inf
    try:
        root = np.linalg.cholesky(curvature / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        return -math.inf
    return float((HALF_LOG_2PI - np.log(np.diag(root) * scale)).sum())
