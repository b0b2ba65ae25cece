"""Predictions of evolved kernels."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from kem_pymc.errors import InputError
from kem_pymc.gp.prediction import Prediction
from kem_pymc.search.evocov.fitting import coordinates_of
from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.interpreter import FINE, OUTCOMES
from kem_pymc.search.evocov.objective import covariances


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
    n = len(y)
    positive = np.array([*tree.positive, True])
    values = coordinates_of(individual.natural, positive)
    c, outcome = covariances(tree, np.concatenate([x, x_new]), values)
    if outcome != FINE:
        raise InputError(
            f"The kernel {tree.formula()} can't predict at these inputs: {OUTCOMES[outcome]}. "
            "Predict closer to the data, or use another kernel."
        )
    try:
        factor = cho_factor(c[:n, :n] + noise * np.eye(n), lower=True)
    except LinAlgError:
        raise InputError(
            f"The covariance of the kernel {tree.formula()} isn't positive definite on these data. "
            "Fit it to them first, or use another kernel."
        ) from None
    cross = c[n:, :n]
    variance = np.diag(c)[n:] - (cross * cho_solve(factor, cross.T).T).sum(axis=1)
    variance = np.maximum(variance, 0.0) + (noise if include_noise else 0.0)
    mean = cross @ cho_solve(factor, y)
    return Prediction(mean, np.sqrt(variance), noise=noise, include_noise=include_noise)
