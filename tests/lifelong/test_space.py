"""Spaces: encoding and decoding of Optuna's points, random points, neighbours."""

from itertools import product

import numpy as np
import pytest
from optuna import create_trial
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from kem_pymc.lifelong.space import Space, learned_space

MIXED = Space(
    {
        "rate": FloatDistribution(1e-4, 1.0, log=True),
        "depth": IntDistribution(1, 4),
        "solver": CategoricalDistribution(["saga", "lbfgs", None]),
        "shift": FloatDistribution(-2, 6),
        "size": IntDistribution(10, 50, step=20),
        "share": FloatDistribution(0, 1, step=0.25),
    }
)


def points(space, rows):
    return [space.decode(row) for row in rows]


def test_encoding_by_hand():
    point = {"rate": 1e-2, "depth": 2, "solver": "lbfgs", "shift": 0, "size": 30, "share": 0.75}
    expected = [0.5, 1 / 3, 0, 1, 0, 0.25, 0.5, 0.75]
    np.testing.assert_allclose(MIXED.encode([point])[0], expected, atol=1e-12)
    assert MIXED.encode([]).shape == (0, 8)
    back = MIXED.decode(np.array(expected) + 0.01)
    assert back == point | {"rate": pytest.approx(1e-2, rel=0.1), "shift": pytest.approx(0.08)}
    assert [type(value) for value in back.values()] == [float, int, str, float, int, float]
    assert MIXED.numeric.tolist() == [True, True, False, False, False, True, True, True]


@pytest.mark.parametrize("method", ["draw", "sobol"])
def test_points_are_spread_evenly(method):
    """Ends of ranges with steps are as frequent as the others; logs are uniform."""
    rows = getattr(MIXED, method)(4096, np.random.default_rng(0))
    again = MIXED.encode(points(MIXED, rows))
    np.testing.assert_allclose(again[:, 0], rows[:, 0], atol=1e-15)  # a logarithm
    np.testing.assert_array_equal(again[:, 1:], rows[:, 1:])
    drawn = {name: [p[name] for p in points(MIXED, rows)] for name in MIXED.distributions}
    for name, values in {
        "depth": [1, 2, 3, 4],
        "size": [10, 30, 50],
        "share": [0, 0.25, 0.5, 0.75, 1],
        "solver": ["saga", "lbfgs", None],
    }.items():
        counts = np.array([drawn[name].count(value) for value in values]) / 4096
        np.testing.assert_allclose(counts, 1 / len(values), atol=0.03)
    quartiles = np.quantile(np.log10(drawn["rate"]), [0.25, 0.5, 0.75])
    np.testing.assert_allclose(quartiles, [-3, -2, -1], atol=0.12)


def test_values_stay_within_their_ends():
    """Rounding errors of logarithms must not leave the range."""
    own = Space(
        {"x": FloatDistribution(0.005, 0.5, log=True), "n": IntDistribution(10, 500, log=True)}
    )
    low, high = (0.005, 10), (0.5, 500)
    for end, (x, n) in {0.0: low, 1.0: high, -3.0: low, 7.0: high}.items():
        assert own.decode(np.array([end, end])) == {"x": x, "n": n}


def test_logs_of_whole_numbers_are_as_frequent_as_their_widths():
    own = Space({"n": IntDistribution(1, 3, log=True)})
    found = [point["n"] for point in points(own, own.draw(8192, np.random.default_rng(0)))]
    expected = np.diff(np.log([0.5, 1.5, 2.5, 3.5])) / np.log(7)
    # with ends cut off: .37, .46, .17
    np.testing.assert_allclose(np.bincount(found)[1:] / 8192, expected, atol=0.03)


def test_neighbours_and_all_points():
    own = Space({"n": IntDistribution(1, 5, step=2), "c": CategoricalDistribution(["a", "b", "c"])})
    assert len(np.unique(own.every(9), axis=0)) == 9
    assert own.every(8) is None
    assert Space({"x": FloatDistribution(0, 1)}).every(10**9) is None
    found = points(own, own.neighbours(own.encode([{"n": 1, "c": "b"}])))
    assert found == [{"n": 3, "c": "b"}, {"n": 1, "c": "a"}, {"n": 1, "c": "c"}]
    assert len(own.neighbours(own.encode([{"n": 3, "c": "a"}]))) == 4
    assert Space({"x": FloatDistribution(0, 1)}).neighbours(np.zeros((2, 1))).shape == (0, 1)


def test_combinations_of_categories():
    two = Space(
        {
            "a": CategoricalDistribution(["x", "y"]),
            "b": FloatDistribution(1, 2),
            "c": CategoricalDistribution(["p", "q", "r"]),
        }
    )
    rows = two.combinations(100)
    assert len({(point["a"], point["c"]) for point in points(two, rows)}) == len(rows) == 6
    assert not rows[:, 2].any()
    assert two.combinations(5) is None
    assert Space({"b": FloatDistribution(0, 1)}).combinations(5).shape == (1, 1)


#: Depth with "tree" or "forest", trees with "forest" only.
DEPTHS = Space(
    {
        "depth": IntDistribution(1, 4),
        "kind": CategoricalDistribution(["line", "tree", "forest"]),
        "trees": IntDistribution(1, 3),
        "rate": FloatDistribution(0, 1, step=0.5),
    },
    {"depth": ("kind", frozenset([1.0, 2.0])), "trees": ("kind", frozenset([2.0]))},
)


def test_points_that_differ_in_what_they_do_not_use_are_the_same():
    """All points by brute force: those of the product, with what isn't used taken out."""
    every = set()
    for depth, kind, trees, rate in product(
        range(1, 5), ["line", "tree", "forest"], range(1, 4), [0, 0.5, 1]
    ):
        point = {"depth": depth, "kind": kind, "trees": trees, "rate": rate}
        unused = {"line": ["depth", "trees"], "tree": ["trees"], "forest": []}[kind]
        every.add(tuple(sorted((k, v) for k, v in point.items() if k not in unused)))
    rows = DEPTHS.every(10**6)
    assert {tuple(sorted(point.items())) for point in points(DEPTHS, rows)} == every
    assert DEPTHS.count == len(rows) == len(every) == (1 + 4 + 12) * 3
    assert DEPTHS.every(len(rows) - 1) is None
    line = DEPTHS.encode([{"kind": "line", "rate": 0.5}])
    np.testing.assert_array_equal(line, [[0.5, 1, 0, 0, 0.5, 0.5]])
    assert DEPTHS.movable(line[0]).tolist() == [False, False, False, False, False, True]
    beside = points(DEPTHS, DEPTHS.neighbours(line))
    assert [point["kind"] for point in beside] == ["tree", "forest", "line", "line"]
    drawn = DEPTHS.draw(3000, np.random.default_rng(0))
    assert {row.tobytes() for row in drawn} == {row.tobytes() for row in rows}
    np.testing.assert_array_equal(DEPTHS.nearest(drawn), drawn)


def test_which_choices_decide_is_learned_from_trials():
    """A parameter is conditional if in no trial the same choice has it and hasn't it."""
    kind, unit = CategoricalDistribution(["a", "b", "c"]), FloatDistribution(0, 1)
    own = {"kind": kind, "x": unit}

    def trial(choice, *names, **others):
        distributions = own | dict.fromkeys(names, unit) | others
        params = dict.fromkeys(distributions, 0.5) | {"kind": choice}
        return create_trial(params=params, distributions=distributions, value=0.0)

    last_year = [trial("a", "p"), trial("b", "q"), trial("b", "q", "r"), trial("c", "p")]
    found = learned_space([last_year, [], [trial("a", "p")]])
    assert list(found.distributions) == ["kind", "p", "q", "x"]  # r isn't decided by the kind
    assert found.conditions == {"p": ("kind", {0.0, 2.0}), "q": ("kind", {1.0})}
    alone = learned_space([[trial("a", "p")]])
    assert (list(alone.distributions), alone.conditions) == (["kind", "p", "x"], {})
    # Ranges that changed: those of the last study count; within one they are no dimension.
    wide = FloatDistribution(0, 2)
    assert learned_space([last_year, [trial("a", p=wide)]]).distributions["p"] == wide
    mixed = learned_space([[trial("a", p=wide), trial("a", "p"), trial("b")]])
    assert list(mixed.distributions) == ["kind", "x"]
    assert learned_space([[], []]).distributions == {}
