"""Draw hyperparameters and noise from their posterior, by reweighting Laplace's approximation.

Predictions at an optimum ignore the uncertainty of its values, and are overconfident with few
points. The draws are few and evenly spread: a scrambled Sobol sequence with a fixed seed, so that
the result is deterministic.
"""

import functools

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from kem_pymc.gp.fit import MANY, Fit, bounds
from kem_pymc.gp.laplace import Laplace, curvature_at
from kem_pymc.gp.objective import Objective

#: Number of draws, a power of two. With 16 or 32 the predictions are the same.
DRAWS = 8

#: Largest log weight of a draw relative to Laplace's approximation, in nats.
MOST = 3.0


def draw_values(objective: Objective, fitted: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Draw coordinates from their posterior, around an optimum.

    Draws from the normal distribution at the optimum (Laplace's approximation, clipped to the
    bounds of a fit, such as the noise floor) are weighted in proportion to the posterior density
    over the normal density. Only the optimum is returned where the prior is flat, because the
    posterior may be improper; where the objective isn't finite; and from
    :data:`kem_pymc.gp.fit.MANY` points on, where the values have little uncertainty.

    Parameters
    ----------
    objective : Objective
    fitted : Fit
        Optimum of the objective.

    Returns
    -------
    values : ndarray, shape (S, k + 1)
        Draws of coordinates.
    weights : ndarray, shape (S,)
        Weights of the draws, which add up to one.
    """
    prior = objective.problem.prior
    proper = prior.from_study or bool((prior.precision > 0).all())
    if not (proper and np.isfinite(fitted.height)) or objective.n_points >= MANY:
        return fitted.values[None], np.ones(1)
    normal = _normal(len(fitted.values))
    steps = Laplace(curvature_at(objective, fitted.values)[2]).scaled(normal)
    values = np.clip(fitted.values + steps, *bounds(objective.coordinates, objective.noise_floor))
    heights, _ = objective.evaluate(values)
    weights = np.exp(np.minimum(heights - fitted.height + 0.5 * (normal**2).sum(axis=1), MOST))
    if not weights.any():
        return fitted.values[None], np.ones(1)
    return values, weights / weights.sum()


@functools.cache
def _normal(size: int) -> np.ndarray:
    """Return standard normal draws (S, size), standardised to sample means 0 and sds 1."""
    uniform = qmc.Sobol(size, rng=np.random.default_rng(0)).random(DRAWS)
    normal = ndtri(uniform)
    normal = (normal - normal.mean(axis=0)) / normal.std(axis=0)
    normal.flags.writeable = False
    return normal
