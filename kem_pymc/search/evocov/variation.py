"""Random trees, their crossover and mutation (Roman et al. 2019, algorithm 2, section 4.2)."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from deap import gp

from kem_pymc.search.evocov.individual import Individual, Offspring
from kem_pymc.search.evocov.primitives import HYPERPARAMETERS, NESTABLE, Covariance, primitive_set
from kem_pymc.search.evocov.simplification import simplified
from kem_pymc.search.evocov.tree import MOST_LEVELS, Origin, Tree, numbered

#: Smallest and largest depth of random trees, in levels of nodes.
SHALLOWEST, DEEPEST = 5, 15

#: Probability of a crossover; otherwise there is a mutation.
CROSSOVER = 0.6

#: Number of attempts to vary a kernel.
ATTEMPTS = 250


def random_tree(rng: np.random.Generator) -> Tree:
    """Return a random tree, which may not be positive semi-definite."""
    return numbered([(0, node) for node in grow(rng)])[0]


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


def vary(
    parents: Sequence[Individual], check: Callable[[Tree], bool], rng: np.random.Generator
) -> Offspring:
    """Return a random variation of kernels, by crossover or mutation.

    The operator is repeated until the kernel, simplified, is another one, has at most 40 levels and
    20 hyperparameters, and is positive semi-definite. After 250 attempts a parent is returned
    unchanged.

    Parameters
    ----------
    parents : sequence of Individual
        Kernels from which the parents are chosen. A single one is only mutated.
    check : callable
        Whether a kernel is positive semi-definite, :class:`PsdCheck`.
    rng : numpy.random.Generator

    Returns
    -------
    Offspring
    """
    crossing = len(parents) > 1 and rng.random() < CROSSOVER
    chosen = [parents[i] for i in rng.choice(len(parents), 2 if crossing else 1, replace=False)]
    trees = [parent.tree for parent in chosen]
    for _ in range(ATTEMPTS):
        nodes = crossover(trees[0], trees[1], rng) if crossing else mutation(trees[0], rng)
        tree, origins = numbered(nodes)
        if len(origins) > HYPERPARAMETERS or tree.depth > MOST_LEVELS:
            continue
        tree, values = simplified(tree, inherit(chosen, origins))
        if tree not in trees and check(tree):
            return Offspring(tree, values)
    return Offspring(trees[0], chosen[0].natural)


def crossover(one: Tree, other: Tree, rng: np.random.Generator) -> list[tuple[int, Any]]:
    """Return the sum or the product of two random subtrees, of type `Covariance`.

    Returns
    -------
    list of tuple of int and DEAP node
        The nodes in prefix order, each with the number of the parent it comes from.
    """
    join = ("add", "multiply")[rng.integers(2)]
    nodes: list[tuple[int, Any]] = [(0, primitive_set().mapping[join])]
    for number, tree in enumerate((one, other)):
        places = [i for i, node in enumerate(tree) if node.ret is Covariance]
        chosen = tree.searchSubtree(places[rng.integers(len(places))])
        nodes += [(number, node) for node in tree[chosen]]
    return nodes


def mutation(tree: Tree, rng: np.random.Generator) -> list[tuple[int, Any]]:
    """Return the nodes of a kernel after one of DEAP's mutations, with the parent's number 0.

    An operator is inserted, a branch is replaced by one of its arguments or by a random one, or a
    node is replaced by another of the same types.
    """
    mutant = Tree(tree)
    kind = rng.integers(4)
    with python_random(rng):
        if kind == 0:
            gp.mutInsert(mutant, primitive_set())
        elif kind == 1:
            gp.mutShrink(mutant)
        elif kind == 2:
            gp.mutUniform(mutant, lambda type_, **_: grow(rng, type_), primitive_set())
        else:
            gp.mutNodeReplacement(mutant, primitive_set())
    return [(0, node) for node in mutant]


def inherit(parents: Sequence[Individual], origins: Sequence[Origin]) -> np.ndarray:
    """Return natural values (k + 1,) from the parents, NaN where they have none.

    The noise is that of the first parent.
    """
    values_of_parents = [
        dict(zip(parent.tree.hyperparameters, parent.natural[:-1], strict=True))
        for parent in parents
    ]
    values = [values_of_parents[number].get(name, np.nan) for number, name in origins]
    return np.array([*values, parents[0].natural[-1]])


@contextmanager
def python_random(rng: np.random.Generator) -> Iterator[None]:
    """Seed Python's global generator while DEAP draws from it, and restore it afterwards.

    DEAP's operators accept no generator. The seed is drawn from `rng`, so that results depend on
    `rng` alone, and users' own draws from the global generator don't depend on us.
    """
    state = random.getstate()
    random.seed(int(rng.integers(2**63)))
    try:
        yield
    finally:
        random.setstate(state)
