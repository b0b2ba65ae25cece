"""Clusters that split and merge: the ratio, there and back, and who may."""

import math

import numpy as np
import pytest

from kem_pymc.model.engine import Engine
from kem_pymc.sampler.moves import split_merge
from kem_pymc.sampler.moves.split_merge import BLOCK_SHARE, SPREAD
from kem_pymc.sampler.state import MERGE, SPLIT, active_candidates, dataset_log_likelihood
from tests.sampler.moves.by_hand import log_change, log_copy, places, same_state, seated, unchanged
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
    process = state.process[state.assignment]
    others = [d for d in range(len(process)) if d != i and process[d] == process[i]]
    return [(others.index(j) + 0.5) / len(others), 0.1 if blocks else BLOCK_SHARE + 0.1]


def log_allocation(study, state, i, j, slots, order, blocks, sides):
    """Return the log probability of an allocation by hand: n_k L_k, one block after the other."""
    counts, log_q = [1, 1], 0.0
    if blocks:
        users = list(dict.fromkeys(study.user[order].tolist()))
        groups = [[d for d in order if study.user[d] == u] for u in users]
    else:
        groups = [[d] for d in order]
    for group in groups:
        weights = []
        for k, slot in enumerate(slots):
            seats = sum(math.log(counts[k] + m) for m in range(len(group)))
            likelihoods = [dataset_log_likelihood(study, state, slot, d) for d in group]
            weights.append(seats + sum(likelihoods))
        side = int(sides[group[0]])
        if not (blocks and study.user[group[0]] in study.user[[i, j]]):
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
    interpret(split_merge)
    study = many.study
    state = seated(many, labels, COMPOSITIONS)
    before = copy_state(state)
    i, j = (3, 4) if seed % 2 and labels[0] == "ww" else (1, 7)
    everyone = np.flatnonzero(state.assignment == state.assignment[i])
    whole = state.assignment[i]
    draws = choose(state, i, j, blocks)
    n_others = len(everyone) - 2
    rng = Decisions(seed, uniforms=draws)
    tied = {int(study.user[i]), int(study.user[j])} if blocks else set()
    groups = {int(study.user[d]) for d in everyone} if blocks else set(range(n_others))
    free = len(groups - tied) if blocks else n_others
    rng.answers = [bool((5 * seed >> k) & 1) for k in range(free)]
    assert split_merge.split_or_merge(study, state, i, rng)
    there = rng.log_ratios[-1]
    assert len(rng.log_ratios) == free + 1
    after = copy_state(state)

    leave = state.assignment[j]
    assert leave != whole
    assert state.assignment[i] == whole
    sides = state.assignment == leave
    # The order is that of the uniform draws that the members get.
    keys = dict(zip([d for d in everyone if d not in (i, j)], rng.drawn[2:], strict=False))
    if blocks:
        first = {}
        for d in keys:
            first.setdefault(study.user[d], keys[d])
        keys = {d: first[study.user[d]] for d in keys}
    order = sorted(keys, key=lambda d: (keys[d], d))

    own = active_candidates(state.included[leave])
    origins = {p: p for c in own for p in places(many, c)}
    expected = log_change(study, before, after)
    expected -= log_copy(
        many,
        SPREAD,
        origins,
        state.parent[state.process[leave]],
        state.h[leave],
        state.log_noise[leave],
        state.h[whole],
        state.log_noise[whole],
    )
    slots = (whole, leave)
    expected -= log_allocation(study, copy_state(state), i, j, slots, order, blocks, sides)
    assert there == pytest.approx(expected, abs=1e-8)

    reverse = Decisions(0, uniforms=rng.drawn[: 2 + n_others])
    assert split_merge.split_or_merge(study, state, i, reverse)
    (back,) = reverse.log_ratios
    assert log_change(study, after, state) == pytest.approx(-log_change(study, before, after))
    assert back == pytest.approx(-expected, abs=1e-8)
    assert same_state(before, state)
    assert (state.counts[[3 + 2 * SPLIT, 3 + 2 * MERGE]] == 1).all()


@pytest.mark.parametrize("labels", ["ww", "wv"], ids=["split", "merge"])
def test_what_is_rejected_changes_nothing(many, interpret, labels):
    interpret(split_merge)
    state = seated(many, [labels] * 5, {**COMPOSITIONS, "v": []})
    before = copy_state(state)
    rng = Decisions(0, uniforms=choose(state, 0, 5, False), answers=[False] * 9)
    assert not split_merge.split_or_merge(many.study, state, 0, rng)
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
    interpret(split_merge)
    compositions = {**COMPOSITIONS, "v": ["LIN0"] if "xv" in labels else [], "x": []}
    state = seated(many, labels, compositions)
    rng = Decisions(0, uniforms=choose(state, i, j, blocks))
    assert split_merge.split_or_merge(many.study, state, i, rng) == allowed
    assert bool(rng.log_ratios) == allowed
