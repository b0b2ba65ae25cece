"""Tiny states, and densities of proposals written out with scipy."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from kem_pymc.model.engine import Engine
from kem_pymc.sampler.joint_density import log_joint
from kem_pymc.sampler.moves.composition import Odds
from kem_pymc.sampler.moves.sweep import JOINT, check_density
from kem_pymc.sampler.state import CompiledModel, State
from tests.states import memberships_agree

#: All different, so that a ratio that mixes them up is noticed.
ODDS = Odds(add=0.3, remove=0.2, swap=0.1, edge=0.45)

#: Means and standard deviations of the coordinates, as in the `table` fixture.
PRIORS = {
    "amplitude": (0.0, 1.0),
    "lengthscale": (0.2, 1.0),
    "period": (math.log(5), 0.25),
    "shift": (0.5, 1.0),
}
#: The same of the log noise by the size of the parent.
NOISE = [(2.0, 0.5), (1.0, 1.0), (0.0, 2.0)]


def included(pool, *names):
    """Return the inclusion indicators (C,) of the candidates with these names."""
    assert set(names) <= set(pool.names)
    return np.isin(pool.names, names)


def seated(
    engine: Engine,
    labels: Sequence[str],
    compositions: Mapping[str, Sequence[str]],
    seed: int = 0,
    model: CompiledModel | None = None,
) -> State:
    """Return a state with the clusters that the letters of users' labels name.

    All clusters have values of their own.
    """
    rng = np.random.default_rng(seed)
    structure, hyperparameters, noise = engine.simplest()
    first = {}
    values = {}
    for u, own in enumerate(labels):
        assert len(own) == engine.cohort.steps[u]
        for t, label in enumerate(own):
            if label not in first:
                first[label] = u * engine.shape[1] + t
                values[label] = rng.normal(0.1, 0.5, hyperparameters.shape[2] + 1)
            structure[u, t, 0] = first[label]
            structure[u, t, 1:] = included(engine.pool, *compositions[label])
            row = values[label][:-1]
            hyperparameters[u, t] = np.where(engine.model.layout.positive, np.exp(row), row)
            noise[u, t] = math.exp(values[label][-1])
    model = engine.model if model is None else model
    state = engine.load(model, structure, hyperparameters, noise, schedule=JOINT)
    assert memberships_agree(model, state)
    return state


def log_change(model: CompiledModel, before: State, after: State) -> float:
    """Return the change of the log joint density, both from scratch, once the books are checked."""
    check_density(model, after)
    assert memberships_agree(model, after)
    return log_joint(model, after) - log_joint(model, before)


def same_state(one: State, other: State) -> bool:
    """Return whether two states differ by rounding at most, up to which clusters are used."""
    if len(np.unique(one.assignment)) != len(np.unique(other.assignment)):
        return False
    for a, b in zip(one.assignment, other.assignment, strict=True):
        active = one.included[a]
        if (active != other.included[b]).any():
            return False
        if not np.allclose(one.log_noise[a], other.log_noise[b], atol=1e-9):
            return False
        if (one.parent[one.dp[a]] != other.parent[other.dp[b]]).any():
            return False
    return np.isclose(one.log_density[0], other.log_density[0], atol=1e-8)


def unchanged(one: State, other: State) -> bool:
    """Return whether assignments, kernels, processes in use and the density are the same."""
    names = (
        "assignment",
        "included",
        "theta_unconstrained",
        "log_noise",
        "used",
        "members",
        "log_density",
        "sizes",
    )
    occupied = np.unique(one.assignment)
    rows = {"included", "theta_unconstrained", "log_noise"}
    return all(
        np.array_equal(
            getattr(one, name)[occupied] if name in rows else getattr(one, name),
            getattr(other, name)[occupied] if name in rows else getattr(other, name),
        )
        for name in names
    )


def places(engine: Engine, candidate: int) -> range:
    """Return the indices of a candidate's hyperparameters."""
    start = engine.model.layout.hyper_start
    return range(start[candidate], start[candidate + 1])


def prior(engine: Engine, p: int) -> stats.rv_continuous:
    """Return the prior of a coordinate."""
    return stats.norm(*PRIORS[engine.pool.hyperparameters[p].kind])


def unit(engine: Engine, p: int) -> float:
    """Return the unit of steps of a coordinate, min(prior sd, 1) up to the error of draws."""
    scale = engine.model.priors.scale[p]
    assert abs(scale / min(PRIORS[engine.pool.hyperparameters[p].kind][1], 1.0) - 1) < 0.02
    return scale


def log_jitter(engine, where, values, around, scale) -> float:
    """Return the log density of values as a copy of others, each `scale` units wide."""
    return sum(
        stats.norm(centre, scale * unit(engine, p)).logpdf(values[p])
        for p, centre in zip(where, around, strict=True)
    )


def log_birth(engine, candidate, own, sources, values) -> float:
    """Return the log density with which a candidate's values are proposed.

    Parameters
    ----------
    own : (C,) bool
        Composition that it enters.
    sources : sequence of (H,) arrays
        Values of the clusters from which it may be copied.
    values : (H,) float64
    """
    where = places(engine, candidate)
    log_prior = sum(prior(engine, p).logpdf(values[p]) for p in where)
    copied = 0.0
    for source in sources:
        for scale in (0.1, 0.5):
            log_copy = log_jitter(engine, where, values, [source[p] for p in where], scale)
            copied += 0.5 * math.exp(log_copy) / len(sources)
    kin, related = prior(engine, where[0]).pdf(values[where[0]]), False
    for factor, start, size in factors(engine, candidate):
        own_places = range(start, start + size)
        rows = [
            [values[other_start + k] for k in range(size)]
            for other in np.flatnonzero(own)
            if other != candidate
            for other_factor, other_start, _ in factors(engine, other)
            if other_factor.base == factor.base
        ]
        if rows:
            related = related or size > 0
            jitters = [math.exp(log_jitter(engine, own_places, values, row, 0.3)) for row in rows]
            kin *= np.mean(jitters)
        else:
            kin *= math.exp(sum(prior(engine, p).logpdf(values[p]) for p in own_places))
    copy_share, kin_share = 0.35 * bool(sources), 0.35 * related
    total = (1 - copy_share - kin_share) * math.exp(log_prior)
    return math.log(total + copy_share * copied + kin_share * kin)


def factors(engine, candidate):
    """Return a candidate's factors with the index of the first value, and the number, of each."""
    found, start = [], places(engine, candidate)[0] + 1
    sizes = {"LIN": 1, "SE": 1, "PER": 2}
    for factor in list(engine.pool)[candidate].factors:
        found.append((factor, start, sizes[factor.base]))
        start += sizes[factor.base]
    return found


def log_copy(engine, state, copy, original) -> float:
    """Return the log density of a cluster's values as those of a split from another."""
    own = np.flatnonzero(state.included[copy])
    where = [p for c in own for p in places(engine, c)]
    values, source = state.theta_unconstrained[[copy, original]]
    log_noise, source_noise = state.log_noise[[copy, original]]
    parent = state.parent[state.dp[copy]]
    log_prior = stats.norm(*NOISE[min(int(parent.sum()), 2)]).logpdf(log_noise)
    log_prior += sum(prior(engine, p).logpdf(values[p]) for p in where)
    total = 0.3 * math.exp(log_prior)
    for scale in (0.1, 0.6):
        log_jump = stats.norm(source_noise, scale).logpdf(log_noise)
        log_jump += log_jitter(engine, where, values, source[where], scale)
        total += 0.5 * 0.7 * math.exp(log_jump)
    return math.log(total)
