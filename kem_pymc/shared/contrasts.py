"""How groups differ in what users share: a function's mean at each level of a feature."""

import numpy as np

from kem_pymc.gp.mean_process import MeanFunction

#: At most so many rows are averaged over, drawn at random.
MOST_ROWS = 400


def level_means(
    function: MeanFunction, rows: np.ndarray, feature: int, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the means over rows of a function at each value of a feature, and their covariance.

    Every mean is over the same rows, with the feature's value replaced: groups are compared at
    equal values of all other features.

    Parameters
    ----------
    function : MeanFunction
        Normal, with its own covariance.
    rows : ndarray, shape (n, D)
        In scaled units.
    feature : int
    values : ndarray, shape (L,)
        In scaled units.

    Returns
    -------
    mean : ndarray, shape (L,)
    covariance : ndarray, shape (L, L)
        Both in scaled units.
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
