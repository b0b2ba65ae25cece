"""Calibrated intervals: quantiles of scores, in which users count and not their rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from kem_pymc.gp.calibration import DEGREES, FURTHEST, LEVELS, NORMAL, Calibration, score
from kem_pymc.gp.mixture import Mixture
from kem_pymc.gp.prediction import Prediction


def shares_within(reaches, scores, users):
    """Return the shares of the users' and the new user's scores within each reach."""
    own = [np.mean(scores[users == u][:, None] <= reaches, axis=0) for u in np.unique(users)]
    new = stats.t(DEGREES).cdf(reaches) - stats.t(DEGREES).cdf(-np.array(reaches))
    return (np.sum(own, axis=0) + new) / (len(own) + 1)


@pytest.mark.parametrize("n", [1, 6, 40])
def test_reaches_are_the_smallest_within_which_the_shares_are(n):
    rng = np.random.default_rng(n)
    users = np.repeat(np.arange(n), rng.integers(1, 9, n))
    scores = np.round(np.abs(rng.normal(size=len(users))), 1)  # with ties
    reaches = Calibration.of(scores, users).reaches
    assert (shares_within(reaches, scores, users) > LEVELS - 1e-9).all()
    assert (shares_within(np.array(reaches) - 1e-6, scores, users) < LEVELS).all()


def test_users_count_and_not_their_rows():
    """Rows that are the same add nothing, however many a user has."""
    rng = np.random.default_rng(0)
    scores, times = np.abs(rng.normal(size=30)), rng.integers(1, 9, 30)
    same = Calibration.of(np.repeat(scores, times), np.repeat(np.arange(30), times))
    assert same.reaches == pytest.approx(Calibration.of(scores, np.arange(30)).reaches)


@pytest.mark.parametrize("sd", [0.5, 1.0, 1.5])
def test_intervals_of_a_wrong_width_are_repaired(sd):
    """20 pilot users of 5 rows, who differ: .93 to .97 of new users' targets are covered.

    Of uncalibrated intervals it is .69, .94 and .99. If the sd is right, intervals become wider by
    less than 10 %. Nothing but quantiles changes.
    """
    rng = np.random.default_rng(2)
    users, widths, covered = np.repeat(np.arange(20), 5), [], []
    for _ in range(300):
        y = rng.normal(size=(2, 100)) * np.repeat(np.exp(rng.normal(0, 0.2, (2, 20))), 5, axis=1)
        predicted = Prediction.of(np.zeros(100), np.full(100, sd), include_noise=True)
        below = predicted.observation.cdf(y[0])
        calibration = Calibration.of(score(below, below), users)
        repaired = replace(predicted, calibration=calibration)
        low, high = repaired.quantile(0.025), repaired.quantile(0.975)
        covered.append((low <= y[1]) & (y[1] <= high))
        widths.append((high - low)[0] / (2 * sd * NORMAL[-1]))
    assert 0.93 < np.mean(covered) < 0.97
    if sd == 1:
        assert np.mean(widths) < 1.1
    assert (repaired.sd == predicted.sd).all()
    assert (repaired.log_predictive_density(y[1]) == predicted.log_predictive_density(y[1])).all()


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
    right, wide = Calibration(tuple(NORMAL), 9), Calibration((0.3, 1.0, 2.5), 9)
    for p in (1e-9, 0.01, 0.2, 0.5, 0.9, 0.999):
        assert right.probability(p) == pytest.approx(p, rel=1e-6)
        assert wide.probability(p) == pytest.approx(1 - wide.probability(1 - p))
    assert wide.probability(0.975) == pytest.approx(stats.norm.cdf(2.5))
    assert wide.probability(0.1) == pytest.approx(stats.norm.cdf(-1.0))
    further = stats.norm.ppf(0.999) * 2.5 / NORMAL[-1]
    assert wide.probability(0.999) == pytest.approx(stats.norm.cdf(further))


def test_far_targets_of_mixtures_have_scores():
    """Weights that add up to more than one by rounding gave P(Y <= y) above one, which has none."""
    mixture = Mixture(np.full(5, 0.2) * (1 + 5e-16), np.zeros((5, 1)), np.ones((5, 1)))
    assert mixture.weights @ np.ones(5) > 1
    until = mixture.cdf(np.array([40.0]))
    assert score(until, until) == FURTHEST
