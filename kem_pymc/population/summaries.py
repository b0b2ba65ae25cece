"""Summaries of weighted draws, and of mixtures of normal distributions."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import ndtr

from kem_pymc.gp.mixture import Mixture


def normal_mixture(mean: np.ndarray, variance: np.ndarray, weights: np.ndarray) -> pd.DataFrame:
    """Summarise mixtures of normal distributions.

    Parameters
    ----------
    mean, variance : ndarray, shape (S, k)
        Of each of the S components of k mixtures.
    weights : ndarray, shape (S,)
        Weights of the components, which add up to one.

    Returns
    -------
    DataFrame
        Columns ``mean``, ``sd``, ``low_95``, ``high_95``, ``positive``, the probability of positive
        values, and ``median``, with k rows.
    """
    mixture = Mixture(weights, mean, np.sqrt(np.maximum(variance, 1e-300)))
    ends = mixture.quantile(0.025), mixture.quantile(0.975)
    positive = 1 - mixture.cdf(np.zeros(mean.shape[1]))
    columns = *mixture.moments(), *ends, positive, mixture.quantile(0.5)
    names = "mean", "sd", "low_95", "high_95", "positive", "median"
    return pd.DataFrame(dict(zip(names, columns, strict=True)))


def exceeds(mean: np.ndarray, variance: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Return the probability that normal values are farther from zero than a limit."""
    sd = np.sqrt(np.maximum(variance, 1e-300))
    return ndtr((mean - limit) / sd) + ndtr((-limit - mean) / sd)


def quantiles(draws: np.ndarray, weights: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Return quantiles (levels, k) of weighted draws (S, k)."""
    order = np.argsort(draws, axis=0)
    reached = np.cumsum(weights[order], axis=0) - weights[order] / 2
    ordered = np.take_along_axis(draws, order, axis=0)
    columns = zip(reached.T, ordered.T, strict=True)
    return np.array([np.interp(levels, at, values) for at, values in columns]).T
