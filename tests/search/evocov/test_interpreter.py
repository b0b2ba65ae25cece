"""The compiled interpreter beside PyTensor, finite differences and closed forms."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from kem_pymc.search.evocov.interpreter import (
    DIVISION,
    FINE,
    OVERFLOW,
    UNDEFINED,
    WIDTH,
)
from kem_pymc.search.evocov.objective import TreeObjective, covariances
from kem_pymc.search.evocov.tape import lower
from kem_pymc.search.evocov.tree import Tree
from tests.search.evocov.trees import PRIMITIVES, TABLE_1

#: Number of points in most tests.
POINTS = 30


def points(dimension, n=POINTS):
    return np.random.default_rng(0).uniform(size=(n, dimension))


def coordinates(tree, seed=1):
    return np.random.default_rng(seed).normal(0, 0.5, len(tree.hyperparameters))


def in_pytensor(tree, x, values, adjoint):
    """Return the covariance and the gradient, from PyTensor."""
    v = pt.dvector("v")
    natural_values = [pt.exp(v[i]) if p else v[i] for i, p in enumerate(tree.positive)]
    k = tree.to_pytensor(pt.as_tensor(x), pt.as_tensor(x), natural_values)
    k = pt.broadcast_to(k, adjoint.shape)
    total = (k * np.triu(adjoint)).sum()
    with pytensor.config.change_flags(cxx=""):
        return pytensor.function([v], [k, pt.grad(total, v)], mode="FAST_COMPILE")(values)


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("name", PRIMITIVES)
def test_values_and_gradients_are_those_of_pytensor(name, dimension):
    """Every primitive, also where its argument is zero, as distances are on the diagonal.

    Catches wrong derivatives, rows of a tape in the wrong order, and adjoints lost between blocks.
    """
    tree, x = Tree.parse(PRIMITIVES[name]), points(dimension)
    values = coordinates(tree)
    adjoint = np.random.default_rng(2).normal(size=(POINTS, POINTS))
    expected, slopes = in_pytensor(tree, x, values, adjoint)
    k, outcome = covariances(lower(tree), x, values)
    assert outcome == FINE
    np.testing.assert_allclose(k, expected, rtol=1e-12, atol=1e-14)

    def weighted(_c, _y, to_c):
        to_c[:, :POINTS] = adjoint
        return 0.0

    found = TreeObjective(tree, x, np.zeros(POINTS), weighted).evaluate(np.append(values, 0.0))
    np.testing.assert_allclose(found.gradient[:-1], slopes, rtol=1e-10, atol=1e-11)
    assert found.gradient[-1] == pytest.approx(np.trace(adjoint))


def test_rows_longer_than_a_block():
    """Catches pairs that are left out, or counted twice, where a row ends within a block."""
    tree, x = Tree.parse(PRIMITIVES["two frequencies"]), points(1, WIDTH + 9)
    values = np.append(coordinates(tree), 4.0)
    few, many = (TreeObjective(tree, own, np.sin(5 * own[:, 0])) for own in (x[-9:], x))
    np.testing.assert_allclose(
        covariances(many.tape, x, values)[0][-9:, -9:], covariances(few.tape, x[-9:], values)[0]
    )
    found = many.evaluate(values)
    for place, step in enumerate(1e-5 * np.eye(len(values))):
        rise = many.evaluate(values + step).height - many.evaluate(values - step).height
        assert found.gradient[place] == pytest.approx(rise / 2e-5, rel=1e-5, abs=1e-6)


TWICE = "exp(multiply(-1.0, add(sq_dist(euc(x), h0), sq_dist(euc(x), h0))))"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("div(exp(sq_dist(euc(x), h0)))", "exp(multiply(-1.0, sq_dist(euc(x), h0)))"),
        ("div(square(exp(sq_dist(euc(x), h0))))", TWICE),
        ("div(multiply(exp(sq_dist(euc(x), h0)), exp(sq_dist(euc(x), h0))))", TWICE),
        (
            "div(power(exp(sq_dist(euc(x), h0)), h1))",
            "exp(multiply(-1.0, multiply(sq_dist(euc(x), h0), hp(h1))))",
        ),
    ],
)
def test_values_that_overflow_within_a_finite_covariance_have_no_slope(text, same):
    """Catches zero times infinity in the reverse pass, which rejects the kernel."""
    x = points(1)
    y = np.sin(5 * x[:, 0])
    trees = Tree.parse(text), Tree.parse(same)
    values = np.array([*np.log([0.01, 3.0])[: len(trees[0].positive)], -1.0])
    found, expected = (TreeObjective(tree, x, y).evaluate(values) for tree in trees)
    assert found.outcome == FINE
    assert found.height == pytest.approx(expected.height, rel=1e-12)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-9)


@pytest.mark.parametrize("name", TABLE_1)
def test_well_known_kernels_are_closed_forms(name):
    """Table 1 is a part of the search space."""
    text, closed_form, hyperparameters = TABLE_1[name]
    tree, x = Tree.parse(text), points(1)
    shown = np.array(hyperparameters)
    positive = np.array(tree.positive)
    values = np.where(positive, np.log(np.where(positive, shown, 1.0)), shown)
    k, outcome = covariances(lower(tree), x, values)
    assert outcome == FINE
    np.testing.assert_allclose(k, closed_form(x, *hyperparameters), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("div(sq_dist(euc(x), h0))", DIVISION),
        ("exp(exp(exp(exp(2.0))))", OVERFLOW),
        ("sqrt(multiply(-1.0, sq_dist(euc(x), h0)))", UNDEFINED),
        ("power(-1.0, h0)", UNDEFINED),
        ("multiply(sq_dist(euc(x), h0), div(add(1.0, -1.0)))", DIVISION),
        ("div(div(sq_dist(euc(x), h0)))", FINE),
    ],
)
def test_says_why_a_covariance_is_not_finite(text, outcome):
    tree = Tree.parse(text)
    assert covariances(lower(tree), points(1), coordinates(tree))[1] == outcome
