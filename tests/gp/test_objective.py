"""The objective's terms are SciPy's densities, and its gradients are those of differences."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal, norm

from kem_pymc.gp.known_part import KnownPart
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.problem import normal_prior
from tests.gp.objectives import (
    COMPOSITIONS,
    coordinates,
    data,
    gradient,
    objective,
    scattered,
)
from tests.gp.problems import composition_covariance


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("text", COMPOSITIONS)
def test_gradient_equals_finite_differences(text, prior):
    problem = objective(text, prior)
    for values in scattered(problem, 3):
        numeric = approx_fprime(values, lambda v: sum(problem.terms(v)), 1e-6)
        np.testing.assert_allclose(gradient(problem, values), numeric, rtol=1e-3, atol=1e-3)


class Shared:
    """A mean function of two features with a covariance of its own, and noise that varies."""

    def mean(self, x):
        return x @ np.array([1.0, -0.5])

    def covariance(self, x, z):
        return 0.3 + 0.2 * x @ z.T

    def noise_factors(self, x):
        return np.exp(x[:, 1])


def test_what_is_known_moves_the_targets_and_adds_its_covariance():
    """Catches a mean that is added; a covariance, known noise or noise's factors left out."""
    where, (x, y) = coordinates("LIN0 x SE1 + PER1"), data(0)
    own = np.linspace(0.0, 2.0, len(y))
    problem = Objective(where, x, y, known=KnownPart(Shared(), x, own))
    for values in scattered(problem, 3):
        named, noise = where.named(values)
        gram = composition_covariance(where.composition, named, x, x)
        gram += noise * np.diag(np.exp(x[:, 1]))
        law = multivariate_normal(Shared().mean(x), gram + Shared().covariance(x, x) + np.diag(own))
        likelihood, density = problem.terms(values)
        assert likelihood == pytest.approx(law.logpdf(y), abs=1e-8)
        assert density == 0.0
    np.testing.assert_array_equal(problem.targets, y)


def test_another_prior_leaves_the_likelihood_and_the_original_alone():
    problem, values = objective("LIN0", prior=True), np.array([0.1, -0.2, 0.3])
    problem.curvatures[b""] = 0.0, np.zeros(3), np.eye(3)
    likelihood, density = problem.terms(values)
    other = problem.with_prior(normal_prior(np.ones(3), np.full(3, 0.5)))
    by_hand = norm(1.0, 0.5).logpdf(values).sum()
    assert other.terms(values) == pytest.approx((likelihood, by_hand), abs=1e-12)
    assert other.curvatures == {}
    assert problem.terms(values) == (likelihood, density)
    assert list(problem.curvatures) == [b""]


def test_the_callers_arrays_are_copied():
    x, y = data(0)
    problem = Objective(coordinates("LIN0"), x, y)
    before = problem.terms(np.zeros(3))
    x[:], y[:] = 7.0, 7.0
    assert problem.terms(np.zeros(3)) == before


def test_heights_alone_have_the_same_bits():
    problem = objective("LIN0 + PER0", prior=True)
    points = np.vstack([scattered(problem, 4), np.full(len(problem.coordinates), 1e3)])
    np.testing.assert_array_equal(problem.heights(points), problem.evaluate(points)[0])
