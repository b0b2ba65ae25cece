"""Means of a shared function at each level of a feature, for contrasts between groups."""

import numpy as np

from kem_pymc.gp.posterior import MeanFunction

#: Maximum number of distinct rows to average over; of more, a random subset is used.
MOST_ROWS = 400


def level_means(
    function: MeanFunction, rows: np.ndarray, feature: int, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the means over rows of a function at each value of a feature, and their covariance.

    Every mean is over the same rows, with the feature's value replaced, so that groups are compared
    at equal values of all other features. At most `MOST_ROWS` distinct rows are used.

    Parameters
    ----------
    function : MeanFunction
        Mean and covariance of a normally distributed function.
    rows : ndarray, shape (n, D)
        Inputs, in scaled units.
    feature : int
        Index of the feature.
    values : ndarray, shape (L,)
        Values of the feature, in scaled units.

    Returns
    -------
    mean : ndarray, shape (L,)
        Means of the function at the L values, in scaled units.
    covariance : ndarray, shape (L, L)
        Covariance of these means, in scaled units.
    """
    others = rows.copy()
    others[:, feature] = 0.0
    distinct, counts = np.unique(others, axis=0, return_counts=True)
    if len(distinct) > MOST_ROWS:
        kept = np.random.default_rng(0).choice(len(distinct), MOST_ROWS, replace=False)
        distinct, counts = distinct[kept], counts[kept]
    weights = counts / counts.sum()
    points = np.repeat(distinct[None], len(values), axis=0)
    points[:, :, feature] = np.asarray(values)[:, None]
    mean = np.array([weights @ function.mean(x) for x in points])
    covariance = np.empty((len(values), len(values)))
    for a, x in enumerate(points):
        for b, z in enumerate(points[: a + 1]):
            covariance[a, b] = covariance[b, a] = weights @ function.covariance(x, z) @ weights
    return mean, covariance
