"""Random walks: the ratio, the steps, and the way back."""

import numpy as np
import pytest

from kem_pymc.sampler.moves import hyperparameters, kernel_change
from kem_pymc.sampler.moves.hyperparameters import LARGEST_STEP, SMALLEST_STEP, random_scale
from kem_pymc.sampler.state import HYPERPARAMETERS
from tests.sampler.moves.by_hand import log_change, seated, unchanged, unit
from tests.sampler.moves.decisions import Decisions
from tests.states import copy_state

LABELS = ["abc", "ad", "abc"]
COMPOSITIONS = {"a": ["LIN0"], "b": ["SE0", "LIN0 x PER0"], "c": [], "d": ["LIN0", "SE0"]}


@pytest.fixture
def walk(interpret):
    interpret(hyperparameters, kernel_change)
    return hyperparameters.random_walk


@pytest.mark.parametrize("step", [0.0, 0.1], ids=["random scale", "the paper's"])
def test_ratios_are_those_of_the_joint_density_there_and_back(engine, model, walk, step):
    """Without a term of the prior, a member or the power, a ratio would be off by 0.1 or more."""
    state = seated(engine, LABELS, COMPOSITIONS, model=model)
    for seed in range(40):
        cluster = state.assignment[seed % len(state.assignment)]
        before, rng = copy_state(state), Decisions(seed)
        assert walk(model, state, cluster, step, rng)
        (there,) = rng.log_ratios
        assert there == pytest.approx(log_change(model, before, state), abs=1e-8)

        after = copy_state(state)
        reverse = Decisions(0, uniforms=rng.drawn, normals=[-z for z in rng.stepped])
        assert walk(model, state, cluster, step, reverse)
        np.testing.assert_allclose(
            state.theta_unconstrained, before.theta_unconstrained, atol=1e-12
        )
        (back,) = reverse.log_ratios
        assert back == pytest.approx(log_change(model, after, state), abs=1e-8)
        assert there + back == pytest.approx(0, abs=1e-8)


def test_what_is_rejected_changes_nothing(engine, model, walk):
    state = seated(engine, LABELS, COMPOSITIONS, model=model)
    before = copy_state(state)
    for seed in range(20):
        assert not walk(model, state, state.assignment[0], 0.0, Decisions(seed, answers=[False]))
        assert unchanged(before, state)
    assert state.proposed[HYPERPARAMETERS] == 20
    assert state.accepted[HYPERPARAMETERS] == 0


def test_an_impossible_value_is_rejected_without_a_likelihood(engine, model, walk):
    state = seated(engine, LABELS, COMPOSITIONS, model=model)
    before = copy_state(state)
    rng = Decisions(0, normals=[1e200] * 3)
    assert not walk(model, state, state.assignment[0], 0.1, rng)
    assert unchanged(before, state)
    assert not rng.log_ratios


def test_steps_are_of_one_coordinate_or_all_in_units_of_their_priors(engine, model, walk):
    """The scale, the units and the choice don't depend on the values, so steps are symmetric."""
    chosen, jointly = [], 0
    for seed in range(150):
        state = seated(engine, LABELS, COMPOSITIONS, model=model)
        cluster = state.assignment[1]  # 2 values of SE0, 4 of the product, and the noise
        before, rng = copy_state(state), Decisions(seed)
        walk(model, state, cluster, 0.0, rng)
        scale = SMALLEST_STEP * (LARGEST_STEP / SMALLEST_STEP) ** rng.drawn[0]
        units = np.array([unit(engine, p) for p in range(2, 8)] + [1.0])
        step = np.append(
            state.theta_unconstrained[cluster] - before.theta_unconstrained[cluster],
            state.log_noise[cluster],
        )[2:]
        step[-1] -= before.log_noise[cluster]
        if len(rng.stepped) == 1:
            (place,) = np.flatnonzero(step)
            assert step[place] == pytest.approx(scale * units[place] * rng.stepped[0])
            chosen.append(place)
        else:
            np.testing.assert_allclose(step, scale / np.sqrt(7) * units * rng.stepped)
            jointly += 1
    assert abs(jointly / 150 - 0.3) < 4.5 * np.sqrt(0.21 / 150)
    counts = np.bincount(chosen, minlength=7)
    assert (abs(counts - counts.mean()) < 4.5 * np.sqrt(counts.mean())).all()


def test_the_papers_steps_move_all_coordinates_alike(engine, model, walk):
    state = seated(engine, LABELS, COMPOSITIONS, model=model)
    cluster = state.assignment[1]
    before, rng = copy_state(state), Decisions(1)
    walk(model, state, cluster, 0.1, rng)
    step = [
        *(state.theta_unconstrained[cluster] - before.theta_unconstrained[cluster])[2:],
        state.log_noise[cluster] - before.log_noise[cluster],
    ]
    np.testing.assert_allclose(step, 0.1 * np.array(rng.stepped))


def test_scales_are_log_uniform():
    rng = np.random.default_rng(0)
    scales = np.array([random_scale(rng) for _ in range(2000)])
    shares = np.log(scales / SMALLEST_STEP) / np.log(LARGEST_STEP / SMALLEST_STEP)
    counts = np.histogram(shares, 10, (0, 1))[0]
    assert counts.sum() == 2000
    assert (abs(counts - 200) < 4.5 * np.sqrt(180)).all()
