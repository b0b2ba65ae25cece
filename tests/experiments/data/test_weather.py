"""Perceived temperature: published values of the National Weather Service, and stations."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from experiments.data.weather import perceived_temperature, stations
from tests.data_home import needs


@pytest.mark.parametrize(
    ("temperature", "humidity", "heat"),
    [(80, 40, 80), (86, 90, 105), (90, 70, 105), (96, 55, 112), (100, 40, 109), (110, 40, 136)],
)
def test_heat_index_of_the_published_chart(temperature, humidity, heat):
    found = perceived_temperature(np.array([float(temperature)]), float(humidity), 5.0)
    assert found[0] == pytest.approx(heat, abs=1.0)


@pytest.mark.parametrize(
    ("temperature", "wind", "chill"),
    [(40, 5, 36), (30, 25, 16), (0, 15, -19), (-20, 40, -57), (20, 60, -4), (35, 10, 27)],
)
def test_wind_chill_of_the_published_chart(temperature, wind, chill):
    found = perceived_temperature(np.array([float(temperature)]), 50.0, float(wind))
    assert found[0] == pytest.approx(chill, abs=0.6)


def test_between_and_without_wind_it_is_the_temperature():
    found = perceived_temperature(np.array([60.0, 30.0]), np.array([90.0, 50.0]), np.array([20, 2]))
    np.testing.assert_array_equal(found, [60.0, 30.0])


def test_adjustments_for_dry_and_humid_air():
    """Lower by (13 - r) / 4 sqrt((17 - |t - 95|) / 17), higher by (r - 85) / 10 (87 - t) / 5."""
    dry = perceived_temperature(np.array([95.0]), np.array([10.0]), 5.0)
    humid = perceived_temperature(np.array([82.0]), np.array([95.0]), 5.0)

    def full(t, r):
        terms = [1, t, r, t * r, t**2, r**2, t**2 * r, t * r**2, t**2 * r**2]
        own = [-42.379, 2.04901523, 10.14333127, -0.22475541, -6.83783e-3, -5.481717e-2]
        return np.dot(terms, [*own, 1.22874e-3, 8.5282e-4, -1.99e-6])

    assert dry[0] == pytest.approx(full(95, 10) - 0.75)
    assert humid[0] == pytest.approx(full(82, 95) + 1.0)


def test_expressions_are_the_same():
    rng = np.random.default_rng(0)
    values = rng.uniform([10, 5, 0], [105, 100, 40], (200, 3))
    x = pt.matrix()
    made = pytensor.function([x], perceived_temperature(x[:, 0], x[:, 1], x[:, 2], pt))
    np.testing.assert_allclose(made(values), perceived_temperature(*values.T), rtol=1e-12)


@needs("weather")
def test_stations():
    found = stations()
    assert len(found.places) > 2000
    assert len(np.unique(found.places, axis=0)) == len(found.places)
    assert found.weather[:, 1].max() <= 100.5
    assert 0 < np.median(found.weather[:, 0]) < 100
