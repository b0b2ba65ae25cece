"""Users on paths that may split and merge."""

import math

import numpy as np

from kem_pymc.sampler.moves.path_copies import SPREAD
from kem_pymc.sampler.moves.sweep import JOINT
from tests.sampler.moves.by_hand import included, log_birth, log_copy, places, prior
from tests.tiny_study import make_cohort

NAMES = ["LIN0", "PER0", "SE0", "PER0 x SE0"]


def four_users_cohort():
    """Return users with two or three time steps, some of whom may share a path."""
    return make_cohort(((2, 4, 6), (2, 4, 6), (1, 3), (2, 4, 5)), seed=5)


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


#: What values a copy takes over from a candidate that differs by a factor, and what it draws.
TAKEN_OVER = {
    ("SE0", "PER0 x SE0"): ({7: 5, 10: 6}, [8, 9]),
    ("PER0", "PER0 x SE0"): ({7: 2, 8: 3, 9: 4}, [10]),
    ("PER0 x SE0", "SE0"): ({5: 7, 6: 10}, []),
    ("PER0 x SE0", "PER0"): ({2: 7, 3: 8, 4: 9}, []),
}


def names_of(engine, own):
    """Return the names of the candidates that are in."""
    return [name for name, there in zip(engine.pool.names, own, strict=True) if there]


def origins_by_hand(engine, own, copy):
    """Return the origins of a copy's values, values of new factors, and new candidates."""
    own, copy = names_of(engine, own), names_of(engine, copy)
    index = engine.pool.names.index
    origins = {p: p for c in own if c in copy for p in places(engine, index(c))}
    drawn, new = [], [c for c in copy if c not in own]
    for pair, (taken, factor) in TAKEN_OVER.items():
        if pair[0] in own and pair[0] not in copy and pair[1] in new:
            origins |= taken
            drawn += factor
            new.remove(pair[1])
    return origins, drawn, [index(c) for c in new]


def log_difference_by_hand(engine, own, difference):
    """Return the log probability of a set D, given the first original, as documented."""
    names, changed = names_of(engine, own), names_of(engine, difference)
    enter = {"LIN0": 0.1, "PER0": 0.1, "SE0": 0.1, "PER0 x SE0": 0.02}
    copy = set(names) ^ set(changed)
    total = 0.25 * math.prod(p if c in copy else 1 - p for c, p in enter.items())
    total += 0.1 * (not changed) + 0.4 / 4 * (len(changed) == 1)
    shares = []
    for c in names:
        partners = [b for a, b in TAKEN_OVER if a == c and b not in names]
        pairs = [set(changed) == {c, partner} for partner in partners]
        shares.append(np.mean(pairs) if partners else not changed)
    total += 0.25 * (np.mean(shares) if shares else not changed)
    return math.log(total)


def log_copies_by_hand(engine, whole, copies, outside):
    """Return the log density of the values of copies.

    Parameters
    ----------
    whole, copies : sequence of (included, parent, h, log_noise)
        Clusters that are copied, and their copies, in the order of the path.
    outside : sequence of (included, h)
        Clusters that don't change, from which the values of new candidates may be copied.
    """
    total = 0.0
    for k, (original, copy) in enumerate(zip(whole, copies, strict=True)):
        origins, drawn, new = origins_by_hand(engine, original[0], copy[0])
        total += log_copy(engine, SPREAD, origins, copy[1], *copy[2:], *original[2:])
        total += sum(prior(engine, p).logpdf(copy[2][p]) for p in drawn)
        for c in new:
            sources = [h for own, h in outside if own[c]]
            if k > 0:  # the first copy, or what it is a copy of
                sources.append((copies if copies[0][0][c] else whole)[0][2])
            values = original[2].copy()
            for d in np.flatnonzero(copy[0]):
                values[list(places(engine, d))] = copy[2][list(places(engine, d))]
            total += log_birth(engine, c, original[0], sources, values)
    return total


def clusters(state, slots):
    """Return composition, parent, values and noise of slots."""
    return [
        (
            state.included[s],
            state.parent[state.process[s]],
            state.h[s].copy(),
            float(state.log_noise[s]),
        )
        for s in slots
    ]
