"""Log likelihoods of many compositions for one user."""

import math
from collections.abc import Sequence

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.known_part import KnownPart
from kem_pymc.gp.likelihood import Data, as_active, prefix_log_likelihood
from kem_pymc.kernels.library import kernels


def of_one_user(x: np.ndarray, y: np.ndarray, known: KnownPart | None = None) -> Data:
    """Return one user's only data set for the compiled functions.

    Parameters
    ----------
    x, y : ndarray, shapes (n, D) and (n,)
        Inputs and targets, in the units of the hyperparameters.
    known : KnownPart, optional
        What is known of the targets at the same inputs.
    """
    data = Data(
        x=np.array(x.T, dtype=np.float64, order="C")[None],
        y=np.array(y if known is None else y - known.mean, dtype=np.float64)[None, None],
        ends=np.array([[len(y)]]),
        n_steps=np.ones(1, dtype=np.int64),
        nested=True,
    )
    if known is None:
        return data
    factors = known.factors[None] if len(known.factors) else data.factors
    return data._replace(known=known.covariance[None], factors=factors)


def largest_likelihoods(
    rivals: Sequence[tuple[Coordinates, np.ndarray]],
    x: np.ndarray,
    y: np.ndarray,
    noise_floor: float,
    known: KnownPart | None = None,
) -> np.ndarray:
    """Return the largest log likelihood of each composition over given coordinates.

    Parameters
    ----------
    rivals : sequence of (Coordinates, ndarray of shape (s, k + 1))
        The m compositions, each with the s coordinates to try.
    x, y, known
        As in :func:`of_one_user`.
    noise_floor : float
        Smallest noise variance; smaller values are raised to it, as in a fit.

    Returns
    -------
    ndarray, shape (m,)
        Largest log likelihoods; minus infinity where no covariance is positive definite.
    """
    data, found = of_one_user(x, y, known), np.empty(len(rivals))
    for i, (coordinates, points) in enumerate(rivals):
        h = np.zeros((len(points), len(coordinates.pool.hyperparameters)))
        h[:, coordinates.places] = points[:, :-1]
        log_noise = np.maximum(points[:, -1], math.log(noise_floor))
        kernel = kernels(), coordinates.pool.layout, as_active(coordinates.inclusion)
        found[i] = _largest(*kernel, h, log_noise, data)
    return found


@compiled
def _largest(kernels, layout, active, h, log_noise, data):
    """Return the largest log likelihood over hyperparameters (s, H) and log noises (s,)."""
    largest, out, counts = -np.inf, np.empty(1), np.zeros(2, dtype=np.int64)
    for s in range(h.shape[0]):
        prefix_log_likelihood(kernels, layout, active, h[s], log_noise[s], data, 0, 1, out, counts)
        largest = max(largest, out[0])
    return largest
