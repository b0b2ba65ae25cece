"""Intervals of mixtures, against their distribution function and closed forms."""

import re

import numpy as np
import pytest

from kem_pymc.data.scaling import Scaling
from kem_pymc.reports import charts
from kem_pymc.reports.intervals import Band, Predicted

SCALING = Scaling(np.zeros(1), np.ones(1), 10.0, 4.0)


def test_a_component_without_spread():
    band = Band.of(np.zeros(1), np.ones((2, 1)), np.zeros((2, 1)), np.zeros(2), SCALING)
    np.testing.assert_allclose([*band.function[:, 0], band.median[0]], 14.0)


def test_one_odd_draw_of_a_hundred_does_not_widen_the_interval():
    """Two sds of the mixture would be 11 wide instead of 4, in scaled units."""
    mean = np.r_[np.zeros(99), 26.0][:, None]
    low, high = Band.of(np.zeros(1), mean, np.ones((100, 1)), np.zeros(100), SCALING).function
    assert high[0] - low[0] < 4.0 * 4.2


def test_bands_are_in_the_targets_unit():
    mean, variance = np.array([[1.0]]), np.array([[0.25]])
    band = Band.of(np.zeros(1), mean, variance, np.array([0.75]), SCALING)
    assert band.median[0] == pytest.approx(14.0)
    np.testing.assert_allclose(band.function[:, 0], 14 + 1.959964 * np.array([-2, 2]), rtol=1e-6)
    np.testing.assert_allclose(band.observed[:, 0], 14 + 1.959964 * np.array([-4, 4]), rtol=1e-6)
    nothing = Band.of(np.zeros(3), np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), SCALING)
    assert np.isnan(nothing.observed).all()


@pytest.mark.parametrize("continuous", [True, False])
def test_axes_cover_whole_bands(continuous):
    """Bands that reach far beyond the points, in the SVG: catches axes that end before they do."""
    at = np.linspace(0, 1, 5)
    ends = np.array([[-2.0], [2.0]]) * np.linspace(1, 40, 5)
    wide = Band.of_observations(at, np.zeros(5), ends)
    points = np.column_stack([at, np.linspace(-1, 1, 5)])
    steps = [Predicted(points[:3], points[3:], wide, wide.part(slice(3, 5)), continuous)]
    frame = charts.frame_of(steps, "x", "y")
    svg = str(charts.prediction(steps[0], frame, "one", "picture"))
    kind = "band observed" if continuous else "bar (?:fit|ahead)"
    drawn = re.findall(rf'class="{kind}" d="([^"]+)"', svg)
    assert drawn
    places = re.findall(r"[ML]?(-?[\d.]+) (-?[\d.]+)(?:V(-?[\d.]+))?", " ".join(drawn))
    up = [float(y) for _, *ends in places for y in ends if y]
    assert len(up) >= 10
    assert min(up) >= charts.TOP
    assert max(up) <= charts.HEIGHT - charts.BOTTOM


def test_points_within_the_interval_count():
    ahead = Band.of_observations(np.zeros(3), np.zeros(3), np.outer([-1.96, 1.96], np.ones(3)))
    following = np.column_stack([np.zeros(3), [-1.9, 1.95, 1.97]])
    assert Predicted(following, following, ahead, ahead, continuous=False).covered == 2
