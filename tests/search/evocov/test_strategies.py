"""Strategies on kernels whose BIC is given, in place of a fit."""

import math

import numpy as np
import pytest

from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.strategies import IMPROVEMENT, PATIENCE, RUNS, Evolution, PsdCheck


def fitted(offspring, bics):
    return [
        Individual(own.tree, np.nan_to_num(own.inherited, nan=1.0), -bic / 2, float(bic), {})
        for own, bic in zip(offspring, bics, strict=True)
    ]


@pytest.fixture
def evolution():
    rng = np.random.default_rng(0)
    return Evolution(PsdCheck(1, rng), rng, size=12, selected=3)


def test_the_best_are_selected_and_fitted_again(evolution):
    """Catches selection of the largest BIC, and offspring of kernels that weren't selected."""
    first = fitted(evolution.propose(), range(12, 0, -1))
    evolution.observe(first)
    second = evolution.propose()
    assert len(second) == 12
    assert [own.tree for own in second[:3]] == [own.tree for own in first[:-4:-1]]
    np.testing.assert_array_equal(second[0].inherited, first[-1].natural)


def test_a_worse_second_fit_of_a_selected_kernel_is_dropped(evolution):
    evolution.observe(fitted(evolution.propose(), [1, 2, 3] + 9 * [50]))
    best = evolution.parents[0]
    evolution.observe(fitted(evolution.propose(), [40, 40, 40, 0.5] + 8 * [50]))
    assert [own.bic for own in evolution.parents] == [0.5, 1, 2]
    assert evolution.parents[1] is best


@pytest.mark.parametrize("best", [1.0, 1 - 0.9 * IMPROVEMENT, math.inf])
def test_restarts_after_generations_without_improvement(evolution, best):
    """The next generation inherits nothing."""
    evolution.observe(fitted(evolution.propose(), [1.0] + 11 * [50]))
    for _ in range(PATIENCE):
        assert evolution.parents[0].bic <= 1.0
        evolution.observe(fitted(evolution.propose(), 3 * [60] + [best] + 8 * [50]))
    assert not evolution.parents
    assert all(np.isnan(own.inherited).all() for own in evolution.propose())
    evolution.observe(fitted(evolution.propose(), 12 * [math.inf]))
    assert not evolution.parents
    evolution.observe(fitted(evolution.propose(), 12 * [70]))  # compared with nothing before
    assert evolution.parents


def test_improvement_counts_from_the_last_one(evolution):
    """Small steps add up; nothing that is found on the way is lost."""
    evolution.observe(fitted(evolution.propose(), [-10.0] + 11 * [50]))
    step = 0.6 * IMPROVEMENT
    for best in (-10 - step, -10 - 2 * step, -10 - 2 * step - 1.1 * IMPROVEMENT):
        evolution.observe(fitted(evolution.propose(), [60, 60, 60, best] + 8 * [50]))
        assert evolution.parents[0].bic == best
    assert evolution.stalled == 0
    for _ in range(PATIENCE):
        assert evolution.parents
        evolution.observe(fitted(evolution.propose(), 12 * [best]))
    assert not evolution.parents


def test_the_best_kernels_of_several_runs_meet(evolution):
    """Catches a kernel of a run's last generation in place of its best one."""
    winners = []
    for run in range(RUNS):
        assert not evolution.parents
        first = fitted(evolution.propose(), [-run] + 11 * [50])
        winners.append(first[0])
        evolution.observe(first)
        for _ in range(PATIENCE):
            evolution.observe(fitted(evolution.propose(), 12 * [60]))
    assert evolution.parents == winners
    proposed = evolution.propose()
    assert [own.tree for own in proposed[:RUNS]] == [own.tree for own in winners]
    evolution.observe(fitted(proposed, [40] * RUNS + [-100] + (11 - RUNS) * [50]))
    assert [own.bic for own in evolution.parents] == [-100, 1 - RUNS, 2 - RUNS]
    for _ in range(PATIENCE):
        evolution.observe(fitted(evolution.propose(), 12 * [60]))
    assert not evolution.parents  # its winner is the first of the next ones
