"""Random growth of expression trees (Roman et al. 2019, algorithm 2)."""

from typing import Any

import numpy as np
from deap import gp

from kem_pymc.search.evocov.primitives import NESTABLE, Covariance, primitive_set
from kem_pymc.search.evocov.tree import Tree

#: Smallest and largest depth of random trees, in levels of nodes.
SHALLOWEST, DEEPEST = 5, 15


def random_tree(rng: np.random.Generator) -> Tree:
    """Return a random tree, which may not be positive semi-definite."""
    return Tree(grow(rng)).numbered()


def grow(
    rng: np.random.Generator,
    kind: type = Covariance,
    shallowest: int = SHALLOWEST,
    deepest: int = DEEPEST,
) -> list[Any]:
    """Return the nodes of a random tree of a type, in prefix order.

    Branches continue with nestable primitives until the smallest depth is near, and end, in
    primitives that aren't nestable or in leaves, when the largest depth is. A branch may be shorter
    than the smallest depth where its type allows nothing else, such as that of an exponent.

    Parameters
    ----------
    rng : numpy.random.Generator
    kind : type
        Type of the root, from :mod:`kem_pymc.search.evocov.primitives`.
    shallowest, deepest : int
        Smallest and largest number of levels.

    Returns
    -------
    list of DEAP nodes
    """
    primitives = primitive_set()
    leaves, inner = primitives.terminals[kind], primitives.primitives[kind]
    nestable = [node for node in inner if node.name in NESTABLE]
    others = [node for node in inner if node.name not in NESTABLE]
    candidates: list[Any] = []
    if shallowest <= 3:
        candidates += others
    if shallowest <= 1:
        candidates += leaves
    if deepest >= 4:
        candidates += nestable
    candidates = candidates or [*leaves, *others, *nestable]
    node = candidates[rng.integers(len(candidates))]
    nodes = [node]
    if isinstance(node, gp.Primitive):
        for argument in node.args:
            nodes += grow(rng, argument, shallowest - 1, deepest - 1)
    return nodes
