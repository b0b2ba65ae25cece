"""Processes and their posteriors, against dense matrices."""

import numpy as np
import pytest

from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.gp.process import AveragedPosterior, Posterior, Process
from kem_pymc.kernels.composition import Composition

VALUES = {
    **{"SE0.amplitude": 1.3, "SE0.lengthscale": 0.4, "MATERN521.amplitude": 0.6},
    "MATERN521.lengthscale": 0.7,
}
RNG = np.random.default_rng(0)
X, Z = RNG.uniform(size=(20, 2)), RNG.uniform(size=(7, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] + 3.0


@pytest.fixture(scope="module")
def process():
    return Process.of("SE0 + MATERN521", VALUES, 0.05, mean=3.0, dimension=2)


def dense(process, x, y, z):
    """Mean and covariance at new points by the formulas of a Gaussian process."""
    noisy = process.covariance(x, x) + np.diag(process.noise_at(x))
    cross = process.covariance(x, z)
    mean = process.mean(z) + cross.T @ np.linalg.solve(noisy, y - process.mean(x))
    return mean, process.covariance(z, z) - cross.T @ np.linalg.solve(noisy, cross)


def test_covariances_by_hand(process):
    distance = np.abs(X[:, None] - Z[None])
    r = np.sqrt(5) * distance[:, :, 1] / 0.7
    exact = 1.3 * np.exp(-0.5 * (distance[:, :, 0] / 0.4) ** 2)
    exact += 0.6 * (1 + r + r**2 / 3) * np.exp(-r)
    np.testing.assert_allclose(process.covariance(X, Z), exact, rtol=1e-10)
    np.testing.assert_allclose(process.variance(Z), 1.9, rtol=1e-12)


def test_scaling_changes_units_only(process):
    """Inputs in weeks in place of days, and values in other units with another mean."""
    scaling = Scaling(np.array([1.0, -2.0]), np.array([4.0, 5.0]), 10.0, 3.0)
    other = Process(process.composition, VALUES, 0.05, scaling)
    back = scaling.feature_low + X * (scaling.feature_high - scaling.feature_low)
    np.testing.assert_allclose(other.covariance(back, back), 9 * process.covariance(X, X))
    np.testing.assert_allclose(other.noise_at(back), 0.45)
    assert (other.mean(back) == 10.0).all()


def test_one_observation_at_a_time_is_all_at_once(process):
    """Both at fixed points and at new ones, beyond the room that there is at first."""
    posterior = Posterior(process, Z)
    for n, (x, y) in enumerate(zip(X, Y, strict=True), start=1):
        posterior.observe(x, y)
        if n in (1, 2, 17, 20):
            mean, covariance = dense(process, X[:n], Y[:n], Z)
            np.testing.assert_allclose(posterior.mean, mean, rtol=1e-10)
            np.testing.assert_allclose(posterior.variance, np.diag(covariance), rtol=1e-9)
            found = posterior.predict(Z)
            np.testing.assert_allclose(found, [mean, np.diag(covariance)], rtol=1e-9)
            np.testing.assert_allclose(posterior.covariance(Z, Z), covariance, atol=1e-10)


def test_draws_are_a_mixture(process):
    drawn = [process, Process.of("SE0", VALUES, 0.2, mean=2.0, dimension=2)]
    mixture = AveragedPosterior(drawn, Z)
    for x, y in zip(X[:5], Y[:5], strict=True):
        mixture.add(mixture.row_of(x, y))
    moments = [dense(own, X[:5], Y[:5], Z) for own in drawn]
    means = np.array([mean for mean, _ in moments])
    variance = np.mean([np.diag(own) for _, own in moments], axis=0) + means.var(axis=0)
    np.testing.assert_allclose(mixture.mean, means.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(mixture.variance, variance, rtol=1e-9)
    np.testing.assert_allclose(mixture.predict(Z), [means.mean(axis=0), variance], rtol=1e-9)


def test_exact_observations_may_be_repeated_but_not_contradicted():
    posterior = Posterior(Process.of("SE0", VALUES, 0.0), np.array([[0.1], [0.3]]))
    posterior.observe(np.array([0.1]), 1.0)
    before = posterior.mean.copy()
    posterior.observe(np.array([0.1]), 1.0)
    np.testing.assert_array_equal(posterior.mean, before)
    assert posterior.variance[0] < 1e-12
    with pytest.raises(InputError, match="contradicts earlier ones"):
        posterior.observe(np.array([0.1]), 1.1)


def test_fit_to_pilot_observations():
    """A line with a wave is found by its kernel, in the units of the data."""
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 100, 60)
    y = 1000 + 50 * np.sin(x / 8) + rng.normal(0, 5, 60)
    fitted = Process.fit("SE0", x, y)
    assert np.sqrt(fitted.noise_at(x[:1, None]))[0] == pytest.approx(5, rel=0.3)
    posterior = Posterior(fitted)
    for own, value in zip(x[:, None], y, strict=True):
        posterior.observe(own, value)
    new = np.linspace(5, 95, 30)[:, None]
    truth = 1000 + 50 * np.sin(new[:, 0] / 8)
    assert np.sqrt(np.mean((posterior.predict(new)[0] - truth) ** 2)) < 5


def test_what_is_refused(process):
    with pytest.raises(InputError, match="noise variance is -1"):
        Process.of("SE0", VALUES, -1.0)
    with pytest.raises(InputError, match="PER0"):
        Process.of("PER0", VALUES, 0.1)
    with pytest.raises(InputError, match="inputs and values that vary"):
        Process.fit("SE0", [1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    assert process.composition == Composition.parse("SE0 + MATERN521")
