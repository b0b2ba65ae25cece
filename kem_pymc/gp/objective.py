"""The objective of a fit: the log likelihood of one data set plus an optional log prior.

Both are functions of a composition's coordinates, see :mod:`kem_pymc.gp.coordinates`.
"""

from copy import copy
from typing import Self

import numpy as np

from kem_pymc.gp.coordinates import NOISE_FLOOR, Coordinates
from kem_pymc.gp.lapack import evaluate_large
from kem_pymc.gp.likelihood import as_active
from kem_pymc.gp.mean_process import MeanAtPoints
from kem_pymc.gp.problem import Prior, Problem, evaluate, evaluate_all, flat_prior
from kem_pymc.kernels.library import kernels

#: Height, gradient (d,) and curvature (d, d) of an objective at coordinates (d,).
type Curvature = tuple[float, np.ndarray, np.ndarray]

#: Number of points from which on LAPACK is faster than the compiled loops.
LARGE = 600


class Objective:
    """The log likelihood of one data set under one composition, plus a log prior.

    Parameters
    ----------
    coordinates : Coordinates
    x : ndarray, shape (n, D)
        Inputs, in the units of the hyperparameters.
    y : ndarray, shape (n,)
        Targets.
    prior : Prior, optional
        Prior of the coordinates; flat by default.
    noise_floor : float
        Smallest noise variance of fits, at which the evidence censors the prior. The objective
        itself is defined below it, too.
    shared : MeanAtPoints, optional
        Mean function shared by all users, at the same inputs: its mean is subtracted from the
        targets, and its covariance added to that of the composition.
    """

    def __init__(
        self,
        coordinates: Coordinates,
        x: np.ndarray,
        y: np.ndarray,
        prior: Prior | None = None,
        noise_floor: float = NOISE_FLOOR,
        shared: MeanAtPoints | None = None,
    ) -> None:
        self.coordinates = coordinates
        self.noise_floor = noise_floor
        self.shared = shared
        #: Cache by coordinates: the evidence and draws of values need the same curvature.
        self.curvatures: dict[tuple[bytes, bool], Curvature] = {}
        #: The targets (n,), before the shared mean is subtracted.
        self.targets = y = np.array(y, dtype=np.float64)
        self.problem = Problem(
            kernels=kernels(),
            layout=coordinates.pool.layout,
            active=as_active(coordinates.inclusion),
            places=coordinates.places,
            x=np.array(np.transpose(x), dtype=np.float64, order="C"),
            y=y if shared is None else y - shared.mean,
            weights=np.ones(len(y)),
            starts=np.array([0, len(y)]),
            shared=np.empty((0, 0)) if shared is None else shared.covariance,
            prior=flat_prior(len(coordinates)) if prior is None else prior,
        )

    @property
    def n_points(self) -> int:
        """Number of points n."""
        return len(self.problem.y)

    @property
    def is_large(self) -> bool:
        """Whether LAPACK evaluates the objective, not compiled loops; decided only here."""
        return self.n_points >= LARGE

    def with_prior(self, prior: Prior) -> Self:
        """Return the same likelihood with another prior."""
        objective = copy(self)
        objective.problem = self.problem._replace(prior=prior)
        objective.curvatures = {}
        return objective

    def evaluate(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log likelihood plus log prior (m,) and its gradients (m, k + 1) at given points.

        Where either term or a slope isn't finite, the sum is minus infinity and the gradient zero.

        Parameters
        ----------
        points : ndarray, shape (m, k + 1)
            Coordinates, one point per row.

        Returns
        -------
        heights : ndarray, shape (m,)
        gradients : ndarray, shape (m, k + 1)
        """
        heights, gradients = np.empty(len(points)), np.empty(points.shape)
        if self.is_large:
            for i, values in enumerate(points):
                likelihood, density, gradients[i] = evaluate_large(self.problem, values)
                heights[i] = likelihood + density
        else:
            evaluate_all(self.problem, np.ascontiguousarray(points), heights, gradients)
        return heights, gradients

    def terms(self, values: np.ndarray) -> tuple[float, float]:
        """Return log likelihood and log prior at coordinates (k + 1,)."""
        values, gradient = np.array(values, dtype=np.float64), np.empty(len(values))
        if self.is_large:
            return evaluate_large(self.problem, values)[:2]
        return evaluate(self.problem, values, gradient)
