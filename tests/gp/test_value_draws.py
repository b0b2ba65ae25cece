"""Draws of values: predictions that average over them know how little is known."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.evidence import DRAWS, LARGEST, draw_values
from kem_pymc.gp.fit import MANY, fit
from kem_pymc.gp.mixture import Mixture
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.problem import normal_prior
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool

POOL = CandidatePool(["LIN0", "SE0"], 1)


def objective(composition, y, centre=None, spread=1.0, floor=1e-4):
    coordinates = Coordinates(POOL, Composition.parse(composition, 1))
    k = len(coordinates)
    prior = None if centre is None else normal_prior(np.full(k, centre), np.full(k, spread))
    return Objective(coordinates, np.linspace(0, 1, len(y))[:, None], y, prior, floor)


def test_noise_of_few_points_is_as_uncertain_as_it_is():
    """Against quadrature; the fitted values alone are off by more than .4 where it matters.

    Quantiles would be off by .05 and .13 if draws of the noise reached as far as Laplace's
    approximation, and by .09 and .20 without their mirror images.
    """
    y = np.array([0.3, -0.9, 0.5])
    problem = objective("WHITE", y, 0.0, 1.5)
    fitted = fit(problem, [np.zeros(1)])
    values, weights, _ = draw_values(problem, fitted)
    assert values.shape == (2 * DRAWS, 1)
    assert weights.sum() == pytest.approx(1)
    grid = np.linspace(-6, 8, 2001)
    terms = np.array([sum(problem.terms(np.array([v]))) for v in grid])
    exact, drawn = (
        Mixture(shares, np.zeros((len(shares), 1)), np.exp(logs / 2)[:, None])
        for shares, logs in [(np.exp(terms - logsumexp(terms)), grid), (weights, values[:, 0])]
    )
    for new in (0.0, 2.0):
        there = np.array([new])
        assert drawn.log_density(there) == pytest.approx(exact.log_density(there), abs=0.1)
    alone = norm.logpdf(2.0, scale=np.exp(fitted.values[0] / 2))
    assert abs(alone - exact.log_density(there)) > 0.4
    for probability, error in [(0.975, 0.03), (0.995, 0.07)]:
        width = exact.quantile(probability)
        assert drawn.quantile(probability) == pytest.approx(width, rel=error)


def test_draws_beyond_the_noise_floor_count_as_one_at_it():
    """Values that are equal have equal weights, however far beyond the floor they were drawn."""
    problem = objective("WHITE", np.array([0.1, -0.2, 0.1]), -3.0, 1.0, floor=0.05)
    values, weights, _ = draw_values(problem, fit(problem, [np.zeros(1)]))
    at_floor = weights[values[:, 0] == np.log(0.05)]
    assert len(at_floor) > 4
    np.testing.assert_allclose(at_floor, at_floor[0])


def test_draws_have_the_posterior_s_moments():
    """Of eight draws: a factor 1.5 in a standard deviation would show, or half of one in a mean."""
    rng = np.random.default_rng(5)
    x = np.linspace(0, 1, 60)
    problem = objective("SE0", np.sin(6 * x) + 0.2 * rng.standard_normal(60), -0.5)
    fitted = fit(problem, [np.full(3, -0.5)])
    values, weights, _ = draw_values(problem, fitted)
    heavy = rng.multivariate_normal(fitted.values, 0.5 * np.eye(3), size=40_000)
    heights, _ = problem.evaluate(heavy)
    terms = heights + ((heavy - fitted.values) ** 2).sum(axis=1)
    exact = np.exp(terms - logsumexp(terms))
    mean, drawn = exact @ heavy, weights @ values
    sd = np.sqrt(exact @ (heavy - mean) ** 2)
    np.testing.assert_allclose(drawn / sd, mean / sd, atol=0.5)
    ratios = np.sqrt(weights @ (values - drawn) ** 2) / sd
    assert ratios.min() > 1 / 1.5
    assert ratios.max() < 1.5


def test_no_draw_has_noise_below_the_floor():
    problem = objective("LIN0", np.linspace(-1, 1, 12), -3.0, 3.0, floor=0.01)
    values, _, _ = draw_values(problem, fit(problem, [np.full(3, -1.0)]))
    assert values[:, -1].min() == pytest.approx(np.log(0.01))


def test_a_trend_of_many_points_is_one_trend():
    """Its amplitude is known from one slope: prior precision 1, and 1/2 from the slope."""
    slope = np.exp(-0.5)
    problem = objective("LIN0", np.linspace(-slope, slope, MANY), -1.0)
    values, weights, _ = draw_values(problem, fit(problem, [np.full(3, -1.0)]))
    sd = np.sqrt(weights @ (values[:, 0] - weights @ values[:, 0]) ** 2)
    assert sd == pytest.approx(1.5**-0.5, rel=0.25)


@pytest.mark.parametrize(("n", "centre"), [(12, None), (LARGEST + 1, -1.0)])
def test_fitted_values_stand_alone_without_a_prior_or_with_many_points(n, centre):
    """Without a prior the posterior may be improper: draws would be anywhere."""
    problem = objective("LIN0", np.linspace(-1, 1, n), centre)
    fitted = fit(problem, [np.full(3, -1.0)])
    values, weights, _ = draw_values(problem, fitted)
    np.testing.assert_array_equal(values, fitted.values[None])
    assert weights.tolist() == [1.0]
