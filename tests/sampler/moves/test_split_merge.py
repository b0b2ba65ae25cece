"""Clusters that split and merge: the ratio, there and back, and who may."""

import math

import numpy as np
import pytest
from scipy import stats

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.model.engine import Engine
from kem_pymc.sampler.moves import split_merge
from kem_pymc.sampler.moves.split_merge import BLOCK_SHARE, draw_copy
from kem_pymc.sampler.state import MERGE, SPLIT, allocate_cluster
from tests.sampler.moves.by_hand import (
    NOISE,
    log_change,
    log_copy,
    places,
    prior,
    same_state,
    seated,
    unchanged,
    unit,
)
from tests.sampler.moves.decisions import Decisions
from tests.states import copy_state
from tests.tiny_study import make_cohort

#: Second datasets in b lie below SE0; w holds first and second ones below the empty composition.
COMPOSITIONS = {"a": ["SE0"], "b": ["LIN0", "SE0"], "w": []}


@pytest.fixture(scope="module")
def many(pool, table):
    cohort = make_cohort(((2, 4), (1, 3), (2, 3), (3, 4), (1, 2)), seed=6)
    return Engine(cohort, pool, table, concentration=1.3, likelihood_power=0.7)


def choose(state, i, j, blocks):
    """Return the uniform draws with which j and blocks are chosen."""
    dp = state.dp[state.assignment]
    others = [d for d in range(len(dp)) if d != i and dp[d] == dp[i]]
    return [(others.index(j) + 0.5) / len(others), 0.1 if blocks else BLOCK_SHARE + 0.1]


def log_allocation(model, state, i, j, clusters, order, blocks, sides):
    """Return the log probability of an allocation by hand: n_k L_k, one block after the other."""
    counts, log_q = [1, 1], 0.0
    if blocks:
        users = list(dict.fromkeys(model.user[order].tolist()))
        groups = [[d for d in order if model.user[d] == u] for u in users]
    else:
        groups = [[d] for d in order]
    for group in groups:
        weights = []
        for k, cluster in enumerate(clusters):
            seats = sum(math.log(counts[k] + m) for m in range(len(group)))
            likelihoods = [
                split_merge.dataset_log_likelihood(model, state, cluster, d) for d in group
            ]
            weights.append(seats + sum(likelihoods))
        side = int(sides[group[0]])
        if not (blocks and model.user[group[0]] in model.user[[i, j]]):
            log_q += weights[side] - np.logaddexp(*weights)
        counts[side] += len(group)
    return log_q


@pytest.mark.parametrize("labels", [["ab"] * 5, ["ww"] * 5], ids=["below", "of two time steps"])
@pytest.mark.parametrize("blocks", [False, True], ids=["one by one", "blocks"])
@pytest.mark.parametrize("seed", range(6))
def test_ratios_are_those_of_the_joint_density_there_and_back(
    many, interpret, labels, blocks, seed
):
    """Without log alpha, a factorial, the copy's density or an allocation, this would fail."""
    interpret(split_merge, state=True)
    model = many.model
    state = seated(many, labels, COMPOSITIONS)
    before = copy_state(state)
    i, j = (3, 4) if seed % 2 and labels[0] == "ww" else (1, 7)
    everyone = np.flatnonzero(state.assignment == state.assignment[i])
    whole = state.assignment[i]
    draws = choose(state, i, j, blocks)
    n_others = len(everyone) - 2
    rng = Decisions(seed, uniforms=draws)
    tied = {int(model.user[i]), int(model.user[j])} if blocks else set()
    groups = {int(model.user[d]) for d in everyone} if blocks else set(range(n_others))
    free = len(groups - tied) if blocks else n_others
    rng.answers = [bool((5 * seed >> k) & 1) for k in range(free)]
    assert split_merge.split_or_merge(model, state, i, rng)
    there = rng.log_ratios[-1]
    assert len(rng.log_ratios) == free + 1
    after = copy_state(state)

    leave = state.assignment[j]
    assert leave != whole
    assert state.assignment[i] == whole
    sides = state.assignment == leave
    # The order is that of the uniform draws that the members get, after two for the copy.
    keys = dict(zip([d for d in everyone if d not in (i, j)], rng.drawn[4:], strict=False))
    if blocks:
        first = {}
        for d in keys:
            first.setdefault(model.user[d], keys[d])
        keys = {d: first[model.user[d]] for d in keys}
    order = sorted(keys, key=lambda d: (keys[d], d))

    expected = log_change(model, before, after) - log_copy(many, after, leave, whole)
    clusters = (whole, leave)
    expected -= log_allocation(model, copy_state(state), i, j, clusters, order, blocks, sides)
    assert there == pytest.approx(expected, abs=1e-8)

    reverse = Decisions(0, uniforms=rng.drawn[:2] + rng.drawn[4 : 4 + n_others])
    assert split_merge.split_or_merge(model, state, i, reverse)
    (back,) = reverse.log_ratios
    assert log_change(model, after, state) == pytest.approx(-log_change(model, before, after))
    assert back == pytest.approx(-expected, abs=1e-8)
    assert same_state(before, state)
    assert (state.accepted[[SPLIT, MERGE]] == 1).all()


@pytest.mark.parametrize("labels", ["ww", "wv"], ids=["split", "merge"])
def test_what_is_rejected_changes_nothing(many, interpret, labels):
    interpret(split_merge, state=True)
    state = seated(many, [labels] * 5, {**COMPOSITIONS, "v": []})
    before = copy_state(state)
    rng = Decisions(0, uniforms=choose(state, 0, 5, False), answers=[False] * 9)
    assert not split_merge.split_or_merge(many.model, state, 0, rng)
    assert rng.log_ratios
    assert unchanged(before, state)


@pytest.mark.parametrize(
    ("labels", "blocks", "i", "j", "allowed"),
    [
        (["xv", "ww", "ww", "ww", "ww"], False, 0, 1, False),  # different compositions
        (["wv", "ww", "ww", "ww", "ww"], False, 0, 1, True),
        (["wv", "ww", "ww", "ww", "ww"], True, 0, 1, False),  # one user
        (["wv", "ww", "ww", "vv", "ww"], True, 2, 6, False),  # user 0 is on both sides
        (["ww", "ww", "ww", "vv", "ww"], True, 2, 6, True),
        (["ww", "ww", "ww", "vv", "ww"], True, 2, 3, False),
    ],
)
def test_only_what_a_split_could_have_led_to_is_merged(
    many, interpret, labels, blocks, i, j, allowed
):
    interpret(split_merge, state=True)
    compositions = {**COMPOSITIONS, "v": ["LIN0"] if "xv" in labels else [], "x": []}
    state = seated(many, labels, compositions)
    rng = Decisions(0, uniforms=choose(state, i, j, blocks))
    assert split_merge.split_or_merge(many.model, state, i, rng) == allowed
    assert bool(rng.log_ratios) == allowed


@compiled
def _copies(model, state, copy, original, rng, n):
    out = np.full((n, model.layout.positive.shape[0] + 1), np.nan)
    for i in range(n):
        draw_copy(model, state, copy, original, rng)
        out[i, :-1] = state.theta_unconstrained[copy]
        out[i, -1] = state.log_noise[copy]
    return out


def test_copies_have_the_distribution_by_hand(many):
    """A share that is off by .02, a scale by 10 %, or values that don't share it, would show."""
    share, *scales = 0.3, 0.1, 0.6
    state = seated(many, ["ab"] * 5, {"a": ["SE0"], "b": ["LIN0 x PER0"]})
    original = state.assignment[1]
    copy = allocate_cluster(state)
    state.theta_unconstrained[copy] = np.nan
    source, source_noise = state.theta_unconstrained[original], state.log_noise[original]
    draws = _copies(many.model, state, copy, original, np.random.default_rng(0), 100_000)
    assert np.isnan(draws[:, :4]).all()  # values of candidates that aren't in stay

    def cdf(x, base, around, width):
        copies = [stats.norm(around, width * s).cdf(x) for s in scales]
        return share * base.cdf(x) + (1 - share) * np.mean(copies, axis=0)

    for p in places(many, 2):
        expected = (prior(many, p), source[p], unit(many, p))
        assert stats.kstest(draws[:, p], lambda x, e=expected: cdf(x, *e)).pvalue > 1e-3
    expected = (stats.norm(*NOISE[1]), source_noise, 1.0)
    assert stats.kstest(draws[:, -1], lambda x: cdf(x, *expected)).pvalue > 1e-3

    # Jumps of one draw have one scale: their products have the moments of the mixture.
    jumps = np.abs(draws - np.append(source, source_noise))[:, [4, -1]]
    reach = 3 * scales[0]
    both = (jumps < reach).all(axis=1).mean()
    inside = [2 * stats.norm.cdf(reach / s) - 1 for s in scales]
    low = np.diff(prior(many, 4).cdf(source[4] + reach * np.array([-1, 1])))[0]
    least = np.diff(stats.norm(*NOISE[1]).cdf(source_noise + reach * np.array([-1, 1])))[0]
    expected = share * low * least + 0.5 * (1 - share) * (inside[0] ** 2 + inside[1] ** 2)
    assert abs(both - expected) < 4.5 * np.sqrt(expected / 100_000)
    assert both > (jumps < reach).mean(axis=0).prod() + 0.05
