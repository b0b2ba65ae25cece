"""The objective of a fit: the log likelihood of one data set plus an optional log prior.

Both are functions of a composition's coordinates, see :mod:`kem_pymc.gp.coordinates`.

Compiled loops are faster while a matrix fits the CPU caches. For larger matrices LAPACK's blocked
factorisation and inverse are faster; since all points have weight one, the gradient needs nothing
else. LAPACK uses one thread: with more, results would depend on the number of cores, and on shared
cores it would be slower.
"""

import math
from copy import copy
from typing import Self

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from kem_pymc._system.jit.simd import padded
from kem_pymc._system.resources import one_blas_thread
from kem_pymc.gp.coordinates import NOISE_FLOOR, Coordinates
from kem_pymc.gp.covariance import covariance
from kem_pymc.gp.kernel import FixedKernel
from kem_pymc.gp.known_part import KnownPart
from kem_pymc.gp.likelihood import (
    HALF_LOG_2PI,
    add_kernel_gradient,
    add_upper,
    as_active,
    representable,
)
from kem_pymc.gp.problem import Prior, Problem, evaluate, evaluate_all, flat_prior, log_prior
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

    @property
    def is_large(self) -> bool:
        """Whether LAPACK evaluates the objective, not compiled loops; decided only here."""
        return self.n_points >= LARGE

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

    def heights(self, points: np.ndarray) -> np.ndarray:
        """Return log likelihood plus log prior (m,) at points (m, k + 1), without gradients."""
        if self.is_large:
            return self.evaluate(points)[0]
        heights = np.empty(len(points))
        evaluate_all(
            self.problem, np.ascontiguousarray(points), heights, np.empty((0, points.shape[1]))
        )
        return heights

    def terms(self, values: np.ndarray) -> tuple[float, float]:
        """Return log likelihood and log prior at coordinates (k + 1,)."""
        values = np.array(values, dtype=np.float64)
        if self.is_large:
            return evaluate_large(self.problem, values)[:2]
        return evaluate(self.problem, values, np.empty(0))


def log_likelihood(a: np.ndarray, y: np.ndarray, adjoint: np.ndarray) -> float | None:
    """Return the log density of normal targets, and write its derivatives to `adjoint`.

    With A = L L' and w = A^-1 y the derivative in A is (w w' - A^-1) / 2.

    Parameters
    ----------
    a : ndarray, shape (n, at least n)
        Covariance A, of which the upper triangle is read.
    y : ndarray, shape (n,)
        Targets.
    adjoint : ndarray, shape (n, at least n)
        Derivatives in the entries A[i, j], i <= j: one above the diagonal represents that below
        it, too. What is below the diagonal has no meaning.

    Returns
    -------
    float or None
        None if the covariance isn't positive definite.
    """
    n = len(y)
    # LAPACK is column-major: its lower triangle is the upper one of a row-major array.
    lower, failed = dpotrf(a.T[:n], lower=1, clean=0)
    if failed:
        return None
    weighted = dpotrs(lower, y, lower=1)[0]
    half_log_determinant = float(np.log(np.diag(lower)).sum())
    np.multiply.outer(weighted, weighted, out=adjoint[:, :n])
    adjoint[:, :n] -= dpotri(lower, lower=1, overwrite_c=1)[0].T
    adjoint[np.diag_indices(n)] *= 0.5
    return -0.5 * float(y @ weighted) - half_log_determinant - n * HALF_LOG_2PI


@one_blas_thread()
def evaluate_large(problem: Problem, values: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Return log likelihood, log prior and the gradient of their sum, like `evaluate`.

    Where A isn't positive definite, the compiled loops and their jitter are used.

    Parameters
    ----------
    problem : Problem
        Problem with one data set, in which all weights are one.
    values : ndarray, shape (k + 1,)
        Coordinates (:mod:`kem_pymc.gp.coordinates`).

    Returns
    -------
    log_likelihood, log_prior : float
        Minus infinity and zero where the sum or its gradient isn't finite.
    gradient : ndarray, shape (k + 1,)
        Zero there.
    """
    n, k = len(problem.y), len(values) - 1
    h = np.zeros(len(problem.layout.positive))
    h[problem.places] = values[:k]
    gradient = np.empty(k + 1)
    if not representable(problem.layout, problem.active, h, values[k]):
        return *evaluate(problem, values, gradient), gradient
    # Entries below the diagonal don't affect results but enter computations: they must be finite.
    a, adjoint = np.zeros((n, padded(n))), np.zeros((n, padded(n)))
    covariance(problem.kernels, problem.layout, problem.active, h, problem.x, a, adjoint)
    if len(problem.known):
        add_upper(a, problem.known)
    factors = problem.factors if len(problem.factors) else 1.0
    a[np.diag_indices(n)] += math.exp(values[k]) * factors
    likelihood = log_likelihood(a, problem.y, adjoint)
    if likelihood is None:
        return *evaluate(problem, values, gradient), gradient
    slope = np.zeros(len(h) + 1)
    add_kernel_gradient(
        problem.kernels, problem.layout, problem.active, h, problem.x, adjoint, slope
    )
    gradient[:k] = slope[problem.places]
    gradient[k] = (adjoint[:, :n].diagonal() * factors).sum() * math.exp(values[k])
    density = log_prior(problem.prior, values, gradient)
    if not (math.isfinite(likelihood + density) and np.isfinite(gradient).all()):
        return -math.inf, 0.0, np.zeros(k + 1)
    return likelihood, density, gradient
