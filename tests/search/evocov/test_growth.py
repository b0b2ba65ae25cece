"""Random trees."""

import numpy as np

from kem_pymc.search.evocov.primitives import primitive_set
from kem_pymc.search.evocov.tree import Tree
from kem_pymc.search.evocov.variation import grow, random_tree


def trees(seed, number=200):
    rng = np.random.default_rng(seed)
    return [random_tree(rng) for _ in range(number)]


def test_types_and_depths():
    """Catches branches of a wrong type, and ones that are cut or continued at a wrong level.

    The smallest depth is 5, but a hyperparameter is a leaf wherever it is an argument.
    """
    found = trees(0)
    for tree in found:
        assert Tree.parse(str(tree)) == tree
        assert tree.hyperparameters == tuple(f"h{i}" for i in range(len(tree.hyperparameters)))
    depths = [tree.depth for tree in found]
    assert min(depths) >= 4
    assert 10 < max(depths) <= 15


def test_branches_end_in_time():
    """Few random trees are as deep as they may be, so the limit is a small one here."""
    rng = np.random.default_rng(5)
    depths = [Tree(grow(rng, shallowest=5, deepest=6)).depth for _ in range(100)]
    assert max(depths) == 6


def test_every_primitive_occurs():
    names = {node.name for tree in trees(1) for node in tree}
    assert names >= {name for name in primitive_set().mapping if not name.startswith("h")}
