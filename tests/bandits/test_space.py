"""Spaces: the largest score, constraints, whole numbers, and spaces that are refused."""

from itertools import product

import numpy as np
import pytest

from kem_pymc.bandits import Box, Points
from kem_pymc.errors import InputError

BUDGET = Box([0, 0, 0], [1, 1, 1], ([[1.0, 2.0, 0.5]], [1.2]))


def test_the_largest_score_of_points():
    points = Points([0.1, 0.5, 0.9])
    assert points.best(lambda x: -((x[:, 0] - 0.6) ** 2), np.random.default_rng(0)) == 0.5
    with pytest.raises(InputError, match="isn't one of the points"):
        points.check(np.array([0.2]))


@pytest.mark.parametrize("towards", [[1, 1, 1], [1, 0.2, 0.1], [-1, -1, 3], [0.1, 2, 0.3]])
def test_a_linear_score_is_that_of_a_linear_program(towards):
    from scipy.optimize import linprog

    exact = linprog(-np.array(towards), A_ub=BUDGET.a, b_ub=BUDGET.b, bounds=[(0, 1)] * 3)
    found = BUDGET.best(lambda x: x @ towards, np.random.default_rng(0))
    BUDGET.check(found)
    assert found @ towards == pytest.approx(-exact.fun, abs=1e-6)


def test_a_score_with_several_maxima():
    """Against a grid of the points that meet the constraint."""

    def score(x):
        return np.sin(9 * x[:, 0]) + np.cos(7 * x[:, 1]) * x[:, 2] + x[:, 1]

    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 61)] * 3), -1).reshape(-1, 3)
    grid = grid[grid @ BUDGET.a[0] <= BUDGET.b[0]]
    found = BUDGET.best(score, np.random.default_rng(1))
    BUDGET.check(found)
    assert score(found[None])[0] >= score(grid).max() - 1e-3


def test_random_points_meet_the_constraints():
    rng = np.random.default_rng(2)
    drawn = np.array([BUDGET.draw(rng) for _ in range(200)])
    for x in drawn:
        BUDGET.check(x)
    assert drawn.std(axis=0).min() > 0.1


def wavy(x):
    """A score of four numbers with many maxima."""
    return np.sin(2.1 * x[:, 0]) + np.cos(1.7 * x[:, 1]) * x[:, 2] - 0.05 * (x[:, 3] - x[:, 0]) ** 2


def enumerated(low, high, a, b, c, d):
    """Return all points of whole numbers that meet the constraints."""
    every = np.array(list(product(*(range(p, q + 1) for p, q in zip(low, high, strict=True)))))
    every = every[(every @ np.transpose(a) <= np.array(b) + 1e-9).all(axis=1)]
    return every[(every @ np.transpose(c) == np.array(d)).all(axis=1)]


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("costs", [[1, 1, 1, 1], [2, 3, 1, 1]])
def test_a_budget_of_whole_numbers_is_spent_exactly(few, costs, monkeypatch):
    """The enumerated maximum, by enumeration and by local search; random points are all of them."""
    if not few:
        monkeypatch.setattr("kem_pymc.bandits.space.ALL", 0)
    low, high = [0, -1, 0, 1], [6, 5, 7, 6]
    rest = [[[1, 1, 0, 0]], [7]], [[costs], [12]]
    space = Box(low, high, rest[0], equalities=rest[1], whole=range(4))
    every = enumerated(low, high, *rest[0], *rest[1])
    assert (space.points is not None) == few
    if few:
        assert {tuple(x) for x in space.points} == {tuple(x) for x in every}
    for seed in range(3):
        turn = np.random.default_rng(seed).permutation(4)
        found = space.best(lambda x, turn=turn: wavy(x[:, turn]), np.random.default_rng(seed))
        space.check(found)
        assert found @ costs == 12
        assert wavy(found[None, turn])[0] == wavy(every[:, turn]).max()
    rng = np.random.default_rng(5)
    for x in (space.draw(rng) for _ in range(40)):
        space.check(x)
        assert tuple(x) in {tuple(own) for own in every}


def test_rounding_is_that_of_largest_remainders():
    space = Box([0] * 5, [20] * 5, equalities=([[1] * 5], [20]), whole=range(5))
    rng = np.random.default_rng(3)
    for _ in range(20):
        x = 20 * rng.dirichlet(np.ones(5))
        rounded = np.floor(x)
        rounded[np.argsort(rounded - x)[: int(20 - rounded.sum())]] += 1
        np.testing.assert_array_equal(space._nearest(x), rounded)


def test_steps_exchange_what_the_budget_fixes():
    """From a corner to the largest value of a concave score, by enumeration."""
    space = Box([0] * 4, [9] * 4, equalities=([[1, 1, 2, 1]], [12]), whole=range(4))

    def score(x):
        return -((x - [1.2, 4.1, 2.2, 2.4]) ** 2) @ [1.0, 2.0, 1.0, 3.0]

    every = score(space.points)
    found = space._stepped(score, space.points[np.argmin(every)])
    assert score(found[None])[0] == pytest.approx(every.max())
    assert every.max() > every.min() + 10


def test_a_category_with_doses():
    """One of three drugs, whole doses within a budget, and a time that may have a fraction."""
    space = Box(
        *([0] * 6, [1, 1, 1, 9, 9, 4]),
        ([[0, 0, 0, 2, 1, 0]], [13]),
        equalities=([[1, 1, 1, 0, 0, 0]], [1]),
        whole=range(5),
    )

    def score(x):
        gain = x[:, 0] * np.sin(x[:, 3]) + x[:, 1] * x[:, 4] / 4 + x[:, 2] * np.cos(x[:, 3])
        return gain + 0.1 * x[:, 3] - (x[:, 5] - 2.5 - 0.1 * x[:, 4]) ** 2

    every = enumerated([0] * 5, [1, 1, 1, 9, 9], [[0, 0, 0, 2, 1]], [13], [[1, 1, 1, 0, 0]], [1])
    ideal = np.column_stack([every, 2.5 + 0.1 * every[:, 4]])
    found = space.best(score, np.random.default_rng(0))
    space.check(found)
    np.testing.assert_allclose(found, ideal[np.argmax(score(ideal))], atol=1e-4)


def test_a_budget_of_fractions_is_spent():
    """Against the closed form of a concave score, on the simplex."""
    space = Box([0, 0, 0], [2, 2, 2], equalities=([[1, 1, 1]], [3]))
    found = space.best(lambda x: np.log1p(x) @ [1.0, 2.0, 3.0], np.random.default_rng(0))
    space.check(found)
    np.testing.assert_allclose(found, [0, 1, 2], atol=1e-3)
    for x in (space.draw(np.random.default_rng(i)) for i in range(50)):
        space.check(x)


def test_parameters_of_optuna_are_points():
    """Rows of the lifelong sampler's space, with categories as columns."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    from kem_pymc.lifelong.space import Space

    named = Space({"drug": CategoricalDistribution(["a", "b"]), "dose": IntDistribution(1, 4)})
    points = Points(named.every(100))
    best = points.best(lambda x: x[:, 1] * x[:, 2] - 0.5 * x[:, 2], np.random.default_rng(0))
    assert named.decode(best) == {"drug": "b", "dose": 4}


def test_what_is_refused():
    with pytest.raises(InputError, match="No point with whole numbers"):
        Box([0, 0], [4, 4], equalities=([[2, 2]], [5]), whole=[0, 1])
    with pytest.raises(InputError, match="whole and other numbers"):
        Box([0, 0], [4, 4], equalities=([[1, 1]], [5]), whole=[0])
    with pytest.raises(InputError, match="has one value only"):
        Box([0.5, 0], [1.5, 4], whole=[0])
    with pytest.raises(InputError, match="whole is 2"):
        Box([0, 0], [4, 4], whole=[2])
    with pytest.raises(InputError, match="No point of the box meets"):
        Box([0, 0], [1, 1], equalities=([[1, 1]], [3]))
    doses = Box([0, 0], [4, 4], equalities=([[1, 1]], [5]), whole=[0, 1])
    with pytest.raises(InputError, match="has a fraction"):
        doses.check(np.array([2.5, 2.5]))
    with pytest.raises(InputError, match="violates a constraint by 1"):
        doses.check(np.array([2.0, 2.0]))
    with pytest.raises(InputError, match="No point of the box meets"):
        Box([0, 0], [1, 1], ([[1, 1]], [-0.5]))
    with pytest.raises(InputError, match="is empty"):
        Box([0, 1], [1, 1])
    with pytest.raises(InputError, match="a row of 2 coefficients"):
        Box([0, 0], [1, 1], ([[1, 1, 1]], [1]))
    with pytest.raises(InputError, match="Give coefficients and limits"):
        Box([0, 0], [1, 1], [[1, 1]])
    with pytest.raises(InputError, match="points have rows of unequal length"):
        Points([[1.0], [1.0, 2.0]])
    with pytest.raises(InputError, match="points have shape"):
        Points([])
    with pytest.raises(InputError, match="isn't in the box"):
        BUDGET.check(np.array([2.0, 0, 0]))
    with pytest.raises(InputError, match=r"violates a constraint by 0\.3"):
        BUDGET.check(np.array([1.0, 0.25, 0]))
