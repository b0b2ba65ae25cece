"""Spaces: encoding and decoding, random points, and what is refused."""

import json
import math

import numpy as np
import pytest

from kem_pymc.lifelong.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from kem_pymc.lifelong.space import Space
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


def test_values_of_other_types_are_those_of_the_space():
    """As after a table with one type for all columns; equal choices of other types differ."""
    own = Space(
        {
            "x": FloatDistribution(0.05, 1),
            "n": IntDistribution(1.0, 4),
            "c": MIXED.dimensions["solver"],
        }
    )
    for given, expected in {1.0: 1, np.bool_(True): True, None: None, np.int64(1): 1}.items():
        point = own.own({"c": given, "n": np.float64(3), "x": 1})
        assert list(point.items()) == [("x", 1.0), ("n", 3), ("c", expected)]
        assert list(map(type, point.values())) == [float, int, type(expected)]
    assert isinstance(own.decode(np.ones(own.columns))[0]["x"], float)  # 1 is one row in some APIs
    two = CategoricalDistribution([1, 1.0, True])
    assert [type(two.own(value)) for value in (1, 1.0, True)] == [int, float, bool]


def test_logs_of_whole_numbers_are_as_frequent_as_their_widths():
    own = Space({"n": IntDistribution(1, 3, log=True)})
    points = own.decode(own.draw(8192, np.random.default_rng(0)))
    counts = np.bincount([point["n"] for point in points])[1:] / 8192
    expected = np.diff(np.log([0.5, 1.5, 2.5, 3.5])) / np.log(7)
    np.testing.assert_allclose(counts, expected, atol=0.03)  # with ends cut off: .37, .46, .17


def test_the_order_of_dimensions_counts():
    """Rows of files have columns in this order."""
    one, two = FloatDistribution(0, 1), IntDistribution(0, 9)
    assert Space({"a": one, "b": two}) == Space({"a": one, "b": two})
    assert Space({"a": one, "b": two}) != Space({"b": two, "a": one})


def test_neighbours_and_all_points():
    own = Space({"n": IntDistribution(1, 3), "c": CategoricalDistribution([1, True, "a"])})
    every = own.every(9)
    assert len(np.unique(every, axis=0)) == 9
    assert own.every(8) is None
    assert Space({"x": FloatDistribution(0, 1)}).every(10**9) is None
    point = {"n": 1, "c": True}
    found = own.decode(own.neighbours(own.encode([point])))
    assert list(map(repr, found)) == list(
        map(repr, [{"n": 2, "c": True}, {"n": 1, "c": 1}, {"n": 1, "c": "a"}])
    )
    assert len(own.neighbours(own.encode([{"n": 2, "c": "a"}]))) == 4


def test_combinations_of_categories():
    two = Space(
        {
            "a": CategoricalDistribution(["x", "y"]),
            "b": FloatDistribution(0, 1),
            "c": CategoricalDistribution(["p", "q", "r"]),
        }
    )
    rows = two.combinations(100)
    found = {(point["a"], point["c"]) for point in two.decode(rows)}
    assert (len(rows), len(found)) == (6, 6)
    assert two.combinations(5) is None
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
        (lambda: FloatDistribution(0, math.inf), "isn't one between two finite numbers"),
        (lambda: FloatDistribution("a", 1), "isn't one between two finite numbers"),
        (lambda: FloatDistribution(False, 1), "isn't one between two finite numbers"),
        (lambda: FloatDistribution(-1e308, 1e308), "isn't one between two finite numbers"),
        (lambda: FloatDistribution(0, 1, log=True), "no logarithm"),
        (lambda: IntDistribution(0.5, 3), "isn't a whole number"),
        (lambda: CategoricalDistribution(["a"]), "fewer than two"),
        (lambda: CategoricalDistribution(["a", "b", "a"]), "occurs twice"),
        (lambda: CategoricalDistribution([("a",), ("b",)]), "isn't text"),
        (lambda: CategoricalDistribution([1.0, math.nan]), "isn't text, a number"),
        (lambda: CategoricalDistribution("saga"), "choices are 'saga'"),
        (lambda: CategoricalDistribution(5), "choices are 5"),
        (lambda: IntDistribution(-(10**308), 10**308), "two finite numbers"),
        (lambda: IntDistribution(5, 1), "empty or has one value"),
        (lambda: Space([("x", 1)]), "Give a mapping of names"),
        (lambda: Space({1: FloatDistribution(0, 1)}), "1 has a name that isn't text"),
        (lambda: Space({}), "one point only"),
        (lambda: Space({"x": (0, 1)}), "FloatDistribution"),
        (lambda: Space(dict.fromkeys(["a/b", "a.b"], FloatDistribution(0, 1))), "'.' for '/'"),
    ],
)
def test_spaces_that_are_refused(make, words):
    refused(make, words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rate": 2.0}, "rate can't be 2.0: it isn't between"),
        ({"rate": math.nan}, "it isn't a number"),
        ({"solver": 0}, "isn't one of"),
        ({"depth": 2.5}, "isn't a whole number"),
        ({"depth": True}, "isn't a number"),
        ({"solver": "lbfgs"}, "isn't one of 'saga', 1, True, None"),
        ({"other": 1}, "Give values of rate, depth, solver, shift"),
    ],
)
def test_points_that_are_refused(change, words):
    point = {"rate": 1e-2, "depth": 2, "solver": "saga", "shift": 0.0}
    refused(lambda: MIXED.encode([point | change]), words)
