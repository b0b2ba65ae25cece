"""Predictions of evolved kernels."""

import numpy as np
from scipy.linalg import solve_triangular

from kem_pymc.errors import InputError
from kem_pymc.gp.prediction import Prediction
from kem_pymc.search.evocov.fitting import coordinates_of
from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.interpreter import FINE, OUTCOMES
from kem_pymc.search.evocov.objective import Objective


def predict(
    individual: Individual,
    x: np.ndarray,
    y: np.ndarray,
    x_new: np.ndarray,
    include_noise: bool = False,
) -> Prediction:
    """Return the predictive distribution at new inputs (eq. 3).

    Parameters
    ----------
    individual : Individual
    x, y : ndarray, shape (n, D) and (n,)
        Data, in the units in which the kernel was fitted.
    x_new : ndarray, shape (m, D)
        Inputs, in the same units.
    include_noise : bool
        Whether standard deviations are those of new observations.

    Returns
    -------
    Prediction

    Raises
    ------
    InputError
        If the kernel has no finite or no positive definite covariance at these inputs.
    """
    tree, noise = individual.tree, float(individual.natural[-1])
    values = coordinates_of(individual.natural, np.array([*tree.positive, True]))
    objective = Objective(tree, x, y)
    upper = objective.factor(values)
    if upper is None:
        raise InputError(
            f"The covariance of the kernel {tree.formula()} isn't positive definite on these data. "
            "Fit it to them first, or use another kernel."
        )
    both, outcome = objective.cross_covariances(values, x_new)
    if outcome != FINE:
        raise InputError(
            f"The kernel {tree.formula()} can't predict at these inputs: {OUTCOMES[outcome]}. "
            "Predict closer to the data, or use another kernel."
        )
    prior, cross = both[:, 0], both[:, 1:]
    # With C = U'U, the variance is that of the prior less |U'^-1 c|^2.
    half = solve_triangular(upper, np.column_stack([y, cross.T]), trans="T")
    mean = half[:, 1:].T @ half[:, 0]
    variance = np.maximum(prior - (half[:, 1:] ** 2).sum(axis=0), 0.0)
    variance += noise if include_noise else 0.0
    return Prediction(mean, np.sqrt(variance), noise=noise, include_noise=include_noise)
