"""Expected improvement."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from kem_pymc.gp.acquisition import expected_improvement, log_expected_improvement


def test_against_monte_carlo():
    """Catches an improvement on the largest value, and a standard deviation taken as a variance."""
    rng = np.random.default_rng(0)
    mean, sd = np.array([0.3, -0.5, 2.0, 0.0]), np.array([0.7, 0.2, 1.5, 0.05])
    drawn = mean + sd * rng.normal(size=(400_000, 4))
    exact = np.maximum(0.1 - drawn, 0).mean(axis=0)
    np.testing.assert_allclose(expected_improvement(mean, sd, 0.1), exact, rtol=0.02)


@pytest.mark.parametrize("z", [2.0, 0.1, -0.1, -3.0, -10.0, -24.9, -25.1, -60.0])
def test_logarithm_far_from_the_best(z):
    """By quadrature, relative to the density at the best value."""
    exact, _ = quad(lambda u: u * np.exp(z * u - u**2 / 2), 0, np.inf)
    expected = norm.logpdf(z) + np.log(exact)
    found = log_expected_improvement(np.array([-z]), np.array([1.0]), 0.0)
    np.testing.assert_allclose(found, expected, rtol=1e-4 if z > -25 else 2e-5)


def test_certain_values():
    found = expected_improvement(np.array([-1.0, 1.0]), np.zeros(2), 0.0)
    np.testing.assert_allclose(found, [1.0, 0.0], atol=1e-9)
