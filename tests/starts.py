"""Starting states of chains, of different kinds, so that agreement of chains is informative."""

import numpy as np

from kem_pymc.model.engine import Arrays, Engine
from kem_pymc.model.shared_functions import SharedByUser
from kem_pymc.sampler.moves.sweep import Schedule, start, sweep
from kem_pymc.sampler.state import State

#: Number of sweeps for every user alone, before the users' clusters are combined.
SWEEPS = 20


def start_from_users(
    engine: Engine, schedule: Schedule, rng: np.random.Generator, sweeps: int = SWEEPS
) -> State:
    """Return the union of the results of short runs on every user alone, without shared clusters.

    While :func:`~kem_pymc.sampler.moves.sweep.start` begins with few clusters for many users,
    this state has kernels that fit each user. If some chains start here and others there, they
    agree only if they no longer depend on their starts.
    """
    parts = [_alone(engine, user, schedule, rng, sweeps) for user in range(engine.shape[0])]
    users, steps = engine.shape
    structure, hyperparameters, noise = (
        np.concatenate(arrays) for arrays in zip(*parts, strict=True)
    )
    labels = structure[..., 0]
    structure[..., 0] = np.where(labels >= 0, labels + np.arange(users)[:, None] * steps, -1)
    return engine.load(engine.model, structure, hyperparameters, noise, schedule=schedule)


def engine_of(engine: Engine, user: int) -> Engine:
    """Return the engine of one user alone, given the user's index."""
    shared = engine.shared_by_user
    if shared is not None:
        n = len(engine.cohort.targets[user])
        mean, covariance = shared.mean[[user], :n], shared.covariance[[user], :n, :n]
        shared = SharedByUser(mean, np.ascontiguousarray(covariance))
    alone = Engine(
        engine.cohort.subset([engine.cohort.users[user]]),
        *(engine.pool, engine.priors, engine.concentration, engine.likelihood_power),
        *(engine.schedule, engine.sequential, shared),
    )
    alone.prior_table = engine.prior_table
    return alone


def _alone(
    engine: Engine, user: int, schedule: Schedule, rng: np.random.Generator, sweeps: int
) -> Arrays:
    """Return one user's arrays (1, T, ...) after some sweeps without the other users."""
    own = engine_of(engine, user)
    model = own.at(own.model)
    state = start(model, schedule, rng)
    for _ in range(sweeps):
        sweep(model, state, schedule, rng)
    structure, hyperparameters, noise = own.dump(state, model)[:3]
    steps = engine.shape[1]
    return _padded(structure, steps), _padded(hyperparameters, steps), _padded(noise, steps)


def _padded(array: np.ndarray, steps: int) -> np.ndarray:
    """Pad an array (1, t, ...) to (1, T, ...) with the values that stand for missing datasets."""
    absent = -1 if array.dtype.kind == "i" else np.nan
    shape = (1, steps - array.shape[1], *array.shape[2:])
    missing = np.full_like(array, absent, shape=shape)
    if array.dtype.kind == "i":
        missing[..., 1:] = 0  # no candidate is in
    return np.concatenate([array, missing], axis=1)
