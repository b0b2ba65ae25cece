"""Calibrated intervals: ranks of scores, whose users count and not their rows."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from kem_pymc.gp import calibration
from kem_pymc.gp.calibration import LEVELS, NORMAL, Calibration, calibrated, reach, score
from kem_pymc.gp.prediction import Prediction


@pytest.mark.parametrize("n", [19, 24, 60])
def test_one_row_of_each_user_is_covered_as_often_as_ranks_say(n):
    """A new score is below the k-th of n with probability k / (n + 1), of any distribution."""
    rng = np.random.default_rng(n)
    ranks = [math.ceil(level * (n + 1) - 1e-9) for level in LEVELS]
    covered = []
    for _ in range(2000):
        scores = rng.uniform(size=n)
        found = reach(scores, np.arange(n))
        assert found.tolist() == np.sort(scores)[np.array(ranks) - 1].tolist()
        covered.append(rng.uniform() <= found)
    expected = np.array(ranks) / (n + 1)
    errors = np.sqrt(expected * (1 - expected) / 2000)
    assert (np.abs(np.mean(covered, axis=0) - expected) < 4 * errors).all()


def test_users_count_and_not_their_rows():
    """Rows that are the same add nothing, however many a user has; independent ones add much."""
    rng = np.random.default_rng(0)
    scores = np.abs(rng.normal(size=30))
    times = rng.integers(1, 9, 30)
    same = reach(np.repeat(scores, times), np.repeat(np.arange(30), times))
    assert same.tolist() == reach(scores, np.arange(30)).tolist()
    independent = np.abs(rng.normal(size=5000))
    assert reach(independent, np.arange(5000) % 10) == pytest.approx(NORMAL, abs=0.1)


def test_between_users_who_differ_a_new_user_is_covered():
    """Plain quantiles of all rows cover 93.3 % here; with users for rows, it is above 99 %."""
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(300):
        scales = 0.1 * np.exp(rng.normal(0, 1.5, 11))
        rows = np.abs(scales[:, None] * rng.normal(size=(11, 20)))
        found = reach(rows[:10].ravel(), np.repeat(np.arange(10), 20))
        covered.append((rows[10][:, None] <= found).mean(axis=0))
    assert 0.95 < np.mean(covered, axis=0)[-1] < 0.98


def test_intervals_that_are_too_narrow_are_repaired():
    """Half the sd: intervals become twice as wide, and nothing but quantiles changes."""
    rng = np.random.default_rng(2)
    y = rng.normal(size=2000)
    predicted = Prediction.of(np.zeros(2000), np.full(2000, 0.5), include_noise=True)
    below = predicted.observation.cdf(y)
    learned = Calibration.of(score(below, below), np.arange(2000) % 50, np.ones(2000))
    repaired = replace(predicted, reaches=learned.at(1))
    for level in LEVELS:
        low, high = (repaired.quantile(p) for p in ((1 - level) / 2, (1 + level) / 2))
        expected = 2 * stats.norm.ppf((1 + level) / 2)
        assert high - low == pytest.approx(np.full(2000, expected), rel=0.1)
    new = rng.normal(size=2000)
    assert 0.93 < ((low < new) & (new < high)).mean() < 0.97
    assert (predicted.quantile(0.975) < 1).all()
    assert (repaired.sd == predicted.sd).all()
    assert (repaired.log_predictive_density(y) == predicted.log_predictive_density(y)).all()


def test_with_few_users_the_largest_score_is_extrapolated_by_a_normal_distribution():
    """By hand: 4 users, so that the largest is the quantile of 80 %."""
    scores = np.array([0.3, 1.0, 2.0, 0.7])
    found = reach(scores, np.arange(4))
    assert found == pytest.approx([1.0, 2.0, 2.0 * stats.norm.ppf(0.975) / stats.norm.ppf(0.9)])


def test_a_target_is_in_its_interval_exactly_if_its_score_is_reached():
    """Fails where ends of intervals of whole numbers don't belong to them."""
    counts = stats.poisson(3.3)
    y = np.arange(15)
    found = score(counts.cdf(y - 1), counts.cdf(y))
    for probability in (0.5, 0.8, 0.95, 0.99):
        low, high = counts.ppf([(1 - probability) / 2, (1 + probability) / 2])
        inside = (y >= low) & (y <= high)
        assert (found <= stats.norm.ppf((1 + probability) / 2)).tolist() == inside.tolist()
    assert score(np.array([0.975]), np.array([0.975])) == pytest.approx(NORMAL[-1])


def test_quantiles_have_other_probabilities():
    for p in (1e-9, 0.01, 0.2, 0.5, 0.9, 0.999):
        assert calibrated(p, tuple(NORMAL)) == pytest.approx(p, rel=1e-6)
        assert calibrated(p, (0.0, 1.0, 2.0)) == pytest.approx(1 - calibrated(1 - p, (0, 1, 2)))
    assert calibrated(0.975, (0.3, 1.0, 2.5)) == pytest.approx(stats.norm.cdf(2.5))
    assert calibrated(0.1, (0.3, 1.0, 2.5)) == pytest.approx(stats.norm.cdf(-1.0))
    further = stats.norm.ppf(0.999) * 2.5 / NORMAL[-1]
    assert calibrated(0.999, (0.3, 1.0, 2.5)) == pytest.approx(stats.norm.cdf(further))


def test_numbers_of_points_are_pooled_until_there_are_enough(monkeypatch):
    """By hand: 5 users of time steps of 2 points; the last steps are too few for a third group."""
    monkeypatch.setattr(calibration, "ENOUGH", 10)
    points = np.repeat([2, 4, 6, 8, 10], 5)
    users = np.tile(np.arange(5), 5)
    scores = np.where(points < 6, 1.0, 2.0)
    found = Calibration.of(np.repeat(scores, 3), np.repeat(users, 3), np.repeat(points, 3))
    assert (found.points, found.users) == ((2, 6), 5)
    assert found.at(1) == found.at(5) == found.reaches[0]
    assert found.at(6) == found.at(100) == found.reaches[1]
    assert found.reaches[0][0] == 1.0
    assert found.reaches[1][0] == 2.0
