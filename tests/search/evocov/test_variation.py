"""Variation: types, limits, inheritance, and where randomness comes from."""

import random

import numpy as np
import pytest

from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.strategies import PsdCheck
from kem_pymc.search.evocov.tree import Tree, numbered
from kem_pymc.search.evocov.variation import (
    ATTEMPTS,
    crossover,
    inherit,
    mutation,
    random_tree,
    vary,
)
from tests.search.evocov.trees import SE, TABLE_1


def fitted(text, natural):
    tree = Tree.parse(text)
    return Individual(tree, np.array([*natural, 0.1]), 0.0, 0.0, {})


PARENTS = [fitted(text, natural) for text, _, natural in TABLE_1.values()]


def children(operator, number=100):
    """Return children of random trees, each after a check of its types."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(number):
        one, other = random_tree(rng), random_tree(rng)
        nodes = crossover(one, other, rng) if operator == "crossover" else mutation(one, rng)
        tree, _ = numbered(nodes)
        assert Tree.parse(str(tree)) == tree
        found.append((one, tree))
    return found


@pytest.mark.parametrize("operator", ["crossover", "mutation"])
def test_types_are_kept(operator):
    found = children(operator)
    assert sum(one != child for one, child in found) > 50


def test_offspring_is_positive_semi_definite_and_within_the_limits():
    rng = np.random.default_rng(1)
    check = PsdCheck(1, rng)
    parents = PARENTS
    for _ in range(10):
        offspring = [vary(parents, check, rng) for _ in range(12)]
        for child in offspring:
            assert PsdCheck(1, np.random.default_rng(1))(child.tree)
            assert len(child.inherited) == len(child.tree.hyperparameters) + 1 <= 21
            assert child.tree.depth <= 40
        parents = [
            Individual(child.tree, np.nan_to_num(child.inherited, nan=1.0), 0.0, 0.0, {})
            for child in offspring
        ]


def test_limits_are_those_of_depth_and_hyperparameters():
    """Two deep parents with many hyperparameters: most crossovers would exceed a limit."""
    deep = 34 * "exp(" + SE + 34 * ")"
    wide = "hp(h0)"
    for i in range(1, 14):
        wide = f"add({wide}, hp(h{i}))"
    parents = [fitted(deep, [1, 1]), fitted(wide, range(1, 15)), fitted(wide, range(1, 15))]
    rng = np.random.default_rng(2)
    found = [vary(parents, lambda _: True, rng).tree for _ in range(100)]
    assert max(tree.depth for tree in found) <= 40
    assert max(len(tree.hyperparameters) for tree in found) <= 20


def test_values_follow_their_hyperparameters():
    """Catches values that are given to the other parent's hyperparameter of the same name."""
    one, other = fitted(SE, [1.0, 2.0]), fitted(SE, [3.0, 4.0])
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(50):
        tree, origins = numbered(crossover(one.tree, other.tree, rng))
        values = inherit([one, other], origins)
        assert values[-1] == 0.1
        for i, node in enumerate(tree):
            if node.name.startswith("h") and node.name != "hp":
                value = values[tree.hyperparameters.index(node.name)]
                seen.add(value)
                assert value in ((1.0, 3.0) if tree[i - 1].name == "hp" else (2.0, 4.0))
    assert seen == {1.0, 2.0, 3.0, 4.0}


def test_new_hyperparameters_inherit_nothing():
    rng = np.random.default_rng(4)
    parent = fitted("exp(multiply(-0.5, sq_dist(euc(x), h0)))", [2.0])
    mutants = [numbered(mutation(parent.tree, rng)) for _ in range(100)]
    fresh = [inherit([parent], origins) for _, origins in mutants]
    assert any(np.isnan(values[:-1]).any() for values in fresh)
    assert {v for values in fresh for v in values[:-1] if not np.isnan(v)} == {2.0}


def test_gives_up_after_250_attempts():
    calls = []
    parent = fitted(SE, [1.0, 2.0])
    rng = np.random.default_rng(5)
    child = vary([parent], lambda tree: bool(calls.append(tree)), rng)
    assert child.tree == parent.tree
    np.testing.assert_array_equal(child.inherited, parent.natural)
    assert 150 < len(calls) <= ATTEMPTS  # attempts that change nothing aren't checked


def test_randomness_is_that_of_the_generator_alone():
    """DEAP draws from Python's global generator, which users may use as well."""

    def vary_many():
        rng = np.random.default_rng(6)
        check = PsdCheck(1, rng)
        return [str(vary(PARENTS, check, rng).tree) for _ in range(20)]

    random.seed(1)
    expected = random.getstate()
    found = vary_many()
    assert random.getstate() == expected
    random.seed(2)
    assert vary_many() == found
