"""The check of positive semi-definiteness on kernels for which the answer is known."""

import numpy as np
import pytest

from kem_pymc.search.evocov.strategies import PsdCheck
from kem_pymc.search.evocov.tree import Tree
from tests.search.evocov.trees import SE, TABLE_1

#: Positive semi-definite for all hyperparameters, and functions of the inputs.
KNOWN = [name for name in TABLE_1 if name not in ("constant", "gamma-exponential")]


@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize("name", KNOWN)
def test_well_known_kernels_pass(name, dimension):
    """Catches a tolerance so small that rounding errors of smooth kernels are rejected."""
    check = PsdCheck(dimension, np.random.default_rng(0))
    assert check(Tree.parse(TABLE_1[name][0]))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("sq_dist(euc(x), h0)", "negative eigenvalue"),
        ("exp(sq_dist(euc(x), h0))", "negative eigenvalue"),
        ("exp(multiply(-0.5, square(sq_dist(euc(x), h0))))", "negative eigenvalue"),
        (f"add({SE}, multiply(-0.5, {SE.replace('h1', 'h2')}))", "negative eigenvalue"),
        (TABLE_1["gamma-exponential"][0], "negative eigenvalue"),  # beyond an exponent of 2
        # Far smaller than the largest eigenvalue, but not rounding error.
        ("add(square(square(5.0)), multiply(-0.5, sq_dist(euc(x), h0)))", "negative eigenvalue"),
        (f"multiply(-1.0, {SE})", "negative variance"),
        ("div(sq_dist(euc(x), h0))", "division by zero"),
        ("sqrt(multiply(-1.0, sq_dist(euc(x), h0)))", "undefined value"),
        ("exp(exp(exp(exp(add(2.0, sq_dist(euc(x), h0))))))", "overflow"),
        ("multiply(hp(h0), exp(2.0))", "constant"),
    ],
)
def test_others_are_rejected(text, result):
    check = PsdCheck(1, np.random.default_rng(0))
    assert not check(Tree.parse(text))
    assert check.result(Tree.parse(text)) == result
