"""Laplace's approximation: a normal distribution at an optimum, with the curvature there."""

import math
from functools import cached_property

import numpy as np

from kem_pymc.gp.likelihood import HALF_LOG_2PI
from kem_pymc.gp.objective import Curvature, Objective
from kem_pymc.gp.problem import differenced

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
        steps = STEP * np.eye(len(values))
        points = [values[None], values + steps, *([values - steps] if central else [])]
        heights, gradients = objective.evaluate(np.concatenate(points))
        after, before = gradients[1 : 1 + len(values)], gradients[1 + len(values) :]
        height, gradient = float(heights[0]), gradients[0]
        curvature = (
            differenced(before, after, 2 * STEP) if central else differenced(gradient, after, STEP)
        )
        objective.curvatures[place] = height, gradient, curvature
    return objective.curvatures[place]


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
        eigenvalues, self.vectors = np.linalg.eigh(curvature)
        self.curvatures = np.maximum(eigenvalues, LEAST_CURVATURE)

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
