"""Draws of hyperparameters and noise from their posterior: Laplace's approximation, reweighted.

Predictions at an optimum take its values for known, and are too certain where there are few points.
Draws are few and evenly spread: a scrambled Sobol sequence, always the same, so that nothing here
is random.
"""

import functools

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from kem_pymc.gp.fit import LEAST_CURVATURE, MANY, Fit, bounds, curvature_at
from kem_pymc.gp.objective import Objective

#: Number of draws: a power of two. With 16 or 32 predictions are the same.
DRAWS = 8

#: No draw counts more than so many nats more than Laplace's approximation says.
MOST = 3.0


def draw_values(objective: Objective, fitted: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Draw coordinates from their posterior, around an optimum.

    Draws from the normal distribution at the optimum (Laplace's approximation; the noise stops at
    its floor) have weights proportional to posterior over normal density. The values of the optimum
    alone are returned where there is no prior, so that the posterior may be improper; and from
    :data:`kem_pymc.gp.fit.MANY` points on, where values are known well.

    Parameters
    ----------
    objective : Objective
    fitted : Fit
        Its optimum.

    Returns
    -------
    values : ndarray, shape (S, k + 1)
    weights : ndarray, shape (S,)
        They add up to one.
    """
    prior = objective.problem.prior
    proper = prior.from_study or bool((prior.precision > 0).all())
    if not (proper and np.isfinite(fitted.height)) or objective.n_points >= MANY:
        return fitted.values[None], np.ones(1)
    _, _, curvature = curvature_at(objective, fitted.values)
    eigenvalues, vectors = np.linalg.eigh(curvature)
    normal = _normal(len(fitted.values))
    steps = (normal / np.sqrt(np.maximum(eigenvalues, LEAST_CURVATURE))) @ vectors.T
    values = np.clip(fitted.values + steps, *bounds(objective.coordinates, objective.noise_floor))
    heights, _ = objective.evaluate(values)
    weights = np.exp(np.minimum(heights - fitted.height + 0.5 * (normal**2).sum(axis=1), MOST))
    if not weights.any():
        return fitted.values[None], np.ones(1)
    return values, weights / weights.sum()


@functools.cache
def _normal(size: int) -> np.ndarray:
    """Return draws (S, size) from the standard normal distribution, with its means and sds."""
    uniform = qmc.Sobol(size, rng=np.random.default_rng(0)).random(DRAWS)
    normal = ndtri(uniform)
    normal = (normal - normal.mean(axis=0)) / normal.std(axis=0)
    normal.flags.writeable = False
    return normal
