"""Users on paths that may split and merge."""

import numpy as np

from kem_pymc.sampler.moves.sweep import JOINT
from tests.sampler.moves.by_hand import included

NAMES = ["LIN0", "PER0", "SE0", "PER0 x SE0"]


def two_stories(engine, root=("SE0",), later=("SE0",), groups=(0, 0, 0, 0)):
    """Return a state: first datasets in one cluster, later ones in another, by group of users."""
    structure, hyperparameters, noise = engine.simplest()
    users, steps = engine.shape
    for u in range(users):
        leader = groups.index(groups[u]) * steps
        structure[u, :, 0] = np.where(engine.present[u], leader + (np.arange(steps) > 0), -1)
        structure[u, :1, 1:] = included(engine.pool, *root)
        structure[u, 1:, 1:] = included(engine.pool, *later) & engine.present[u, 1:, None]
    hyperparameters[:] = 0.8
    return engine.load(engine.study, structure, hyperparameters, noise, schedule=JOINT)
