"""Steps on the kernel of one cluster."""

import math
from itertools import product

import numpy as np
import pytest

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.gp.likelihood import prefix_log_likelihood
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.engine import Engine
from kem_pymc.sampler.moves import local
from kem_pymc.sampler.moves.composition import (
    Odds,
)
from kem_pymc.sampler.moves.local import local_step
from kem_pymc.sampler.state import (
    draw_noise,
    draw_value,
)
from tests.sampler.moves.by_hand import seated
from tests.tiny_study import make_cohort


@compiled
def _evidence(model, state, cluster, included, rng, n):
    """Return log p(members | composition) by averaging the likelihood over prior draws."""
    theta = state.theta_unconstrained[cluster].copy()
    parent = state.parent[state.dp[cluster]]
    scratch = np.empty(model.data.ends.shape[1])
    counts = np.zeros(2, dtype=np.int64)
    active = np.flatnonzero(included)
    out = np.empty(n)
    for i in range(n):
        for c in active:
            for p in range(model.layout.hyper_start[c], model.layout.hyper_start[c + 1]):
                theta[p] = draw_value(model, p, rng)
        log_noise = draw_noise(model, parent, rng)
        total = 0.0
        for d in range(state.assignment.shape[0]):
            prefix_log_likelihood(
                model.kernels,
                model.layout,
                active,
                theta,
                log_noise,
                model.data,
                model.user[d],
                model.time_step[d] + 1,
                scratch,
                counts,
            )
            total += scratch[model.time_step[d]]
        out[i] = total
    return out


#: All different, so that a ratio that mixes them up is noticed.
ODDS = Odds(add=0.3, remove=0.2, swap=0.1, edge=0.45)


@compiled
def _visits(model, state, cluster, rng, n, thin):
    out = np.empty(n, dtype=np.int64)
    for i in range(n):
        for _ in range(thin):
            local_step(model, state, cluster, False, ODDS, 0.0, rng)
        code = 0
        for c in range(state.included.shape[1]):
            code += state.included[cluster, c] << c
        out[i] = code
    return out


@pytest.mark.integration
def test_compositions_of_one_cluster_are_visited_as_enumeration_says(table):
    cohort = make_cohort(ends=((4,), (3,)), seed=8)
    pool = CandidatePool(["LIN0", "SE0", "LIN0 x SE0"])
    table = table.replace(enter={"base kernel": 0.4, "interaction": 0.25})
    engine = Engine(cohort, pool, table, concentration=1.0, likelihood_power=1.0)
    model = engine.model
    state = engine.load(model, *engine.simplest())
    cluster = state.assignment[0]
    rng = np.random.default_rng(12)
    log_posterior = np.empty(8)
    errors = np.empty(8)
    for code, bits in enumerate(product([False, True], repeat=3)):
        included = np.array(bits[::-1])
        draws = np.exp(_evidence(model, state, cluster, included, rng, 60_000))
        prior = np.where(included, model.priors.enter, 1 - model.priors.enter).prod()
        log_posterior[code] = math.log(prior * draws.mean())
        errors[code] = draws.std() / draws.mean() / math.sqrt(len(draws))
    exact = np.exp(log_posterior - np.logaddexp.reduce(log_posterior))
    assert errors.max() < 0.02  # the enumeration itself is good to 2 %

    visits = _visits(model, state, cluster, rng, 60_000, 3)
    batches = np.stack([np.bincount(b, minlength=8) / len(b) for b in np.split(visits, 40)])
    error = np.hypot(batches.std(0, ddof=1) / math.sqrt(40), exact * errors)
    z = (batches.mean(0) - exact) / error
    assert exact.max() < 0.6  # every composition matters
    assert np.abs(z).max() < 4, (exact, batches.mean(0))


def test_a_step_changes_the_composition_as_often_as_the_odds_say(engine, monkeypatch):
    """And nothing but the composition decides: the ratio of a change takes that for granted."""
    calls = []
    for name in ("change_composition", "random_walk"):
        monkeypatch.setattr(local, name, lambda *_, name=name: calls.append(name))
    n = 2000
    for own, share in (([], ODDS.edge), (["LIN0", "SE0"], 0.6), (engine.pool.names, ODDS.edge)):
        state = seated(engine, ["abc", "dd", "ddd"], {"a": own, "b": ["LIN0"], "c": [], "d": []})
        calls.clear()
        cluster = state.assignment[0]
        rng = np.random.default_rng(0)
        for _ in range(n):
            local.local_step.py_func(engine.model, state, cluster, False, ODDS, 0.0, rng)
        changes = calls.count("change_composition")
        assert len(calls) == n
        assert abs(changes - n * share) < 4.5 * math.sqrt(n * share * (1 - share))
