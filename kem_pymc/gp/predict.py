"""Predict from a fitted composition: mean and sd, and each additive component's share."""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kem_pymc.compiled import compiled
from kem_pymc.errors import InputError
from kem_pymc.gp.likelihood import HALF_LOG_2PI, factorise, natural_values
from kem_pymc.gp.objective import Objective
from kem_pymc.kernels.library import MULTIPLY
from kem_pymc.lanes import padded


@dataclass(frozen=True, eq=False)
class Component:
    """What one candidate contributes to a prediction.

    Attributes
    ----------
    mean, sd : ndarray, shape (m,)
        Posterior of the candidate's own function.
    """

    mean: np.ndarray
    sd: np.ndarray


@dataclass(frozen=True, eq=False)
class Prediction:
    """The predictive distribution at m inputs.

    Attributes
    ----------
    mean, sd : ndarray, shape (m,)
        Of the latent function, or of a new observation if `include_noise`.
    components : dict of str to Component
        By the candidate's label. Their means and the offset add up to the mean; their sds leave
        out how the components vary together.
    noise : float
        Variance of an observation around the function.
    include_noise : bool
        Whether the noise is in `sd`.
    offset : float
        What the prior mean contributes: the pilot users' mean where targets were standardised,
        else 0.
    """

    mean: np.ndarray
    sd: np.ndarray
    components: dict[str, Component] = field(default_factory=dict)
    noise: float = 0.0
    include_noise: bool = False
    offset: float = 0.0

    def log_predictive_density(self, y_new: npt.ArrayLike) -> np.ndarray:
        """Return log N(y; mean, variance of an observation), point by point.

        The noise counts whether or not it was included in `sd`. The paper's test log-likelihood is
        the mean over the test points.

        Parameters
        ----------
        y_new : array_like, shape (m,)

        Raises
        ------
        InputError
            If there isn't one target per predicted point.
        """
        y = np.asarray(y_new, dtype=np.float64)
        if y.shape != self.mean.shape:
            raise InputError(
                f"There are targets of shape {y.shape} for {len(self.mean)} predictions. "
                "Give one target per input."
            )
        variance = self.sd**2 + (0.0 if self.include_noise else self.noise)
        residual = y - self.mean
        return -0.5 * residual**2 / variance - 0.5 * np.log(variance) - HALF_LOG_2PI


def predict(
    objective: Objective, values: np.ndarray, x_new: np.ndarray, include_noise: bool = False
) -> Prediction:
    """Predict from the data and the composition of an objective, at given coordinates.

    With A = K(X, X) + noise I and K = sum_c K_c, the mean is K(X*, X) A^-1 y and the variance
    K(X*, X*) - K(X*, X) A^-1 K(X, X*); component c has K_c in the place of K outside A. WHITE has
    no components: mean zero, and no variance but the noise.

    Parameters
    ----------
    objective : Objective
        Its data are conditioned on; its prior plays no part.
    values : ndarray, shape (k + 1,)
        Coordinates (:mod:`kem_pymc.gp.objective`).
    x_new : ndarray, shape (m, D)
        In the units of the objective's inputs.
    include_noise : bool
        Whether to predict new observations instead of the latent function.

    Raises
    ------
    InputError
        If the covariance isn't positive definite, even with jitter.
    """
    pool, problem = objective.coordinates.pool, objective.problem
    u = covariance_factor(objective, values)
    if u is None:
        raise InputError(
            f"The covariance of {objective.coordinates.composition} isn't positive definite. "
            "Use a larger noise variance."
        )
    h, log_noise = objective.coordinates.expand(values)
    noise = math.exp(log_noise)
    z = np.array(np.transpose(x_new), dtype=np.float64, order="C")
    v = solve_lower(u, problem.y[:, None])[:, 0]
    mean, variance = np.zeros(z.shape[1]), np.zeros(z.shape[1])
    projection = np.zeros((len(v), z.shape[1]))
    components = {}
    for c in problem.active:
        cross, prior = _cross_covariance(problem.kernels, problem.layout, c, h, problem.x, z)
        w = solve_lower(u, cross)
        own = _rounded_up(prior - (w**2).sum(axis=0))
        components[pool.candidates[c].label(pool.dimension)] = Component(v @ w, np.sqrt(own))
        mean += v @ w
        variance += prior
        projection += w
    variance = _rounded_up(variance - (projection**2).sum(axis=0))
    sd = np.sqrt(variance + noise if include_noise else variance)
    return Prediction(mean, sd, components, noise, include_noise)


def covariance_factor(objective: Objective, values: np.ndarray) -> np.ndarray | None:
    """Return U (n, n), upper triangular, with U'U the covariance of the targets.

    None where that isn't positive definite, even with the jitter of the likelihood.
    """
    problem, n = objective.problem, objective.n_points
    u = np.empty((n, padded(n)))
    done = factorise(
        problem.kernels,
        problem.layout,
        problem.active,
        *objective.coordinates.expand(values),
        problem.x,
        u,
        np.empty_like(u),
        np.zeros(2, dtype=np.int64),
    )
    return np.ascontiguousarray(u[:, :n]) if done == n else None


@compiled
def solve_lower(u, b):
    """Return the solution (n, m) of U'w = b for upper triangular `u` (n, n) and `b` (n, m)."""
    w = b.copy()
    n = u.shape[0]
    for k in range(n):
        w[k] /= u[k, k]
        for i in range(k + 1, n):
            w[i] -= u[k, i] * w[k]
    return w


@compiled
def _cross_covariance(kernels, layout, candidate, h, x, z):
    """Return one candidate's K(x, z) (n, m), and the diagonal of K(z, z) (m,)."""
    values = np.empty(8)
    cross = np.full((x.shape[1], z.shape[1]), math.exp(h[layout.hyper_start[candidate]]))
    prior = np.full((z.shape[1], 1, 1), math.exp(h[layout.hyper_start[candidate]]))
    for f in range(layout.factor_start[candidate], layout.factor_start[candidate + 1]):
        natural_values(layout, f, h, values)
        base = layout.factor_base[f]
        d = layout.factor_dimension[f]
        kernels.cross(base, x[d], z[d], values, cross)
        for j in range(z.shape[1]):
            kernels.fill(base, z[d, j : j + 1], values, 1.0, MULTIPLY, prior[j])
    return cross, prior[:, 0, 0].copy()


def _rounded_up(variance: np.ndarray) -> np.ndarray:
    """Return variances without the negative ones that rounding leaves where nothing is unknown."""
    return np.maximum(variance, 0.0)
