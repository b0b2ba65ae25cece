"""Predictions equal a Gaussian process written out in NumPy."""

import numpy as np
import pytest
from scipy.stats import norm

from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.known_part import KnownPart
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.predict import SHARED, Conditioned
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from tests.gp.problems import HYPERPARAMETERS

POOL = CandidatePool(["LIN0", "SE1", "CONST", "LIN1 x PER0", "ARD"], dimension=2)
TEXT = "CONST + LIN0 + LIN1 x PER0 + SE1"
NOISE = 0.2


def level(x, z):
    return np.full((len(x), len(z)), 0.5)


def lin0(x, z):
    return 1.3 * (x[:, None, 0] - 0.4) * (z[None, :, 0] - 0.4)


def se1(x, z):
    return 0.8 * np.exp(-0.5 * ((x[:, None, 1] - z[None, :, 1]) / 0.7) ** 2)


def product(x, z):
    linear = (x[:, None, 1] + 0.3) * (z[None, :, 1] + 0.3)
    sine = np.sin(np.pi * (x[:, None, 0] - z[None, :, 0]) / 0.9)
    return 0.6 * linear * np.exp(-2 * (sine / 1.1) ** 2)


PARTS = {"CONST": level, "LIN0": lin0, "SE1": se1, "LIN1 x PER0": product}


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    x, x_new = rng.uniform(0, 2, (12, 2)), rng.uniform(0, 3, (7, 2))
    return x, rng.normal(size=12), x_new


def predicted(x, y, x_new, text=TEXT, **options):
    where = Coordinates(POOL, Composition.parse(text, 2))
    values = where.from_named(HYPERPARAMETERS | options.pop("also", {}), NOISE)
    return Conditioned.of(Objective(where, x, y), values).predict(x_new, **options)


def posterior(x, y, x_new, part):
    gram = sum(k(x, x) for k in PARTS.values()) + NOISE * np.eye(len(x))
    cross = part(x_new, x)
    mean = cross @ np.linalg.solve(gram, y)
    covariance = part(x_new, x_new) - cross @ np.linalg.solve(gram, cross.T)
    return mean, np.sqrt(np.diag(covariance))


def test_each_component_equals_the_closed_form(points):
    result, noisy = predicted(*points), predicted(*points, include_noise=True)
    assert set(result.components) == set(PARTS)
    total = sum(part.mean for part in result.components.values())
    np.testing.assert_allclose(total, result.mean, atol=1e-10)
    np.testing.assert_allclose(noisy.sd, np.sqrt(result.sd**2 + NOISE), atol=1e-10)
    np.testing.assert_array_equal(noisy.mean, result.mean)
    for label, part in PARTS.items():
        mean, sd = posterior(*points, part)
        np.testing.assert_allclose(result.components[label].mean, mean, atol=1e-10)
        np.testing.assert_allclose(result.components[label].sd, sd, atol=1e-10)


def test_known_noise_is_that_of_each_target(points):
    """Catches variances that are left out, squared twice, or given to new observations."""
    x, y, x_new = points
    where, own = Coordinates(POOL, Composition.parse(TEXT, 2)), np.linspace(0.0, 2.0, 12)
    problem = Objective(where, x, y, known=KnownPart.of(None, x, own))
    found = Conditioned.of(problem, where.from_named(HYPERPARAMETERS, NOISE)).predict(x_new)
    gram = sum(k(x, x) for k in PARTS.values()) + np.diag(NOISE + own)
    cross = sum(k(x_new, x) for k in PARTS.values())
    prior = sum(k(x_new, x_new) for k in PARTS.values())
    variance = np.diag(prior - cross @ np.linalg.solve(gram, cross.T))
    np.testing.assert_allclose(found.mean, cross @ np.linalg.solve(gram, y), atol=1e-10)
    np.testing.assert_allclose(found.sd, np.sqrt(variance), atol=1e-10)
    assert SHARED not in found.components
    new = found.given(np.linspace(0.0, 1.0, 7), None).observation
    np.testing.assert_allclose(new.sd[0] ** 2, variance + NOISE + np.linspace(0, 1, 7) ** 2)
    assert KnownPart.of(None, x, np.zeros(12)) is None


class Varying:
    """What others say of a user: nothing but that the noise grows."""

    def mean(self, x):
        return np.zeros(len(x))

    def covariance(self, x, z):
        return np.zeros((len(x), len(z)))

    def noise_factors(self, x):
        return np.exp(x[:, 0])


def test_noise_that_varies_is_that_of_each_target_and_of_new_ones(points):
    """Catches factors that are left out, of the data or of new observations, or mixed up."""
    x, y, x_new = points
    where = Coordinates(POOL, Composition.parse(TEXT, 2))
    problem = Objective(where, x, y, known=KnownPart.of(Varying(), x))
    conditioned = Conditioned.of(problem, where.from_named(HYPERPARAMETERS, NOISE))
    found = conditioned.predict(x_new, include_noise=True)
    gram = sum(k(x, x) for k in PARTS.values()) + NOISE * np.diag(np.exp(x[:, 0]))
    cross = sum(k(x_new, x) for k in PARTS.values())
    prior = sum(k(x_new, x_new) for k in PARTS.values())
    variance = np.diag(prior - cross @ np.linalg.solve(gram, cross.T))
    np.testing.assert_allclose(found.mean, cross @ np.linalg.solve(gram, y), atol=1e-10)
    np.testing.assert_allclose(found.sd**2, variance + NOISE * np.exp(x_new[:, 0]), atol=1e-10)
    np.testing.assert_allclose(found.noise, NOISE * np.exp(x_new[:, 0]).mean())
    some = found.at(np.array([4, 1]))
    np.testing.assert_array_equal(some.noises[0], found.noises[0, [4, 1]])


def test_a_mean_function_is_computed_once_whatever_the_known_noise(points):
    """Every draw of values may have noise of its own: with 16 it would be computed 48 times."""
    x, _, x_new = points
    calls = []

    class Counted(Varying):
        def covariance(self, x, z):
            calls.append(len(z))
            return np.ones((len(x), len(z)))

    known = KnownPart(Counted(), x)
    for noise in (np.arange(12.0), np.full(12, 3.0)):
        other = known.with_noise(noise)
        np.testing.assert_array_equal(other.covariance, np.ones((12, 12)) + np.diag(noise))
        assert other.to(x_new).cross.shape == (12, len(x_new))
    assert calls == [12, len(x_new)]


def test_white_predicts_the_prior(points):
    result = predicted(*points, text="WHITE")
    np.testing.assert_array_equal(result.mean, 0)
    np.testing.assert_array_equal(result.sd, 0)
    assert result.components == {}
    noisy = predicted(*points, text="WHITE", include_noise=True)
    np.testing.assert_allclose(noisy.sd, np.sqrt(NOISE))


def test_ard_goes_by_its_name(points):
    also = {
        "SE0 x SE1.amplitude": 1,
        "SE0 x SE1.SE0.lengthscale": 1,
        "SE0 x SE1.SE1.lengthscale": 1,
    }
    assert set(predicted(*points, text="ARD", also=also).components) == {"ARD"}


def test_noise_counts_once_in_the_predictive_density(points):
    y_new = np.linspace(-1, 1, 7)
    result = predicted(*points)
    expected = norm(result.mean, np.sqrt(result.sd**2 + NOISE)).logpdf(y_new)
    np.testing.assert_allclose(result.log_predictive_density(y_new), expected)
    noisy = predicted(*points, include_noise=True)
    np.testing.assert_allclose(noisy.log_predictive_density(y_new), expected)


def test_no_new_inputs_give_empty_predictions(points):
    x, y, _ = points
    result = predicted(x, y, np.empty((0, 2)))
    assert result.mean.shape == result.sd.shape == (0,)


def test_variance_never_falls_below_zero():
    x = np.array([[0.5, 0.5]])
    where = Coordinates(POOL, Composition.parse("LIN0", 2))
    values = where.from_named({"LIN0.amplitude": 1e12, "LIN0.shift": 0.0}, 1e-12)
    result = Conditioned.of(Objective(where, x, np.ones(1)), values).predict(x)
    assert np.all(result.sd >= 0)


def test_a_hopeless_covariance_is_refused(points):
    x, y, _ = points
    where = Coordinates(POOL, Composition.parse("LIN0", 2))
    values = np.array([800.0, 0.0, 0.0])  # an infinite amplitude
    with pytest.raises(InputError, match=r"isn't positive definite\. Use a larger"):
        Conditioned.of(Objective(where, x, y), values)
