"""Spaces: encoding and decoding, random points, and what is refused."""

import json
import math

import numpy as np
import pytest

from kem_pymc.lifelong.space import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    Space,
)
from tests.refusals import refused

MIXED = Space(
    {
        "rate": FloatDistribution(1e-4, 1.0, log=True),
        "depth": IntDistribution(1, 4),
        "solver": CategoricalDistribution(["saga", 1, True, None]),
        "shift": FloatDistribution(-2, 6),
    }
)


def test_encoding_by_hand():
    point = {"rate": 1e-2, "depth": 2, "solver": True, "shift": 0}
    expected = [0.5, 1 / 3, 0, 0, 1, 0, 0.25]
    np.testing.assert_allclose(MIXED.encode([point])[0], expected, atol=1e-12)
    (back,) = MIXED.decode(np.array(expected))
    assert back == {"rate": pytest.approx(1e-2), "depth": 2, "solver": True, "shift": 0.0}
    assert back["solver"] is True  # and not the equal number 1
    assert MIXED.numeric.tolist() == [True, True, False, False, False, False, True]
    assert MIXED.columns == 7


@pytest.mark.parametrize("method", ["draw", "sobol"])
def test_points_are_spread_evenly(method):
    """Ends of whole numbers are as frequent as the others; logs are uniform."""
    rows = getattr(MIXED, method)(4096, np.random.default_rng(0))
    points = MIXED.decode(rows)
    np.testing.assert_array_equal(MIXED.encode(points), rows)
    counts = np.bincount([point["depth"] for point in points])[1:] / 4096
    np.testing.assert_allclose(counts, 0.25, atol=0.03)
    names = [str(point["solver"]) for point in points]
    assert min(names.count(name) for name in ("saga", "1", "True", "None")) > 900
    logs = np.log10([point["rate"] for point in points])
    np.testing.assert_allclose(np.quantile(logs, [0.25, 0.5, 0.75]), [-3, -2, -1], atol=0.12)


def test_values_stay_within_their_ends():
    """Rounding errors of logarithms must not leave the range."""
    own = Space(
        {"x": FloatDistribution(0.005, 0.5, log=True), "n": IntDistribution(10, 500, log=True)}
    )
    for end, (x, n) in {
        0.0: (0.005, 10),
        1.0: (0.5, 500),
        -3.0: (0.005, 10),
        7.0: (0.5, 500),
    }.items():
        assert own.decode(np.array([end, end])) == [{"x": x, "n": n}]


def test_combinations_of_categories():
    two = Space(
        {
            "a": CategoricalDistribution("xy"),
            "b": FloatDistribution(0, 1),
            "c": CategoricalDistribution("pqr"),
        }
    )
    rows = two.combinations(100)
    found = {(point["a"], point["c"]) for point in two.decode(rows)}
    assert (len(rows), len(found)) == (6, 6)
    assert len(two.combinations(4)) == 4
    assert Space({"b": FloatDistribution(0, 1)}).combinations(5).shape == (1, 1)


def test_scalars_of_numpy_become_plain_data():
    """JSON has none, and a point of the file has to be one of the choices."""
    own = Space(
        {
            "n": IntDistribution(np.int64(0), np.int64(4)),
            "x": FloatDistribution(np.float32(0), np.float64(2)),
            "c": CategoricalDistribution(np.array(["a", "b"])),
        }
    )
    data = json.loads(json.dumps(own.to_dict()))
    assert data == own.to_dict()
    assert {name: one["kind"] for name, one in data.items()} == {
        "n": "int",
        "x": "float",
        "c": "categorical",
    }
    own.encode(json.loads(json.dumps(own.decode(own.draw(5, np.random.default_rng(0))))))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FloatDistribution(1, 1), "one value"),
        (lambda: FloatDistribution(0, math.inf), "isn't one of numbers"),
        (lambda: FloatDistribution("a", 1), "isn't one of numbers"),
        (lambda: FloatDistribution(0, 1, log=True), "no logarithm"),
        (lambda: IntDistribution(0.5, 3), "isn't a whole number"),
        (lambda: CategoricalDistribution(["a"]), "fewer than two"),
        (lambda: CategoricalDistribution(["a", "b", "a"]), "occurs twice"),
        (lambda: CategoricalDistribution([("a",), ("b",)]), "isn't text"),
        (lambda: Space({}), "one point only"),
        (lambda: Space({"x": (0, 1)}), "FloatDistribution"),
    ],
)
def test_spaces_that_are_refused(make, words):
    refused(make, words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rate": 2.0}, "rate can't be 2.0: it isn't between"),
        ({"rate": math.nan}, "it isn't between"),
        ({"depth": 2.5}, "isn't a whole number"),
        ({"depth": True}, "isn't a number"),
        ({"solver": "lbfgs"}, "isn't one of 'saga', 1, True, None"),
        ({"other": 1}, "Give values of rate, depth, solver, shift"),
    ],
)
def test_points_that_are_refused(change, words):
    point = {"rate": 1e-2, "depth": 2, "solver": "saga", "shift": 0.0}
    refused(lambda: MIXED.encode([point | change]), words)
