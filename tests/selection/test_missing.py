"""Predictions where features are missing: mixtures over pilot users' distribution of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from kem_pymc.data.feature_distribution import FeatureDistribution, Margin
from kem_pymc.data.scaling import Scaling
from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.population.design import Design, Feature, Term
from kem_pymc.population.mean_process import MeanProcess
from kem_pymc.selection.kem import KEMSelector
from tests.refusals import refused

POOL = CandidatePool(["SE0", "LIN1", "SE1"], dimension=3)
VALUES = {
    **{"SE0.amplitude": 1.0, "SE0.lengthscale": 0.5, "LIN1.amplitude": 2.0, "LIN1.shift": 0.2},
    **{"SE1.amplitude": 2.0, "SE1.lengthscale": 0.4},
}
SCALING = Scaling(np.array([0.0, 10, 0]), np.array([10.0, 30, 1]), 5.0, 2.0)

#: Correlation of a dose with a score; both are normal: N(20, 5^2) and N(0.5, 0.2^2).
RHO = 0.8
GRID = stats.norm.ppf((np.arange(10_000) + 0.5) / 10_000)


def distribution():
    """Return the distribution of week, dose and score; weeks are independent of both."""
    weights = np.full(len(GRID), 1 / len(GRID))
    margins = {
        name: Margin.of(mean + sd * GRID, weights)
        for name, mean, sd in (("week", 5, 2), ("dose", 20, 5), ("score", 0.5, 0.2))
    }
    covariance = np.array([[1, 0, 0], [0, 1, RHO], [0, RHO, 1]])
    cell = np.empty((1, 0)), np.ones(1), np.zeros((1, 3))
    return FeatureDistribution(("week", "dose", "score"), margins, *cell, covariance, "week")


def selection(*children, shared=None, scaling=SCALING, stored=True):
    """Select for a user of 12 points among compositions, which are all likely."""
    clusters = [
        Cluster(0, Composition(), c, 3, tuple(Coordinates(POOL, c).from_named(VALUES, 0.05)))
        for c in map(Composition.parse, children)
    ]
    learned = Evolutions(
        pool=POOL,
        scaling=scaling,
        features=("week", "dose", "score"),
        target="steps",
        clusters=tuple(clusters),
        n_draws=1,
        shared=shared,
        distribution=distribution() if stored else None,
    )
    rng = np.random.default_rng(0)
    x = np.column_stack([np.arange(12.0), rng.normal(20, 5, 12), rng.normal(0.5, 0.2, 12)])
    y = 5 + 0.3 * (x[:, 1] - 20) + rng.normal(0, 0.4, 12)
    return KEMSelector(learned).select(x, y)


#: How far sds may be off because 64 bins and 64 nodes stand for a normal distribution.
BINS = 0.01

MISSING = np.array([[12.0, np.nan, 0.7]])


def given_score(score):
    """Mean and sd of the dose given the score, in closed form."""
    return 20 + 5 * RHO * (score - 0.5) / 0.2, 5 * np.sqrt(1 - RHO**2)


def test_moments_of_a_linear_effect_are_those_in_closed_form():
    """Given the dose, the mean is linear in it and the variance quadratic.

    The law of total variance then has the moments of a normal distribution. Power: the mean dose
    (20), or the right one without its variance, gives other means or sds.
    """
    chosen = selection("SE0 + LIN1")
    for single in (True, False):
        got = chosen.predict(MISSING, include_noise=True, single=single)
        doses = np.array([15.0, 20.0, 25.0])
        at = chosen.predict([[12.0, d, 0.7] for d in doses], include_noise=True, single=single)
        line, square = np.polyfit(doses, at.mean, 1), np.polyfit(doses, at.sd**2 + at.mean**2, 2)
        mean, sd = given_score(0.7)
        assert got.mean == pytest.approx(np.polyval(line, mean), rel=1e-3)
        second = np.polyval(square, mean) + square[0] * sd**2
        assert got.sd == pytest.approx(np.sqrt(second - got.mean**2), rel=BINS)
        fixed = chosen.predict([[12.0, mean, 0.7]], include_noise=True, single=single)
        assert got.sd > 1.5 * fixed.sd
        assert got.components["LIN1"].sd > fixed.components["LIN1"].sd


def test_distributions_are_those_of_a_large_monte_carlo_average():
    chosen = selection("SE1", "SE0 + LIN1", "LIN1")
    assert len({str(row.composition) for row in chosen.considered}) == 3
    x = np.array([[3.0, 18, 0.2], *MISSING, [12.0, np.nan, np.nan]])
    got = chosen.predict(x, include_noise=True)
    rng = np.random.default_rng(1)
    for row, (mean, sd) in ((1, given_score(0.7)), (2, (20, 5))):
        doses = rng.normal(mean, sd, 20_000)
        at = chosen.predict(np.column_stack([np.full((20_000, 1), 12.0), doses, doses]), True)
        assert got.mean[row] == pytest.approx(at.mean.mean(), rel=0.01)
        total = np.sqrt((at.sd**2 + at.mean**2).mean() - at.mean.mean() ** 2)
        assert got.sd[row] == pytest.approx(total, rel=0.02)
        for y in got.mean[row] + got.sd[row] * np.array([-1.5, 0, 1]):
            density = np.exp(at.log_predictive_density(np.full(20_000, y))).mean()
            here = got.log_predictive_density(np.full(3, y))[row]
            assert here == pytest.approx(np.log(density), abs=0.05)
            below = at.observation.cdf(np.full(20_000, y)).mean()
            assert got.observation.cdf(np.full(3, y))[row] == pytest.approx(below, abs=0.01)
    # A row that lacks nothing is predicted as without the others.
    alone = chosen.predict(x[:1], include_noise=True)
    assert (got.mean[0], got.sd[0]) == pytest.approx((alone.mean[0], alone.sd[0]), rel=1e-12)
    assert got.quantile(0.025)[0] == pytest.approx(alone.quantile(0.025)[0], rel=1e-9)


@pytest.mark.parametrize("value", [-7.0, 0.0, 1e6])
def test_features_that_nothing_uses_do_not_matter_to_the_last_bit(value):
    chosen = selection("SE0", "SE0 + LIN1")
    at, lacking = [[12.0, 22.0, value]], [[12.0, 22.0, np.nan]]
    for single in (True, False):
        one, other = (chosen.predict(x, single=single) for x in (at, lacking))
        np.testing.assert_array_equal((one.mean, one.sd), (other.mean, other.sd))
        assert one.function.mean.shape == other.function.mean.shape


def test_a_feature_that_only_the_shared_mean_uses_is_integrated():
    features = tuple(
        Feature.given(n, [], (), 0.5, 0.3, 0.0, 1.0) for n in ("week", "dose", "score")
    )
    terms = tuple(map(Term.parse, ("level", "score")))
    shared = MeanProcess(Design(features, terms, {}), {}, np.array([0.0, 3.0]), np.zeros((2, 2)))
    chosen = selection("SE0", shared=shared)
    row = [[12.0, np.nan, np.nan]]
    got = chosen.predict(row)
    at = chosen.predict([[12.0, 0, 0.5]])
    # The slope is 3 / .3 in scaled units, the sd of the score .2 and the unit of the target 2.
    assert got.mean == pytest.approx(at.mean, abs=1e-3)
    assert got.sd == pytest.approx(np.hypot(at.sd, 2 * 3 / 0.3 * 0.2), rel=BINS)
    np.testing.assert_array_equal(chosen.predict([[12.0, np.nan, 0.5]]).mean, at.mean)


def test_what_cannot_be_integrated_is_refused():
    chosen = selection("SE0 + LIN1")
    refused(lambda: chosen.predict([[np.nan, 20, 0.5]]), "The time, week, is missing in row 0")
    refused(lambda: chosen.predict([[np.nan] * 3]), "The time, week, is missing in row 0")
    refused(lambda: chosen.predict([[1, np.inf, 0.5]]), "infinite")
    old = selection("SE0 + LIN1", stored=False)
    refused(lambda: old.predict(MISSING), "row 0", "Give the value", "Evolutions.from_posterior")
    untimed = replace(chosen, distribution=replace(distribution(), time=None))
    assert np.isfinite(untimed.predict([[np.nan] * 3]).sd).all()  # the marginal distribution


def test_transformed_targets_and_known_noise_stay_as_they_are():
    chosen = selection("SE0 + LIN1")
    got, more = chosen.predict(MISSING, True), chosen.predict(MISSING, True, noise=[3.0])
    assert more.sd == pytest.approx(np.hypot(got.sd, 3.0))
