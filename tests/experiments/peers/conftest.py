"""Simulated pilot users of peers, and their test users."""

import numpy as np
import pytest

from experiments.peers.forecast import Pilots
from kem_pymc.data.cohort import Cohort


def users_at(times, count, rng, missing=0.0):
    """A cohort of users with a level, a slope and noise at fixed times, some of them missing."""
    times = np.asarray(times, dtype=float)
    inputs, targets = [], []
    for _ in range(count):
        seen = rng.random(len(times)) >= missing
        seen[:2] = True
        t = times[seen]
        level, slope = rng.normal(size=2)
        inputs.append(t[:, None])
        targets.append(10 + 2 * level + (1 + 0.5 * slope) * t + rng.normal(0, 0.5, len(t)))
    ends = tuple(np.arange(1, len(y) + 1) for y in targets)
    return Cohort(tuple(range(count)), tuple(inputs), tuple(targets), ends, ("time",))


@pytest.fixture(scope="session")
def cohort():
    return users_at(range(6), 8, np.random.default_rng(0))


@pytest.fixture(scope="session")
def pilots(cohort):
    return Pilots.of(cohort)
