"""Predict from a fitted composition: mean, sd, and the contribution of each additive component."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kem_pymc._jit.decorators import compiled
from kem_pymc._jit.simd import padded
from kem_pymc.errors import InputError
from kem_pymc.gp.cholesky import cholesky, forward_substitution
from kem_pymc.gp.covariance import covariance, cross_covariance
from kem_pymc.gp.likelihood import HALF_LOG_2PI, add_upper, factorise
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.prediction import Component, Prediction

#: Name of the component that all users share.
SHARED = "shared"


@dataclass(frozen=True, eq=False)
class Conditioned:
    """A composition with given values, conditioned on data, with the Cholesky factor for reuse.

    It is created by :meth:`of`; :meth:`extended` adds points at the cost of the new ones.

    Attributes
    ----------
    objective : Objective
        Objective whose data are conditioned on; its prior isn't used.
    values : ndarray, shape (k + 1,)
        Coordinates (:mod:`kem_pymc.gp.coordinates`).
    factor : ndarray, shape (n, n)
        U, upper triangular, with U'U the covariance of the targets.
    jittered : bool
        Whether the factorisation needed the jitter of the likelihood.
    """

    objective: Objective
    values: np.ndarray
    factor: np.ndarray
    jittered: bool

    @classmethod
    def of(cls, objective: Objective, values: np.ndarray) -> "Conditioned":
        """Condition on the data of an objective, at given coordinates.

        Raises
        ------
        InputError
            If the covariance isn't positive definite, even with jitter.
        """
        factor, jittered = _factor(objective, values)
        if factor is None:
            raise InputError(
                f"The covariance of {objective.coordinates.composition} isn't positive definite. "
                "Use a larger noise variance."
            )
        return cls(objective, values, factor, jittered)

    def extended(self, x: np.ndarray, y: np.ndarray) -> "Conditioned":
        """Condition on further points as well, at the same values.

        The factor's new columns are U'^-1 K(X, X*), and the conditional covariance of the new
        points is factored: O(n^2 m) for m new points, and no kernel is evaluated between old ones.
        Where jitter was needed, or is needed now, everything is computed again.

        Parameters
        ----------
        x : ndarray, shape (m, D)
            Inputs of the new points.
        y : ndarray, shape (m,)
            Targets of the new points.

        Returns
        -------
        Conditioned

        Raises
        ------
        InputError
            If the covariance isn't positive definite, even with jitter.
        """
        problem, shared = self.objective.problem, self.objective.shared
        before = problem.x.T
        points = np.concatenate([before, x])
        objective = Objective(
            self.objective.coordinates,
            points,
            np.concatenate([self.objective.targets, y]),
            problem.prior,
            self.objective.noise_floor,
            None if shared is None else shared.to(x).extended,
        )
        if not self.jittered:
            h, log_noise = self.objective.coordinates.expand(self.values)
            new = None if shared is None else shared.to(x)
            factor = _extend_factor(
                problem.kernels,
                problem.layout,
                problem.active,
                h,
                log_noise,
                problem.x,
                np.array(np.transpose(x), dtype=np.float64, order="C"),
                self.factor,
                np.zeros((len(before), len(x))) if new is None else new.cross,
                np.zeros((len(x), len(x))) if new is None else new.covariance,
            )
            if len(factor):
                return Conditioned(objective, self.values, factor, jittered=False)
        return Conditioned.of(objective, self.values)

    @cached_property
    def whitened(self) -> np.ndarray:
        """U'^-1 y, shape (n,)."""
        return solve_lower(self.factor, self.objective.problem.y[:, None])[:, 0]

    @property
    def log_likelihood(self) -> float:
        """The log likelihood of the data."""
        terms = -0.5 * self.whitened**2 - np.log(np.diag(self.factor)) - HALF_LOG_2PI
        return float(terms.sum())

    def predict(self, x_new: np.ndarray, include_noise: bool = False) -> Prediction:
        """Predict at new inputs.

        With A = K(X, X) + noise I and K = sum_c K_c, the mean is K(X*, X) A^-1 y and the variance
        K(X*, X*) - K(X*, X) A^-1 K(X, X*); for component c, K_c replaces K outside A. The empty
        composition (WHITE) has no components, mean zero, and no variance except the noise. Where
        users share a mean process with mean m and covariance C, y is replaced by y - m(X), m(X*)
        is added to the mean, and C is the covariance of one more component.

        Parameters
        ----------
        x_new : ndarray, shape (m, D)
            Inputs at which to predict, in the units of the objective's inputs.
        include_noise : bool
            Whether to predict new observations instead of the latent function.
        """
        pool, problem = self.objective.coordinates.pool, self.objective.problem
        u, v = self.factor, self.whitened
        h, log_noise = self.objective.coordinates.expand(self.values)
        noise = math.exp(log_noise)
        z = np.array(np.transpose(x_new), dtype=np.float64, order="C")
        mean, variance = np.zeros(z.shape[1]), np.zeros(z.shape[1])
        projection = np.zeros((len(v), z.shape[1]))
        components = {}
        if self.objective.shared is not None:
            new = self.objective.shared.to(x_new)
            w = solve_lower(u, new.cross)
            prior = new.covariance.diagonal()
            own = _rounded_up(prior - (w**2).sum(axis=0))
            mean += new.mean + v @ w
            components[SHARED] = Component(mean.copy(), np.sqrt(own))
            variance += prior
            projection += w
        active = problem.active
        means, priors, squares = np.empty((3, len(active), z.shape[1]))
        _project(
            *(problem.kernels, problem.layout, active, h, problem.x, z, u, v),
            *(projection, means, priors, squares),
        )
        sds = np.sqrt(_rounded_up(priors - squares))
        for c, part, own in zip(active, means, sds, strict=True):
            components[pool.candidates[c].label(pool.dimension)] = Component(part, own)
        mean += means.sum(axis=0)
        variance = _rounded_up(variance + priors.sum(axis=0) - (projection**2).sum(axis=0))
        sd = np.sqrt(variance + noise if include_noise else variance)
        return Prediction(mean, sd, components, noise, include_noise)


def covariance_factor(objective: Objective, values: np.ndarray) -> np.ndarray | None:
    """Return U (n, n), upper triangular, with U'U the covariance of the targets.

    Return None if that isn't positive definite, even with the jitter of the likelihood.
    """
    return _factor(objective, values)[0]


def _factor(objective: Objective, values: np.ndarray) -> tuple[np.ndarray | None, bool]:
    """Return the factor of the covariance, if it exists, and whether jitter was needed."""
    problem, n = objective.problem, objective.n_points
    u = np.empty((n, padded(n)))
    counts = np.zeros(2, dtype=np.int64)
    h, log_noise = objective.coordinates.expand(values)
    covariance(problem.kernels, problem.layout, problem.active, h, problem.x, u, np.empty_like(u))
    if objective.shared is not None:
        add_upper(u, problem.shared)
    done = factorise(u, log_noise, counts)
    return np.ascontiguousarray(u[:, :n]) if done == n else None, bool(counts[0] > 1)


@compiled
def solve_lower(u, b):
    """Return the solution (n, m) of U'w = b for upper triangular `u` (n, n) and `b` (n, m)."""
    columns = np.ascontiguousarray(b.T)
    for j in range(columns.shape[0]):
        forward_substitution(u, columns[j], u.shape[0], columns[j])
    return np.ascontiguousarray(columns.T)


@compiled
def _project(kernels, layout, active, h, x, z, u, v, projection, means, priors, squares):
    """Write the contributions of each active candidate at new points `z` (D, m).

    For candidate c, with W = U'^-1 K_c(X, Z), these are its mean W'v, its prior variance and the
    column sums of squares of W, each (number of active candidates, m). The sum of all W is added to
    `projection` (n, m).
    """
    for i in range(active.shape[0]):
        cross, prior = cross_covariance(kernels, layout, active[i], h, x, z)
        w = solve_lower(u, cross)
        priors[i] = prior
        means[i] = 0.0
        squares[i] = 0.0
        for k in range(w.shape[0]):
            for j in range(w.shape[1]):
                means[i, j] += v[k] * w[k, j]
                squares[i, j] += w[k, j] ** 2
                projection[k, j] += w[k, j]


@compiled
def _extend_factor(kernels, layout, active, h, log_noise, x, z, u, shared_cross, shared_new):
    """Return the factor (n + m, n + m) for points `x` (D, n) and `z` (D, m), given that of `x`.

    The covariances of the mean process, (n, m) and (m, m), are added to those of the composition.
    Return an empty array if the conditional covariance of the new points isn't positive definite.
    """
    n, m = x.shape[1], z.shape[1]
    cross = shared_cross.copy()
    for c in active:
        cross += cross_covariance(kernels, layout, c, h, x, z)[0]
    w = solve_lower(u, cross)
    left = np.zeros((m, padded(m)))
    covariance(kernels, layout, active, h, z, left, np.empty_like(left))
    add_upper(left, shared_new)
    noise = math.exp(log_noise)
    for i in range(m):
        left[i, i] += noise
        left[i, :i] = 0.0
        left[i, m:] = 0.0
        for k in range(n):
            for j in range(i, m):
                left[i, j] -= w[k, i] * w[k, j]
    if cholesky(left, m, 0) < m:
        return np.empty((0, 0))
    out = np.empty((n + m, n + m))
    for i in range(n):
        out[i, i:n] = u[i, i:]
    out[:n, n:] = w
    out[n:, n:] = left[:, :m]
    return out


def _rounded_up(variance: np.ndarray) -> np.ndarray:
    """Return variances with negative values, which are due to rounding, replaced by zero."""
    return np.maximum(variance, 0.0)
