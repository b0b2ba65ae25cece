"""Copies of the clusters on a path: what they are like, and with what density."""

import math
from itertools import product

import numpy as np
import pytest

from kem_pymc._jit.decorators import compiled
from kem_pymc.sampler.moves.path_copies import (
    NEW_FACTOR,
    draw_difference,
    draw_values,
    first_visits,
    log_copies,
    log_difference,
    open_path,
    origins_of,
    shift,
)
from kem_pymc.sampler.moves.path_split_merge import (
    path_of,
)
from kem_pymc.sampler.state import (
    active_candidates,
    candidate_log_prior,
    noise_log_prior,
)
from tests.sampler.moves.by_hand import included, seated
from tests.sampler.moves.paths import (
    NAMES,
    clusters,
    log_copies_by_hand,
    log_difference_by_hand,
    two_stories,
)


@compiled
def many_differences(study, own, n, rng):
    drawn = np.empty((n, own.shape[0]), dtype=np.bool_)
    for i in range(n):
        drawn[i] = draw_difference(study, own, rng)
    return drawn


@compiled
def many_weights(study, state, whole, leave, visits, changed, n, rng):
    """Return log p - log q (n,) of copies: p their prior, and q with the probability of D."""
    out = np.empty(n)
    for i in range(n):
        draw_values(study, state, whole, leave, visits, changed, rng)
        out[i] = -log_copies(study, state, whole, leave, visits, changed)
        for slot in leave[visits]:
            parent = state.parent[state.process[slot]]
            out[i] += noise_log_prior(study, parent, state.log_noise[slot])
            for c in active_candidates(state.included[slot]):
                out[i] += candidate_log_prior(study, c, state.h[slot])
    return out


@pytest.mark.parametrize("names", [[], ["SE0"], ["PER0", "PER0 x SE0"], NAMES])
def test_differences_are_drawn_with_the_probabilities_that_are_said(four_users, names):
    own = included(four_users.pool, *names)
    everything = [np.array(d) for d in product([False, True], repeat=len(NAMES))]
    exact = np.array([math.exp(log_difference(four_users.study, own, d)) for d in everything])
    assert exact.sum() == pytest.approx(1, abs=1e-12)
    rng = np.random.default_rng(0)
    draws = 40_000
    drawn = many_differences(four_users.study, own, draws, rng)
    seen = np.array([(drawn == d).all(1).mean() for d in everything])
    np.testing.assert_array_less(abs(seen - exact), 4.5 * np.sqrt(exact / draws) + 1e-9)


def test_a_product_keeps_what_it_shares_with_what_it_replaces(four_users):
    pool, layout = four_users.pool, four_users.pool.layout
    start_of = {name: int(layout.hyper_start[c]) for c, name in enumerate(pool.names)}
    own, copy = included(pool, "LIN0", "SE0"), included(pool, "LIN0", "PER0 x SE0")
    origins, new = origins_of(four_users.study, own, copy)
    names = [h.name for h in pool.hyperparameters]
    kept = {names[p]: names[o] for p, o in enumerate(origins) if o >= 0}
    lin = start_of["LIN0"]
    both = start_of["PER0 x SE0"]
    se = start_of["SE0"]
    assert kept == {
        **{names[lin + k]: names[lin + k] for k in range(2)},
        names[both]: names[se],
        names[both + 3]: names[se + 1],  # the lengthscale of SE comes after PER's two
    }
    assert np.flatnonzero(origins == NEW_FACTOR).tolist() == [both + 1, both + 2]
    assert not new.any()
    back, new = origins_of(four_users.study, copy, own)
    for p, o in enumerate(origins):
        if o >= 0:
            assert back[o] == p
    assert not new.any()


def test_a_newcomer_has_no_origin(four_users):
    origins, new = origins_of(
        four_users.study,
        included(four_users.pool, "LIN0"),
        included(four_users.pool, "LIN0", "SE0"),
    )
    np.testing.assert_array_equal(new, included(four_users.pool, "SE0"))
    first = four_users.pool.layout.hyper_start[four_users.pool.names.index("SE0")]
    assert (origins[first : first + 2] == -1).all()


@pytest.mark.integration
@pytest.mark.parametrize("names", [["SE0"], ["SE0", "LIN0"], ["PER0 x SE0"], ["PER0", "LIN0"]])
def test_the_density_of_copies_is_that_of_their_draws(four_users, names):
    """The mean of p / q over draws from q is one, whatever the density p."""
    study = four_users.study
    state = two_stories(four_users)
    whole = path_of(study, state, 0).copy()
    visits = first_visits(whole)
    difference = included(four_users.pool, "SE0") != included(four_users.pool, *names)
    leave = open_path(state, whole, visits, difference)
    changed = np.isin(np.arange(len(state.occupants)), np.concatenate([whole, leave]))
    rng = np.random.default_rng(1)
    log_weights = many_weights(study, state, whole, leave, visits, changed, 20_000, rng)
    log_weights += log_difference(study, state.included[whole[0]], difference)
    weights = np.exp(log_weights)
    error = weights.std() / math.sqrt(len(weights))
    assert error < 0.05
    assert weights.mean() == pytest.approx(1, abs=4 * error)


def test_an_opened_path_begins_in_the_first_process_and_goes_on_below_itself(four_users):
    """Catches a first cluster below the difference, as if an empty composition had changed."""
    state = two_stories(four_users)
    whole = path_of(four_users.study, state, 0).copy()
    visits = first_visits(whole)
    assert len(visits) > 1
    difference = included(four_users.pool, "SE0") != included(four_users.pool, "PER0 x SE0", "LIN0")
    opened = open_path(state, whole, visits, difference)
    assert state.process[opened[0]] == state.process[whole[0]] == 0
    for t in visits:
        np.testing.assert_array_equal(
            state.included[opened[t]], state.included[whole[t]] != difference
        )
    for t in visits[1:]:
        parent = state.parent[state.process[opened[t]]]
        np.testing.assert_array_equal(parent, state.included[opened[t - 1]])


def test_a_shift_is_undone(four_users):
    study, state = four_users.study, two_stories(four_users)
    rng = np.random.default_rng(2)
    whole = path_of(study, state, 0).copy()
    visits = first_visits(whole)
    difference = included(four_users.pool, "SE0") != included(four_users.pool, "PER0 x SE0", "LIN0")
    leave = open_path(state, whole, visits, difference)
    changed = np.isin(np.arange(len(state.occupants)), np.concatenate([whole, leave]))
    draw_values(study, state, whole, leave, visits, changed, rng)
    stay = open_path(state, whole, visits, np.zeros_like(difference))
    shares = np.array([0.25, 0.6])
    there = shift(study, state, stay, leave, visits, -shares / (1 - shares))
    assert not np.allclose(state.h[stay], state.h[whole])
    back = shift(study, state, stay, leave, visits, shares)
    np.testing.assert_allclose(state.h[stay], state.h[whole], atol=1e-12)
    np.testing.assert_allclose(state.log_noise[stay], state.log_noise[whole], atol=1e-12)
    # Two values of SE0 and the noise, in each of two clusters.
    assert there == pytest.approx(-3 * np.log1p(-shares).sum(), abs=1e-12)
    assert back == pytest.approx(-there, abs=1e-12)


@pytest.mark.parametrize("names", [[], ["SE0"], ["PER0", "PER0 x SE0"], ["LIN0", "SE0"], NAMES])
def test_probabilities_of_differences_are_those_by_hand(four_users, names):
    own = included(four_users.pool, *names)
    for d in product([False, True], repeat=len(NAMES)):
        ours = log_difference(four_users.study, own, np.array(d))
        assert ours == pytest.approx(log_difference_by_hand(four_users, own, d), abs=1e-8)


@pytest.mark.parametrize(
    ("root", "later", "difference"),
    [
        (["SE0"], ["SE0"], []),
        (["SE0"], ["SE0"], ["LIN0"]),
        (["SE0"], ["SE0"], ["LIN0", "PER0"]),
        (["SE0", "PER0"], ["LIN0"], ["SE0", "PER0 x SE0"]),
        (["PER0 x SE0"], ["LIN0"], ["SE0", "PER0 x SE0"]),
        (["LIN0"], ["PER0"], ["LIN0", "SE0"]),
    ],
)
def test_densities_are_those_by_hand(four_users, root, later, difference):
    """A new factor that isn't drawn, or a birth from a cluster that changes, would show."""
    study = four_users.study
    labels = ["abe", "cdx", "ab", "abe"]
    kinds = {"a": root, "b": later, "e": [], "c": ["LIN0", "SE0"], "d": ["PER0"], "x": NAMES}
    state = seated(four_users, labels, kinds)
    whole = path_of(study, state, 2).copy()
    visits = first_visits(whole)
    leave = open_path(state, whole, visits, included(four_users.pool, *difference))
    changed = np.isin(np.arange(len(state.occupants)), np.concatenate([whole, leave]))
    outside = [
        (state.included[s], state.h[s]) for s in state.live[: state.sizes[0]] if not changed[s]
    ]
    first = state.included[whole[0]]
    for seed in range(10):
        draw_values(study, state, whole, leave, visits, changed, np.random.default_rng(seed))
        expected = log_copies_by_hand(
            four_users, *(clusters(state, slots) for slots in (whole, leave)), outside
        )
        expected += log_difference_by_hand(four_users, first, first ^ state.included[leave[0]])
        ours = log_copies(study, state, whole, leave, visits, changed)
        assert ours == pytest.approx(expected, abs=1e-8)


def test_the_jacobian_of_a_shift_is_that_of_finite_differences(four_users):
    """One cluster, the map from its values to those after the shift, with the copy as it is."""
    study, state = four_users.study, two_stories(four_users)
    whole = path_of(study, state, 0)[:1].copy()
    visits = first_visits(whole)
    leave = open_path(state, whole, visits, included(four_users.pool, "SE0", "PER0 x SE0"))
    stay = open_path(state, whole, visits, np.zeros(len(NAMES), dtype=bool))
    rng = np.random.default_rng(0)
    state.h[leave] += rng.normal(size=state.h.shape[1])
    (own,) = stay
    places = [5, 6]

    def shifted(values):
        state.h[own, places], state.log_noise[own] = values[:2], values[2]
        log_jacobian = shift(study, state, stay, leave, visits, np.array([-0.6]))
        return np.append(state.h[own, places], state.log_noise[own]), log_jacobian

    at = rng.normal(size=3)
    centre, log_jacobian = shifted(at)
    columns = [(shifted(at + 1e-4 * step)[0] - centre) / 1e-4 for step in np.eye(3)]
    assert log_jacobian == pytest.approx(math.log(np.linalg.det(columns)), abs=1e-8)
    np.testing.assert_allclose(centre[0], at[0] - 0.6 * (state.h[leave[0], 7] - at[0]))
