"""Compositions compared roughly where there are many points, so that few are fitted to all."""

from collections.abc import Sequence

import numpy as np

from kem_pymc.gp.fit import LEAST_CURVATURE, Fit, bounds, curvature_at, fit, thinned
from kem_pymc.gp.likelihood import HALF_LOG_2PI
from kem_pymc.gp.objective import Objective

#: So many options are fitted to all points, and
REFINED = 2

#: the others moved by so many steps of Newton's method.
STEPS = 2


def rough_fit(objective: Objective, starts: Sequence[np.ndarray], runs: int) -> tuple[Fit, float]:
    """Fit to an evenly spread few of the points, and judge on all of them.

    From the optimum of the few, `STEPS` steps of Newton's method on all points with the few points'
    curvature, in proportion to the numbers of points; the log evidence is Laplace's with the same.

    Returns
    -------
    Fit
        Not converged; its terms are those of all points.
    float
        The log evidence.
    """
    few = thinned(objective)
    near = fit(few, starts, runs)
    values, evaluations = near.values, near.evaluations
    share = objective.n_points / few.n_points
    eigenvalues, vectors = np.linalg.eigh(share * curvature_at(few, values)[2])
    eigenvalues = np.maximum(eigenvalues, LEAST_CURVATURE)
    low, high = bounds(objective.coordinates, objective.noise_floor)
    best, height = values, -np.inf
    for _ in range(STEPS + 1):
        (reached,), (gradient,) = objective.evaluate(values[None])
        evaluations += 1
        if not reached > height:
            break
        best, height = values, float(reached)
        move = (vectors / eigenvalues) @ (vectors.T @ gradient)
        values = np.clip(values + move, low, high)
    likelihood, density = objective.terms(best)
    log_volume = float((HALF_LOG_2PI - 0.5 * np.log(eigenvalues)).sum())
    rough = Fit(best, likelihood, density, evaluations + 1, converged=False)
    return rough, rough.height + log_volume
