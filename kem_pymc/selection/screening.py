"""Approximate fits for many points, so that few compositions have to be fitted to all of them."""

from collections.abc import Sequence

import numpy as np

from kem_pymc.gp.fit import Fit, bounds, expected_curvature, fit, thinned
from kem_pymc.gp.laplace import Laplace
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.problem import log_prior

#: Number of proposals that are fitted to all points.
REFINED = 2

#: Number of steps of Newton's method by which the optima of all proposals are moved.
STEPS = 2


def rough_fit(objective: Objective, starts: Sequence[np.ndarray], runs: int) -> Fit:
    """Fit to an evenly spread subset of the points, and correct the fit on all of them.

    From the optimum of the subset, up to `STEPS` steps of Newton's method are made on all points,
    with the curvature of the subset scaled by the ratio of the numbers of points. A step that leads
    downhill is halved.

    Parameters
    ----------
    objective : Objective
        Objective of all points.
    starts : sequence of ndarray, shape (k + 1,)
        Coordinates of the starting points.
    runs : int
        Number of starting points from which the objective of the subset is maximised.

    Returns
    -------
    Fit
        Marked as not converged; its log likelihood and log prior are those of all points.
    """
    few = thinned(objective)
    near = fit(few, starts, runs)
    curvature = expected_curvature(objective, few, near.values)
    covariance = Laplace(curvature).covariance
    low, high = bounds(objective.coordinates, objective.noise_floor)
    values, evaluations = near.values, near.evaluations
    best, height = values, -np.inf
    for step in range(STEPS + 1):
        if step < STEPS:
            (reached,), (gradient,) = objective.evaluate(values[None])
        else:  # the gradient would take most of the time, and leads nowhere any more
            (reached,) = objective.heights(values[None])
        evaluations += 1
        if not reached > height:
            values = (values + best) / 2
            continue
        best, height = values, float(reached)
        values = np.clip(values + covariance @ gradient, low, high)
    density = log_prior(objective.problem.prior, best, np.zeros(len(best)))
    likelihood = height - density if height > -np.inf else height
    return Fit(best, likelihood, density, evaluations, False, curvature)
