"""Processes with given and with fitted hyperparameters."""

import numpy as np
import pytest

from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.posterior import Posterior
from kem_pymc.gp.process import GaussianProcess
from kem_pymc.kernels.composition import Composition

VALUES = {
    **{"SE0.amplitude": 1.3, "SE0.lengthscale": 0.4, "MATERN521.amplitude": 0.6},
    "MATERN521.lengthscale": 0.7,
}
RNG = np.random.default_rng(0)
X, Z = RNG.uniform(size=(20, 2)), RNG.uniform(size=(7, 2))


@pytest.fixture(scope="module")
def process():
    return GaussianProcess.of("SE0 + MATERN521", VALUES, 0.05, mean=3.0, dimension=2)


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
    other = GaussianProcess(process.composition, VALUES, 0.05, scaling)
    back = scaling.feature_low + X * (scaling.feature_high - scaling.feature_low)
    np.testing.assert_allclose(other.covariance(back, back), 9 * process.covariance(X, X))
    np.testing.assert_allclose(other.noise_at(back), 0.45)
    assert (other.mean(back) == 10.0).all()


def test_fit_to_pilot_observations():
    """A line with a wave is found by its kernel, in the units of the data."""
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 100, 60)
    y = 1000 + 50 * np.sin(x / 8) + rng.normal(0, 5, 60)
    fitted = GaussianProcess.fit("SE0", x, y)
    assert np.sqrt(fitted.noise_at(x[:1, None]))[0] == pytest.approx(5, rel=0.3)
    posterior = Posterior.of(fitted, x[:, None], y)
    new = np.linspace(5, 95, 30)[:, None]
    truth = 1000 + 50 * np.sin(new[:, 0] / 8)
    assert np.sqrt(np.mean((posterior.predict(new)[0] - truth) ** 2)) < 5


def test_redrawn_hyperparameters_have_their_posterior():
    """Moments of logs against a grid; eight draws are coarse. With the given noise it is 2 sd."""
    given = {"SE0.amplitude": 1.0, "SE0.lengthscale": 1.0}
    coordinates = Coordinates.alone("SE0", 1)
    centre = np.append(np.zeros(2), np.log(0.01))
    steps = np.linspace(-4, 4, 25)
    grid = centre + np.stack(np.meshgrid(steps, steps, steps), -1).reshape(-1, 3)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = rng.random((10, 1))
        y = np.sin(6 * x[:, 0]) + 0.3 * rng.normal(size=10)
        objective = Objective(coordinates, x, y, noise_floor=1e-9)
        heights = objective.heights(grid) - 0.5 * ((grid - centre) ** 2).sum(axis=1)
        weights = np.exp(heights - heights.max())
        weights /= weights.sum()
        mean = weights @ grid
        sd = np.sqrt(weights @ (grid - mean) ** 2)
        drawn = GaussianProcess.of("SE0", given, 0.01).redrawn(x, y)
        logs = np.log([[*own.hyperparameters.values(), own.noise] for own in drawn])
        assert (np.abs(logs.mean(axis=0) - mean) < 0.7 * sd).all()
        assert (np.abs(np.log(logs.std(axis=0) / sd)) < 0.7).all()


def test_what_is_refused(process):
    with pytest.raises(InputError, match="noise variance is -1"):
        GaussianProcess.of("SE0", VALUES, -1.0)
    with pytest.raises(InputError, match="PER0"):
        GaussianProcess.of("PER0", VALUES, 0.1)
    with pytest.raises(InputError, match="inputs and values that vary"):
        GaussianProcess.fit("SE0", [1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    assert process.composition == Composition.parse("SE0 + MATERN521")
