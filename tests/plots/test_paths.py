"""Curves of edges, and labels that keep clear of boxes and of each other."""

import numpy as np
import pytest

from kem_pymc.plots.layout import Box
from kem_pymc.plots.paths import bow, curve, label_places

SIZE = (10.0, 4.0)


def test_curves_pass_all_points_and_are_level_there():
    route = [(0.0, 0.0), (20.0, 8.0), (30.0, 8.0), (50.0, -4.0)]
    vertices = curve(route)
    np.testing.assert_allclose(vertices[::3], route)
    for i in (0, 3, 6, 9):
        assert np.ptp(vertices[max(i - 1, 0) : i + 2, 1]) == 0


def test_a_bow_leaves_and_arrives_level_and_turns_at_its_apex():
    vertices = bow((0.0, 0.0), (9.0, 5.0), (0.0, 10.0))
    np.testing.assert_allclose(vertices[[0, 3, 6]], [(0, 0), (9, 5), (0, 10)])
    np.testing.assert_allclose(vertices[[1, 5], 1], [0, 10])
    np.testing.assert_allclose(vertices[2:5, 0], 9)


def test_a_label_stands_halfway():
    places = label_places({"one": curve([(0, 0), (40, 20)])}, {"one": 1}, [], SIZE)
    assert places["one"] == pytest.approx((20, 10))


def test_labels_on_one_curve_move_apart_and_the_heaviest_stays():
    line = curve([(0, 0), (100, 0)])
    places = label_places({"light": line, "heavy": line}, {"light": 0.1, "heavy": 0.9}, [], SIZE)
    assert places["heavy"] == pytest.approx((50, 0))
    assert abs(places["light"][0] - 50) >= SIZE[0]


def test_labels_keep_clear_of_boxes():
    line = curve([(0, 0), (100, 0)])
    box = Box(50, 0, 20, 6)
    (x, _) = label_places({"one": line}, {"one": 1}, [box], SIZE)["one"]
    assert x + SIZE[0] / 2 <= box.x_range[0]
