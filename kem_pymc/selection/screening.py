"""Approximate fits for many points, so that few compositions have to be fitted to all of them."""

from collections.abc import Sequence

import numpy as np

from kem_pymc.gp.fit import Fit, bounds, fit, thinned
from kem_pymc.gp.laplace import Laplace, curvature_at
from kem_pymc.gp.objective import Objective

#: Number of proposals that are fitted to all points.
REFINED = 2

#: Number of steps of Newton's method by which the optima of all proposals are moved.
STEPS = 2


def rough_fit(objective: Objective, starts: Sequence[np.ndarray], runs: int) -> tuple[Fit, float]:
    """Fit to an evenly spread subset of the points, and correct the fit on all of them.

    From the optimum of the subset, up to `STEPS` steps of Newton's method are made on all points,
    with the curvature of the subset scaled by the ratio of the numbers of points. The log evidence
    is Laplace's approximation with the same curvature.

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
    float
        Log evidence.
    """
    few = thinned(objective)
    near = fit(few, starts, runs)
    values, evaluations = near.values, near.evaluations
    share = objective.n_points / few.n_points
    approximation = Laplace(share * curvature_at(few, values)[2])
    low, high = bounds(objective.coordinates, objective.noise_floor)
    best, height = values, -np.inf
    for _ in range(STEPS + 1):
        (reached,), (gradient,) = objective.evaluate(values[None])
        evaluations += 1
        if not reached > height:
            break
        best, height = values, float(reached)
        values = np.clip(values + approximation.covariance @ gradient, low, high)
    likelihood, density = objective.terms(best)
    rough = Fit(best, likelihood, density, evaluations + 1, converged=False)
    return rough, rough.height + approximation.log_volume
