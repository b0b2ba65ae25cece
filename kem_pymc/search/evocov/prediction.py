"""Predictions of evolved kernels."""

import numpy as np

from kem_pymc.errors import InputError
from kem_pymc.gp.posterior import Conditional
from kem_pymc.gp.prediction import Prediction
from kem_pymc.search.evocov.fitting import coordinates_of
from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.interpreter import FINE, OUTCOMES
from kem_pymc.search.evocov.objective import Objective, covariances


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
    covariance, outcome = covariances(tree, x, values)
    try:
        if outcome != FINE:
            raise np.linalg.LinAlgError
        conditional = Conditional.of(covariance + noise * np.eye(len(y)), y)
    except np.linalg.LinAlgError:
        raise InputError(
            f"The covariance of the kernel {tree.formula()} isn't positive definite on these data. "
            "Fit it to them first, or use another kernel."
        ) from None
    both, outcome = objective.cross_covariances(values, x_new)
    if outcome != FINE:
        raise InputError(
            f"The kernel {tree.formula()} can't predict at these inputs: {OUTCOMES[outcome]}. "
            "Predict closer to the data, or use another kernel."
        )
    mean, explained = conditional.moments(both[:, 1:].T)
    variance = np.maximum(both[:, 0] - explained, 0.0) + (noise if include_noise else 0.0)
    return Prediction(mean, np.sqrt(variance), noise=noise, include_noise=include_noise)
