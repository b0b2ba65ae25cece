"""Compare evaluations of evolved kernels, with gradients, with NumPy's and LAPACK's without them.

Kernels are random trees that pass the check of positive semi-definiteness, on 129 points of one
input, as of the training part of the airline data. Ours is the log marginal likelihood with its
gradient. The floor is the value alone of the same tree: elementwise NumPy functions on whole
matrices, then LAPACK's Cholesky factorisation and solution. Both use one thread; times are CPU
seconds of calls from Python. Log likelihoods are first checked to be equal. Run it twice after a
change of compiled code: the process that compiles the interpreter may run functions that were
optimised less, and takes up to twice as long.

    uv run python benchmarks/evocov.py
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from measure import Row, at_least, in_turns
from scipy.linalg.lapack import dpotrf, dpotrs

from kem_pymc.search.evocov.objective import TreeObjective
from kem_pymc.search.evocov.strategies import PsdCheck
from kem_pymc.search.evocov.tree import Tree, is_hyperparameter
from kem_pymc.search.evocov.variation import random_tree

POINTS, TREES = 129, 6

#: Smallest number of hyperparameters of the trees.
FEWEST = 2

#: Functions of the primitives, for pairs of points (n, 1, F) and (1, n, F).
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "euc": lambda pair: pair,
    "spectral": lambda pair, w: [
        np.concatenate([np.sin(w * points), np.cos(w * points)], axis=2) for points in pair
    ],
    "sq_dist": lambda pair, scale: ((pair[0] - pair[1]) ** 2).sum(axis=2) / scale**2,
    "dot_prod": lambda pair, s, scale: ((pair[0] - s) * (pair[1] - s)).sum(axis=2) / scale,
    "hp": lambda h: h,
    "power": np.power,
    "add": np.add,
    "multiply": np.multiply,
    "div": np.reciprocal,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "square": np.square,
}


def floor(tree: Tree, x: np.ndarray, y: np.ndarray, values: np.ndarray) -> float:
    """Return the log marginal likelihood at coordinates."""
    natural = np.where([*tree.positive, True], np.exp(values), values)
    h = dict(zip(tree.hyperparameters, natural, strict=False))
    stack: list[Any] = []
    for node in reversed(tree):
        arguments = [stack.pop() for _ in range(node.arity)]
        if node.name in FUNCTIONS:
            stack.append(FUNCTIONS[node.name](*arguments))
        elif is_hyperparameter(node):
            stack.append(h[node.name])
        else:
            stack.append((x[:, None], x[None]) if node.name == "x" else node.value)
    c = stack[0] + natural[-1] * np.eye(len(y))
    lower, _ = dpotrf(c.T, lower=1, clean=0, overwrite_a=1)
    fit = y @ dpotrs(lower, y, lower=1)[0]
    return -0.5 * fit - np.log(np.diag(lower)).sum() - 0.5 * len(y) * math.log(2 * math.pi)


def kernels(x: np.ndarray, y: np.ndarray, noise: float) -> list[tuple[Tree, np.ndarray]]:
    """Return random trees, and coordinates at which they have a likelihood."""
    rng = np.random.default_rng(0)
    check = PsdCheck(1, rng)
    found: list[tuple[Tree, np.ndarray]] = []
    while len(found) < TREES:
        tree = random_tree(rng)
        values = np.append(rng.normal(0, 0.5, len(tree.hyperparameters)), noise)
        if (
            len(values) > FEWEST
            and check(tree)
            and not TreeObjective(tree, x, y).evaluate(values)[2]
        ):
            found.append((tree, values))
    return found


def rows() -> list[Row]:
    """Return, for each tree, how many evaluations take as long as one of the floor."""
    rng = np.random.default_rng(1)
    x = np.linspace(0, 1, POINTS)[:, None]
    y = np.sin(40 * x[:, 0]) + x[:, 0] + 0.3 * rng.normal(size=POINTS)
    found = []
    for tree, values in kernels(x, y, math.log(0.1)):
        objective = TreeObjective(tree, x, y)
        own, simple = objective.evaluate(values).height, floor(tree, x, y, values)
        assert math.isclose(own, simple, rel_tol=1e-6), (own, simple)
        ours, theirs = in_turns(
            partial(objective.evaluate, values), partial(floor, tree, x, y, values)
        )
        label = f"{len(tree)} nodes: {1 / ours:.0f}/s with gradient, value alone {1 / theirs:.0f}/s"
        found.append(at_least(label, theirs / ours, 0.5, "x"))
    return found


if __name__ == "__main__":
    from run import main

    main(("evocov",))
