"""The objective of a fit: the log likelihood of one data set plus an optional log prior.

Both are functions of a composition's coordinates, see :mod:`kem_pymc.gp.coordinates`.

Compiled loops are faster while a matrix fits the CPU caches. For larger matrices LAPACK's blocked
factorisation and inverse are faster; since all points have weight one, the gradient needs nothing
else.
"""

from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from typing import Any, Self

import numpy as np

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.gp.coordinates import NOISE_FLOOR, Coordinates
from kem_pymc.gp.kernel import FixedKernel
from kem_pymc.gp.known_part import KnownPart
from kem_pymc.gp.likelihood import as_active
from kem_pymc.gp.problem import Prior, Problem, evaluate, evaluate_all, flat_prior
from kem_pymc.gp.recorded import Recorded, ScaledSites
from kem_pymc.kernels.library import kernels

#: Height, gradient (d,) and curvature (d, d) of an objective at coordinates (d,).
type Curvature = tuple[float, np.ndarray, np.ndarray]

#: Number of points from which on LAPACK is faster than the compiled loops.
LARGE = 1100


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
    known : KnownPart, optional
        What is known of the targets at these inputs: its mean is subtracted from them, and its
        covariance added to that of the composition.
    recorded : Recorded, optional
        Targets of a family, for which `y` and the known noise stand.
    log_constant : float
        Log density of the recorded targets less that of `y`, see :mod:`kem_pymc.gp.sites`.
    """

    def __init__(
        self,
        coordinates: Coordinates,
        x: np.ndarray,
        y: np.ndarray,
        prior: Prior | None = None,
        noise_floor: float = NOISE_FLOOR,
        known: KnownPart | None = None,
        recorded: Recorded | None = None,
        log_constant: float = 0.0,
    ) -> None:
        self.coordinates = coordinates
        self.noise_floor = noise_floor
        self.known, self.recorded, self.log_constant = known, recorded, log_constant
        #: Cache by coordinates: the evidence and draws of values need the same curvature.
        self.curvatures: dict[tuple[bytes, bool], Curvature] = {}
        #: The targets (n,), before the known mean is subtracted.
        self.targets = y = np.array(y, dtype=np.float64)
        self.problem = Problem(
            kernels=kernels(),
            layout=coordinates.pool.layout,
            active=as_active(coordinates.inclusion),
            places=coordinates.places,
            x=np.array(np.transpose(x), dtype=np.float64, order="C"),
            y=y if known is None else y - known.mean,
            weights=np.ones(len(y)),
            starts=np.array([0, len(y)]),
            known=np.empty((0, 0)) if known is None else known.covariance,
            factors=np.empty(0) if known is None else known.factors,
            prior=flat_prior(len(coordinates)) if prior is None else prior,
            blocked=len(y) >= LARGE,
        )

    @property
    def n_points(self) -> int:
        """Number of points n."""
        return len(self.problem.y)

    @property
    def sites(self) -> ScaledSites | None:
        """The observations that stand for recorded targets, if there are any."""
        if self.recorded is None or self.known is None or self.known.noise is None:
            return None
        return ScaledSites(self.targets, self.known.noise, np.array(self.log_constant))

    def around(self, points: np.ndarray, start: ScaledSites | None = None) -> list[Self]:
        """Return the objectives whose observations stand for the recorded targets at coordinates.

        Parameters
        ----------
        points : ndarray, shape (m, k + 1)
        start : ScaledSites, optional
            As for :meth:`kem_pymc.gp.recorded.Recorded.sites`.
        """
        assert self.recorded is not None
        x = self.problem.x.T
        known = KnownPart(None, x) if self.known is None else self.known
        covariance = np.array(
            [FixedKernel.of(self.coordinates, values).cross(x, x) for values in points]
        )
        covariance += known.of_function + np.multiply.outer(np.exp(points[:, -1]), np.eye(len(x)))
        found = self.recorded.sites(known.mean, covariance, start)
        return [self.with_sites(ScaledSites(*each)) for each in zip(*found, strict=True)]

    def with_sites(self, sites: ScaledSites) -> Self:
        """Return the objective with other observations that stand for the recorded targets."""
        objective = copy(self)
        known = KnownPart(None, self.problem.x.T) if self.known is None else self.known
        objective.known = known = known.with_noise(sites.noise)
        objective.targets, objective.log_constant = sites.targets, float(sites.log_constant)
        y = sites.targets - known.mean
        objective.problem = self.problem._replace(y=y, known=known.covariance)
        objective.curvatures = {}
        return objective

    def with_prior(self, prior: Prior) -> Self:
        """Return the same likelihood with another prior."""
        objective = copy(self)
        objective.problem = self.problem._replace(prior=prior)
        objective.curvatures = {}
        return objective

    def compute(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a compiled function of a problem and other arguments returns.

        LAPACK uses one thread: with more, results would depend on the number of cores, and on
        shared cores it would be slower.
        """
        with one_blas_thread() if self.problem.blocked else nullcontext():
            return function(self.problem, *arguments)

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
        self.compute(evaluate_all, np.ascontiguousarray(points), heights, gradients)
        return heights, gradients

    def heights(self, points: np.ndarray) -> np.ndarray:
        """Return log likelihood plus log prior (m,) at points (m, k + 1), without gradients."""
        heights, nothing = np.empty(len(points)), np.empty((0, points.shape[1]))
        self.compute(evaluate_all, np.ascontiguousarray(points), heights, nothing)
        return heights

    def terms(self, values: np.ndarray) -> tuple[float, float]:
        """Return log likelihood and log prior at coordinates (k + 1,)."""
        return self.compute(evaluate, np.array(values, dtype=np.float64), np.empty(0))
