"""Simplified trees: the same covariances, by an evaluation of their own with many digits."""

import math

import mpmath
import numpy as np
import pytest
import sympy

from kem_pymc.search.evocov.fitting import coordinates_of
from kem_pymc.search.evocov.individual import Offspring
from kem_pymc.search.evocov.objective import covariances
from kem_pymc.search.evocov.simplification import simplified
from kem_pymc.search.evocov.tape import lower
from kem_pymc.search.evocov.tree import Tree, is_hyperparameter
from kem_pymc.search.evocov.variation import random_tree
from tests.search.evocov.trees import TABLE_1

mpmath.mp.dps = 40

#: Values between whose inverse and which a tree is well-conditioned enough for rounded constants.
LARGEST = 30.0


class UndefinedError(Exception):
    """A value isn't real, or too large to compare."""


def exactly(tree, natural, x, z, largest=mpmath.inf):
    """The value of a tree for two numbers, from the definitions of table 2."""
    values = {name: mpmath.mpf(v) for name, v in zip(tree.hyperparameters, natural, strict=False)}
    stack = []
    for node in reversed(tree):
        given = [stack.pop() for _ in range(node.arity)]
        stack.append(_operation(node, given, values, x, z))
        value = stack[-1]
        if isinstance(value, mpmath.mpf) and not 1 / largest <= abs(value) <= largest:
            raise UndefinedError
    return stack[0]


def _operation(node, given, values, x, z):
    if node.name == "x":
        return ([x], [z])
    if node.name == "euc":
        return given[0]
    if node.name == "spectral":
        return tuple([f(given[1] * p[0]) for f in (mpmath.sin, mpmath.cos)] for p in given[0])
    if node.name == "sq_dist":
        return sum((a - b) ** 2 for a, b in zip(*given[0], strict=True)) / given[1] ** 2
    if node.name == "dot_prod":
        (one, other), shift, length = given
        return sum((a - shift) * (b - shift) for a, b in zip(one, other, strict=True)) / length
    if is_hyperparameter(node):
        return values[node.name]
    if not node.arity:
        return mpmath.mpf(node.value)
    if node.name in ("power", "sqrt") and given[0] < 0:
        raise UndefinedError
    return {
        "hp": lambda a: a,
        "power": lambda a, h: a**h,
        "add": lambda a, b: a + b,
        "multiply": lambda a, b: a * b,
        "div": lambda a: 1 / a,
        "exp": mpmath.exp,
        "sqrt": mpmath.sqrt,
        "square": lambda a: a * a,
    }[node.name](*given)


def random_values(tree, rng):
    """Positive values, and any for shifts; the last is the noise."""
    values = np.exp(rng.uniform(-1.0, 1.0, len(tree.hyperparameters) + 1))
    return np.where([*tree.positive, True], values, rng.uniform(-1.0, 1.0, len(values)))


def test_covariances_of_random_trees_are_the_same():
    """Fails for a rule that is wrong for negative values, or a value that isn't rescaled."""
    rng = np.random.default_rng(0)
    compared = fewer = joined = 0
    for _ in range(600):
        tree = random_tree(rng)
        natural = random_values(tree, rng)
        simple, values = simplified(tree, natural)
        again, _ = simplified(simple, values)
        assert again == simple
        assert len(values) <= len(natural)
        assert values[-1] == natural[-1]
        for x, z in rng.uniform(-1.0, 1.0, (2, 2)):
            try:
                expected = exactly(tree, natural[:-1], x, z, LARGEST)
            except UndefinedError:
                continue
            got = exactly(simple, values[:-1], x, z)
            assert abs(got - expected) <= 1e-12 * abs(expected), tree
            compared += 1
            fewer += len(simple) < len(tree)
            joined += len(values) < len(natural)
    assert compared > 120
    assert fewer > 0.5 * compared
    assert joined > 8


#: Trees and what they reduce to.
REDUCED = {
    "multiply(1.0, exp(hp(h0)))": "exp(hp(h0))",
    "sqrt(square(sq_dist(euc(x), h0)))": "sq_dist(euc(x), h0)",
    "sqrt(square(dot_prod(euc(x), h0, h1)))": "sqrt(square(dot_prod(euc(x), h0, h1)))",
    "square(sqrt(dot_prod(euc(x), h0, h1)))": "dot_prod(euc(x), h0, h1)",
    "sqrt(sqrt(square(square(dot_prod(euc(x), h0, h1)))))": (
        "sqrt(square(dot_prod(euc(x), h0, h1)))"
    ),
    "square(sqrt(square(dot_prod(euc(x), h0, h1))))": "square(dot_prod(euc(x), h0, h1))",
    "multiply(-1.0, multiply(exp(sq_dist(euc(x), h0)), -1.0))": "exp(sq_dist(euc(x), h0))",
    "multiply(exp(add(0.5, -0.5)), sq_dist(euc(x), h0))": "sq_dist(euc(x), h0)",
    "add(add(sq_dist(euc(x), h0), 5.0), add(-2.0, -3.0))": "sq_dist(euc(x), h0)",
    "div(div(exp(exp(hp(h0)))))": "exp(exp(hp(h0)))",
    "add(exp(hp(h0)), add(exp(hp(h0)), exp(hp(h0))))": "multiply(3.0, exp(hp(h0)))",
    "multiply(exp(hp(h0)), div(exp(hp(h0))))": "1.0",
    "multiply(sqrt(exp(hp(h0))), sqrt(exp(hp(h0))))": "exp(hp(h0))",
    "add(2.0, square(0.5))": "2.25",
}


@pytest.mark.parametrize(("text", "reduced"), REDUCED.items())
def test_reduces(text, reduced):
    """SymPy finds that both are the same."""
    tree = Tree.parse(text)
    simple, _ = simplified(tree, Offspring.of(tree).inherited)
    assert str(simple) == reduced
    h0, distance = sympy.symbols("h0, distance", positive=True)
    functions = {
        "x": sympy.Symbol("x"),
        "h0": h0,
        "h1": sympy.Symbol("h1", positive=True),
        "hp": lambda value: value,
        "euc": lambda value: value,
        "sq_dist": lambda _, length: distance / length**2,
        "dot_prod": lambda _points, _shift, length: sympy.Symbol("product", real=True) / length,
        "add": sympy.Add,
        "multiply": sympy.Mul,
        "div": lambda value: 1 / value,
        "square": lambda value: value**2,
    }
    one, other = (sympy.sympify(str(each), functions) for each in (tree, simple))
    assert sympy.simplify(one - other) == 0


@pytest.mark.parametrize(
    ("text", "joined", "natural"),
    [
        ("multiply(hp(h0), hp(h1))", "hp(h0)", [6.0]),
        ("add(hp(h0), hp(h1))", "hp(h0)", [5.0]),
        ("power(square(hp(h0)), h1)", "hp(h0)", [2.0**6]),
        ("multiply(2.0, div(hp(h0)))", "hp(h0)", [1.0]),
        ("multiply(hp(h0), sq_dist(euc(x), h1))", "sq_dist(euc(x), h0)", [3.0 / 2.0**0.5]),
        ("multiply(hp(h2), dot_prod(euc(x), h0, h1))", "dot_prod(euc(x), h0, h1)", [3.0, 2.5]),
        ("multiply(hp(h0), exp(hp(h0)))", "multiply(exp(hp(h0)), hp(h0))", [2.0]),
        (
            "multiply(hp(h0), add(hp(h1), multiply(exp(hp(h2)), hp(h3))))",
            "add(multiply(exp(hp(h0)), hp(h1)), hp(h2))",
            [5.0, 14.0, 6.0],
        ),
    ],
)
def test_scales_join_with_their_values(text, joined, natural):
    """Those that occur elsewhere, too, don't."""
    tree = Tree.parse(text)
    values = np.array([*[2.0, 3.0, 5.0, 7.0][: len(tree.hyperparameters)], 0.1])
    simple, got = simplified(tree, values)
    assert str(simple) == joined
    np.testing.assert_allclose(got, [*natural, 0.1], rtol=1e-14)


def test_values_that_cannot_be_inherited():
    """A scale that is new leaves the others as they are: a mutant of equal form isn't another."""
    tree = Tree.parse("multiply(hp(h0), multiply(hp(h1), exp(hp(h2))))")
    for first, joined in ((2.0, 2.0), (math.nan, math.nan)):
        simple, values = simplified(tree, np.array([first, math.nan, -1.0, 0.1]))
        assert str(simple) == "multiply(exp(hp(h0)), hp(h1))"
        np.testing.assert_array_equal(values, [math.nan, joined, 0.1])


@pytest.mark.parametrize("text", ["exp(exp(exp(exp(5.0))))", "div(add(1.0, -1.0))", "sqrt(-1.0)"])
def test_keeps_what_has_no_value(text):
    tree = Tree.parse(f"multiply(1.0, {text})")
    assert simplified(tree, np.array([0.1]))[0] is tree


def test_well_known_kernels_keep_their_covariance():
    rng = np.random.default_rng(1)
    for text, closed_form, values in TABLE_1.values():
        tree = Tree.parse(text)
        simple, natural = simplified(tree, np.array([*values, 0.1]))
        x = rng.uniform(size=(6, 1))
        coordinates = coordinates_of(natural, np.array([*simple.positive, True]))
        got, _ = covariances(lower(simple), x, coordinates)
        np.testing.assert_allclose(got, closed_form(x, *values), rtol=1e-12)


def test_an_evolved_kernel_loses_its_ballast():
    """Two that evolved before kernels were simplified, for airline."""
    tree = Tree.parse(
        "multiply(sqrt(square(add(exp(-0.5), div(square(0.5))))), add(add(square(add("
        "dot_prod(spectral(x, h0), h1, h2), multiply(dot_prod(euc(x), h3, h1), div(multiply(1.0, "
        "exp(sqrt(sq_dist(spectral(x, h2), h0)))))))), 2.0), -0.5))"
    )
    assert simplified(tree, Offspring.of(tree).inherited)[0].formula() == (
        "4.60653 * (((x - h0)·(x' - h0) / h1 * exp(-sqrt(|sincos(h2 x) - sincos(h2 x')|^2 / h3^2)) "
        "+ (sincos(h3 x) - h1)·(sincos(h3 x') - h1) / h2)^2 + 1.5)"
    )
    tree = Tree.parse(
        "square(add(-0.5, div(multiply(add(1.0, hp(h0)), multiply(square(-1.0), "
        "square(exp(sq_dist(euc(x), h1))))))))"
    )
    assert simplified(tree, Offspring.of(tree).inherited)[0].formula() == (
        "(exp(-|x - x'|^2 / h0^2) / (h1 + 1) - 0.5)^2"
    )
