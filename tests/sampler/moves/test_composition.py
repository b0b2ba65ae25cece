"""Candidates that enter, leave or take turns."""

import math

import numpy as np
import pytest

from kem_pymc.sampler.joint_density import log_joint
from kem_pymc.sampler.moves import component, composition
from kem_pymc.sampler.moves.composition import (
    Odds,
    neighbour,
    neighbour_probability,
)
from kem_pymc.sampler.moves.sweep import check_density
from tests.sampler.moves.by_hand import ODDS, included, log_birth, places, same_state, seated
from tests.sampler.moves.decisions import Decisions
from tests.states import copy_state


def test_probabilities_of_neighbours_are_those_of_their_draws():
    own = np.array([True, False, False, True])
    odds = Odds(add=0.5, remove=0.3, swap=0.2, edge=1.0)
    counts: dict[tuple[bool, ...], int] = {}
    ratios = {}
    rng = np.random.default_rng(2)
    n = 20_000
    for _ in range(n):
        removed, added, log_choice = neighbour(own, odds, rng)
        wanted = own.copy()
        wanted[[c for c in (removed, added) if c >= 0]] ^= True
        counts[tuple(wanted)] = counts.get(tuple(wanted), 0) + 1
        ratios[tuple(wanted)] = log_choice
    total = 0.0
    for wanted, count in counts.items():
        there = neighbour_probability(own, np.array(wanted), odds)
        back = neighbour_probability(np.array(wanted), own, odds)
        assert ratios[wanted] == pytest.approx(math.log(back / there), abs=1e-12)
        assert abs(count / n - there) < 4.5 * math.sqrt(there / n)
        total += there
    assert total == pytest.approx(1)


#: The component of a has S = {a, e} and D = {b, d}.
LABELS = ["abc", "ad", "ebc"]
OTHERS = {"b": ["SE0", "LIN0 x PER0"], "c": ["LIN0", "LIN0 x PER0"], "d": ["LIN0", "SE0"]}


def way(pool, own, removed, added):
    """Return the probability of a change by hand, and uniform draws that lead to it."""
    inside = [c for c in pool.names if c in own]
    outside = [c for c in pool.names if c not in own]
    add, remove, swap = ODDS[:3]
    if not inside:
        add, remove, swap = ODDS.edge, 0.0, 0.0
    elif not outside:
        add, remove, swap = 0.0, ODDS.edge, 0.0
    total = add + remove + swap
    places = [
        (row.index(name) + 0.5) / len(row)
        for row, name in ((inside, removed), (outside, added))
        if name
    ]
    if not removed:
        return add / len(outside), [0.5 * add / total, *places]
    if not added:
        return remove / len(inside), [(add + 0.5 * remove) / total, *places]
    return swap / len(inside) / len(outside), [1 - 1e-9, *places]


def log_births(engine, state, clusters, candidate, own, values, outside):
    """Return the log density of proposing a candidate's values in all clusters that change."""
    total = 0.0
    for k, cluster in enumerate(clusters):
        sources = [state.theta_unconstrained[s] for s in outside if state.included[s, candidate]]
        sources += [values[clusters[0]]] if k > 0 else []
        total += log_birth(engine, candidate, own, sources, values[cluster])
    return total


@pytest.mark.parametrize("joint", [False, True], ids=["cut", "joint"])
@pytest.mark.parametrize(
    ("names", "removed", "added"),
    [
        ([], None, "LIN0"),
        (["LIN0"], None, "SE0"),
        (["LIN0"], None, "LIN0 x PER0"),
        (["LIN0", "SE0"], None, "LIN0 x PER0"),
        (["SE0"], "SE0", None),
        (["LIN0", "LIN0 x PER0"], "LIN0 x PER0", None),
        (["LIN0", "SE0", "LIN0 x PER0"], "LIN0", None),
        (["LIN0", "SE0"], "SE0", "LIN0 x PER0"),
        (["LIN0"], "LIN0", "LIN0 x PER0"),
        (["LIN0 x PER0"], "LIN0 x PER0", "SE0"),
    ],
)
def test_ratios_are_those_of_the_joint_density_there_and_back(
    engine, interpret, monkeypatch, names, removed, added, joint
):
    """Also a wrong choice, or a birth whose density isn't that of this side, would show."""
    interpret(composition, component, state=True)
    pool, model = engine.pool, engine.model._replace(power=0.7)
    new = [c for c in [*names, added] if c and c != removed]
    state = seated(engine, LABELS, {"a": names, "e": names, **OTHERS}, model=model, seed=1)
    before, cluster = copy_state(state), state.assignment[0]
    _, changed, moved = component.component(model, state, cluster, joint)
    clusters = np.flatnonzero(changed)
    assert len(clusters) == (2 if joint else 1)
    outside = [s for s in np.unique(state.assignment) if not changed[s]]

    forward, draws = way(pool, names, removed, added)
    rng = Decisions(3, uniforms=draws)
    assert composition.change_composition(model, state, cluster, joint, ODDS, rng)
    after = copy_state(state)
    check_density(model, state)
    np.testing.assert_array_equal(state.included[clusters], [included(pool, *new)] * len(clusters))
    counted = np.column_stack([after.proposed - before.proposed, after.accepted - before.accepted])
    move = (
        composition.SWAP if removed and added else composition.ADD if added else composition.REMOVE
    )
    assert counted[move].tolist() == [1, 1]
    assert counted.sum() == 2

    backward, draws_back = way(pool, new, added, removed)
    change = log_joint(model, after) - log_joint(model, before)
    change += math.log(backward / forward)
    if added:
        c = pool.names.index(added)
        own = included(pool, *names)
        change -= log_births(engine, before, clusters, c, own, after.theta_unconstrained, outside)
    if removed:
        c = pool.names.index(removed)
        values = after.theta_unconstrained.copy()
        values[:, places(engine, c)] = before.theta_unconstrained[:, places(engine, c)]
        own = included(pool, *new)
        change += log_births(engine, after, clusters, c, own, values, outside)
    (there,) = rng.log_ratios
    assert there == pytest.approx(change, abs=1e-8)

    rows = np.flatnonzero(changed | moved)

    def draw_what_was(_model, _state, c, _own, _changed, _first, theta, row, _rng):
        theta[row, places(engine, c)] = before.theta_unconstrained[rows[row], places(engine, c)]

    monkeypatch.setattr(composition, "draw_birth", draw_what_was)
    coins = rng.drawn[len(draws) : -1]
    reverse = Decisions(0, uniforms=draws_back + coins, normals=[-z for z in rng.stepped])
    assert composition.change_composition(model, state, cluster, joint, ODDS, reverse)
    assert same_state(before, state)
    (back,) = reverse.log_ratios
    assert there + back == pytest.approx(0, abs=1e-8)


def test_half_of_the_noises_take_a_symmetric_step(engine, interpret):
    """A share that depended on the noise, or steps of another centre, would need a term."""
    interpret(composition, component, state=True)
    model = engine.model
    steps = []
    for seed in range(200):
        state = seated(engine, LABELS, {"a": ["LIN0"], "e": ["LIN0"], **OTHERS})
        before, rng = state.log_noise.copy(), Decisions(seed)
        composition.change_composition(model, state, state.assignment[0], False, ODDS, rng)
        steps += [(state.log_noise - before)[state.assignment[0]]]
        assert [s for s in steps[-1:] if s] == pytest.approx([0.5 * z for z in rng.stepped])
    assert abs(np.count_nonzero(steps) - 100) < 4.5 * np.sqrt(50)
