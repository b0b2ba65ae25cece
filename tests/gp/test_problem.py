"""Log likelihood, log prior and gradient of compiled problems."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import lognorm, multivariate_normal, norm

from kem_pymc.gp.objective import Objective
from kem_pymc.gp.problem import (
    evaluate,
    evaluate_all,
    flat_prior,
    log_prior,
    noise_log_prior,
    normal_prior,
)
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection.scorer import study_prior
from tests.gp.objectives import coordinates, data, objective, stand_in_priors
from tests.gp.problems import composition_covariance


def test_flat_prior_is_density_one():
    problem = objective("SE0")
    assert problem.terms(np.zeros(3))[1] == 0.0
    assert Objective(problem.coordinates, *data(0), flat_prior(3)).terms(np.zeros(3))[1] == 0.0


CENTRE, SPREAD = np.array([0.2, -0.3, 0.5, 0.1, 1.0, -0.4]), np.array([1, 0.5, 2, 0.7, 1, 0.3])
STARTS = np.array([0, 5, 12, 20])


@pytest.fixture
def several():
    """Three data sets with weights of their points and a mean process, under LIN0 + PER0."""
    made = objective("LIN0 + PER0").with_prior(normal_prior(CENTRE, SPREAD)).problem
    weights = np.random.default_rng(3).uniform(0, 2, 20)
    x = made.x.T
    known = np.zeros((20, 8))
    for a, b in itertools.pairwise(STARTS):
        known[a:b, : b - a] = np.triu(0.3 + 0.1 * x[a:b] @ x[a:b].T)
    factors = np.linspace(0.5, 2.0, 20)
    return made._replace(weights=weights, starts=STARTS, known=known, factors=factors)


def terms_by_hand(problem, values):
    """Weighted conditional log densities of every data set; log densities of natural values."""
    where = coordinates("LIN0 + PER0")
    named, noise = where.named(values)
    likelihood = 0.0
    for a, b in itertools.pairwise(STARTS):
        x, y = problem.x.T[a:b], problem.y[a:b]
        gram = composition_covariance(where.composition, named, x, x)
        gram += noise * np.diag(problem.factors[a:b])
        gram += 0.3 + 0.1 * x @ x.T
        prefixes = [
            multivariate_normal(None, gram[:n, :n]).logpdf(y[:n]) for n in range(1, b - a + 1)
        ]
        likelihood += problem.weights[a:b] @ np.diff(prefixes, prepend=0.0)
    density = 0.0
    for value, positive, centre, spread in zip(values, where.positive, CENTRE, SPREAD, strict=True):
        if positive:  # the density of a natural value, times the derivative of exp
            density += lognorm(spread, scale=math.exp(centre)).logpdf(math.exp(value)) + value
        else:
            density += norm(centre, spread).logpdf(value)
    return likelihood, density


@pytest.mark.parametrize("seed", range(3))
def test_terms_and_gradient_of_several_data_sets(several, seed):
    """Catches data sets that are correlated, weights of another data set, a lost constant."""
    values = np.random.default_rng(seed).normal(0, 0.5, 6)
    gradient = np.full(6, np.nan)
    found = evaluate(several, values, gradient)
    assert found == pytest.approx(terms_by_hand(several, values), abs=1e-9)
    step, room = 1e-5, np.empty(6)
    differences = [
        (
            sum(evaluate(several, values + step * e, room))
            - sum(evaluate(several, values - step * e, room))
        )
        / (2 * step)
        for e in np.eye(6)
    ]
    np.testing.assert_allclose(gradient, differences, rtol=1e-7, atol=1e-7)


def test_many_points_are_evaluated_one_by_one(several):
    points = np.random.default_rng(4).normal(0, 0.5, (3, 6))
    heights, gradients, room = np.empty(3), np.empty((3, 6)), np.empty(6)
    evaluate_all(several, points, heights, gradients)
    for point, height, gradient in zip(points, heights, gradients, strict=True):
        assert sum(evaluate(several, point, room)) == height
        np.testing.assert_array_equal(gradient, room)


@pytest.mark.parametrize("impossible", ["likelihood", "prior"])
def test_what_is_impossible_has_no_gradient(impossible):
    """Catches a term that stays finite beside one that doesn't: the search would follow it."""
    problem, values = objective("LIN0").problem, np.zeros(3)
    if impossible == "likelihood":
        problem = problem._replace(y=problem.y + 1e200)  # its square overflows
    else:
        prior = study_prior(stand_in_priors(), coordinates("LIN0"), Composition())
        problem, values = problem._replace(prior=prior), np.array([3.5, 0.0, 0.0])
    gradient = np.ones(3)
    assert evaluate(problem, values, gradient) == (-math.inf, 0.0)
    assert not gradient.any()


def test_gradients_of_priors_are_added():
    values, gradient = np.arange(6.0), np.full(6, 10.0)
    density = log_prior(normal_prior(CENTRE, SPREAD), values, gradient)
    assert density == pytest.approx(norm(CENTRE, SPREAD).logpdf(values).sum(), abs=1e-12)
    np.testing.assert_allclose(gradient, 10 - (values - CENTRE) / SPREAD**2, rtol=1e-14)


def test_priors_of_the_noise_alone():
    log_noises, out = np.array([-3.0, 0.0, 2.0]), np.empty(3)
    noise_log_prior(normal_prior(CENTRE, SPREAD), log_noises, out)
    np.testing.assert_allclose(out, norm(-0.4, 0.3).logpdf(log_noises), rtol=0, atol=1e-12)
    noise_log_prior(flat_prior(6), log_noises, out)
    assert not out.any()
    parent = Composition.parse("LIN0 + SE1", 2)
    prior = study_prior(stand_in_priors(), coordinates("LIN0"), parent)
    noise_log_prior(prior, log_noises, out)
    np.testing.assert_allclose(out, -0.5 * (log_noises - 2) ** 2, rtol=0, atol=1e-12)
