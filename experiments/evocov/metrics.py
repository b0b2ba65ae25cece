"""Metrics of EvoCov's table 4, beside the likelihood (Roman et al. 2019, section 6.3).

- loocv: sum_i log p(y_i | all others). With a = C^-1 y, y_i has the mean y_i - a_i / (C^-1)_ii and
  the variance 1 / (C^-1)_ii there.

With the last t of n points held out, and the mean m and the variances s^2 of the prediction of
these from the others:

- posterior_lml: log p(held-out targets | other targets),
- sopl: sum_i log N(y_i; m_i, s_i^2) over the held-out points, the sum of posterior likelihoods,
- rmse: minus the root mean square of y_i - m_i over the held-out points.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from kem_pymc.gp.likelihood import HALF_LOG_2PI
from kem_pymc.search.evocov.objective import Metric, conditionals, lml

MetricName = Literal["lml", "loocv", "posterior_lml", "sopl", "rmse"]

#: Share of the points that is held out, as in the experiments' test sets. They are the last ones in
#: the order of the data, which should be that of time.
HELD_OUT = 0.1


def loocv(c: np.ndarray, y: np.ndarray, adjoint: np.ndarray) -> float:
    """Return the log likelihood of leave-one-out predictions (eq. 9); see :func:`lml`."""
    n = len(y)
    lower, failed = dpotrf(c.T[:n], lower=1, clean=0)
    if failed:
        return -math.inf
    half = np.tril(dpotri(lower, lower=1)[0])
    inverse = half + np.tril(half, -1).T
    a, precision = inverse @ y, np.diag(inverse)
    value = (0.5 * np.log(precision) - 0.5 * a**2 / precision).sum() - n * HALF_LOG_2PI
    to_a = -a / precision
    to_precision = 0.5 * (a / precision) ** 2 + 0.5 / precision
    # dC^-1 = -C^-1 dC C^-1
    every = -np.outer(inverse @ to_a, a) - (inverse * to_precision) @ inverse
    adjoint[:, :n] = upper(0.5 * (every + every.T))
    return float(value)


def n_held_out(n: int) -> int:
    """Return how many of n points are held out: at least one."""
    return max(1, round(HELD_OUT * n))


def posterior_lml(c: np.ndarray, y: np.ndarray, adjoint: np.ndarray) -> float:
    """Return the log likelihood of the held-out targets given the others; see :func:`lml`."""
    weights = np.zeros(len(y))
    weights[-n_held_out(len(y)) :] = 1.0
    return conditionals(c, y, weights, adjoint)


def sopl(c: np.ndarray, y: np.ndarray, adjoint: np.ndarray) -> float:
    """Return the sum of posterior log likelihoods of the held-out points; see :func:`lml`."""
    prediction = _predict(c, y)
    if prediction is None:
        return -math.inf
    error, variance = prediction.error, prediction.variance
    value = (-0.5 * error**2 / variance - 0.5 * np.log(variance) - HALF_LOG_2PI).sum()
    to_variance = 0.5 * (error / variance) ** 2 - 0.5 / variance
    _reverse(prediction, error / variance, to_variance, adjoint)
    return float(value)


def rmse(c: np.ndarray, y: np.ndarray, adjoint: np.ndarray) -> float:
    """Return minus the root mean square error at the held-out points; see :func:`lml`."""
    prediction = _predict(c, y)
    if prediction is None:
        return -math.inf
    error = prediction.error
    size = float(np.sqrt(np.mean(error**2)))
    to_mean = error / (len(error) * size) if size > 0 else np.zeros(len(error))
    _reverse(prediction, to_mean, np.zeros(len(error)), adjoint)
    return -size


def upper(adjoint: np.ndarray) -> np.ndarray:
    """Return derivatives in the upper triangle from symmetric ones in all entries."""
    doubled = 2.0 * adjoint
    np.fill_diagonal(doubled, np.diag(adjoint))
    return doubled


#: What hyperparameters may be fitted to, by name.
METRICS: dict[MetricName, Metric] = {
    "lml": lml,
    "loocv": loocv,
    "posterior_lml": posterior_lml,
    "sopl": sopl,
    "rmse": rmse,
}


class _Prediction(NamedTuple):
    """Predictions of t held-out points from m others.

    Attributes
    ----------
    error, variance : ndarray, shape (t,)
        Targets minus predicted means, and predicted variances, noise included.
    gain : ndarray, shape (t, m)
        W = S A^-1, with the others' covariance A and the cross-covariance S.
    weighted : ndarray, shape (m,)
        A^-1 times the others' targets.
    """

    error: np.ndarray
    variance: np.ndarray
    gain: np.ndarray
    weighted: np.ndarray


def _predict(c: np.ndarray, y: np.ndarray) -> _Prediction | None:
    """Return the prediction; None if a covariance isn't positive definite."""
    n = len(y)
    m = n - n_held_out(n)
    lower, failed = dpotrf(c[:m, :m].T, lower=1, clean=0)
    if failed:
        return None
    cross = c[:m, m:n].T
    gain = dpotrs(lower, cross.T, lower=1)[0].T
    variance = np.diag(c)[m:n] - (gain * cross).sum(axis=1)
    if not (variance > 0).all():
        return None
    return _Prediction(y[m:] - gain @ y[:m], variance, gain, dpotrs(lower, y[:m], lower=1)[0])


def _reverse(
    prediction: _Prediction, to_mean: np.ndarray, to_variance: np.ndarray, adjoint: np.ndarray
) -> None:
    """Write derivatives in the covariance, from those in predicted means and variances (t,)."""
    t, m = prediction.gain.shape
    scaled = to_variance[:, None] * prediction.gain
    others = prediction.gain.T @ (scaled - np.outer(to_mean, prediction.weighted))
    adjoint[:] = 0.0
    adjoint[:m, :m] = upper(0.5 * (others + others.T))
    adjoint[:m, m : m + t] = (np.outer(to_mean, prediction.weighted) - 2 * scaled).T
    held_out = np.arange(m, m + t)
    adjoint[held_out, held_out] = to_variance
