"""Log likelihoods of a composition for many users, or of many compositions for one user."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.data.cohort import Cohort
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.likelihood import Data, as_active, prefix_log_likelihood
from kem_pymc.gp.mean_process import MeanAtPoints
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.library import kernels
from kem_pymc.kernels.pool import CandidatePool


def log_likelihoods(
    cohort: Cohort,
    composition: Composition | str,
    hyperparameters: Mapping[str, float],
    noise: float,
) -> np.ndarray:
    """Return the log likelihoods of all users at all time steps.

    One factorisation serves all time steps of a user. Of more users than fit in memory, give a
    hundred at a time.

    Parameters
    ----------
    cohort : Cohort
        Inputs and targets are used as they are: scale them before.
    composition : Composition or str
        The composition, or its printed form such as ``"LIN0 + PER0"``.
    hyperparameters : mapping of str to float
        Natural values by name, like ``{"LIN0.amplitude": 1.0, ...}``.
    noise : float
        Noise variance.

    Returns
    -------
    ndarray, shape (U, T)
        log p(y_1..n | x_1..n); NaN after a user's last time step, and minus infinity where the
        covariance isn't positive definite.

    Raises
    ------
    InputError
        If a hyperparameter is missing or out of range, or the cohort has fewer features than the
        composition uses.

    Examples
    --------
    >>> total = log_likelihoods(cohort, "LIN0", values, 0.5)[:, -1].sum()
    """
    if isinstance(composition, str):
        composition = Composition.parse(composition)
    pool = CandidatePool(composition.candidates, cohort.dimension)
    coordinates = Coordinates(pool, composition)
    h, log_noise = coordinates.expand(coordinates.from_named(hyperparameters, noise))
    x, y, ends, steps = cohort.padded()
    y = np.repeat(y[:, None], ends.shape[1], axis=1)
    data = Data(x, y, ends, steps, nested=True)
    active, out = as_active(coordinates.inclusion), np.full(ends.shape, np.nan)
    counts = np.zeros(2, dtype=np.int64)
    all_prefixes(kernels(), pool.layout, active, h, log_noise, data, out, counts)
    return out


@compiled
def all_prefixes(kernels, layout, active, h, log_noise, data, out, counts):
    """Write the log likelihoods of all users' datasets to `out` (U, T)."""
    for user in range(data.n_steps.shape[0]):
        upto = data.n_steps[user]
        prefix_log_likelihood(
            kernels, layout, active, h, log_noise, data, user, upto, out[user], counts
        )


def largest_likelihoods(
    rivals: Sequence[tuple[Coordinates, np.ndarray]],
    x: np.ndarray,
    y: np.ndarray,
    noise_floor: float,
    shared: MeanAtPoints | None = None,
) -> np.ndarray:
    """Return the largest log likelihood of each composition over given coordinates.

    Parameters
    ----------
    rivals : sequence of (Coordinates, ndarray of shape (s, k + 1))
        The m compositions, at least one and all of one pool, each with the s coordinates to try.
    x, y : ndarray, shapes (n, D) and (n,)
        Inputs and targets, in the units of the hyperparameters.
    noise_floor : float
        Smallest noise variance; smaller values are raised to it, as in a fit.
    shared : MeanAtPoints, optional
        Mean function shared by all users, at the same inputs.

    Returns
    -------
    ndarray, shape (m,)
        Largest log likelihoods; minus infinity where no covariance is positive definite.
    """
    layout = rivals[0][0].pool.layout
    counts = np.array([len(values) for _, values in rivals])
    h = np.zeros((counts.sum(), len(rivals[0][0].pool.hyperparameters)))
    log_noise = np.concatenate([values[:, -1] for _, values in rivals])
    last = counts.cumsum()
    for (coordinates, values), first, end in zip(rivals, last - counts, last, strict=True):
        h[first:end, coordinates.places] = values[:, :-1]
    active = [as_active(coordinates.inclusion) for coordinates, _ in rivals]
    y = np.array(y, dtype=np.float64)
    data = Data(
        x=np.array(x.T, dtype=np.float64, order="C")[None],
        y=(y if shared is None else y - shared.mean)[None, None],
        ends=np.array([[len(y)]]),
        n_steps=np.array([1]),
        nested=True,
    )
    if shared is not None:
        data = data._replace(shared=shared.covariance[None])
    out = np.empty(len(rivals))
    _compare(
        kernels(),
        layout,
        np.concatenate(active),
        np.cumsum([0, *map(len, active)]),
        h,
        np.maximum(log_noise, math.log(noise_floor)),
        np.append(0, last),
        data,
        out,
    )
    return out


@compiled
def _compare(kernels, layout, active, first_active, h, log_noise, first_value, data, out):
    """Write the largest log likelihood of each composition over its rows of `h` to `out` (m,)."""
    likelihood = np.empty(1)
    counts = np.zeros(2, dtype=np.int64)
    for m in range(out.shape[0]):
        candidates = active[first_active[m] : first_active[m + 1]]
        out[m] = -np.inf
        for s in range(first_value[m], first_value[m + 1]):
            prefix_log_likelihood(
                kernels, layout, candidates, h[s], log_noise[s], data, 0, 1, likelihood, counts
            )
            out[m] = max(out[m], likelihood[0])
