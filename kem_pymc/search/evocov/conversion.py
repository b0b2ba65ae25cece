"""Conversion of compositions of base kernels into expression trees (Roman et al. 2019, table 1)."""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import reduce

import numpy as np

from kem_pymc.errors import InputError
from kem_pymc.gp.fit import bic
from kem_pymc.kernels.base import base_kernel
from kem_pymc.kernels.composition import Candidate
from kem_pymc.search.evaluation import Evaluation, Evaluator, coordinates_of
from kem_pymc.search.evocov.fitting import coordinates_of as coordinates_of_tree
from kem_pymc.search.evocov.individual import Individual, Offspring
from kem_pymc.search.evocov.objective import TreeObjective
from kem_pymc.search.evocov.primitives import HYPERPARAMETERS
from kem_pymc.search.evocov.simplification import simplified
from kem_pymc.search.evocov.tree import Tree
from kem_pymc.search.grammar import Grammar
from kem_pymc.search.hyperpriors import Hyperpriors
from kem_pymc.search.strategies import Greedy

#: Number of compositions that a search evaluates before kernels evolve.
COMPOSITIONS = 40

#: Makes the text of a hyperparameter with a value.
type Namer = Callable[[float], str]


def _squared_exponential(new: Namer, lengthscale: float) -> str:
    return f"exp(multiply(-0.5, sq_dist(euc(x), {new(lengthscale)})))"


def _rational_quadratic(new: Namer, lengthscale: float, mixture: float) -> str:
    shape = new(mixture)
    scaled = f"multiply(multiply(0.5, div(hp({shape}))), sq_dist(euc(x), {new(lengthscale)}))"
    return f"div(power(add(1.0, {scaled}), {shape}))"


def _periodic(new: Namer, lengthscale: float, period: float) -> str:
    # The squared distance of sines and cosines is 4 sin^2(pi (x - x') / period).
    wave = f"spectral(x, {new(2 * math.pi / period)})"
    return f"exp(multiply(-0.5, sq_dist({wave}, {new(lengthscale)})))"


#: Text of a base kernel with its hyperparameters. LIN has the amplitude of its product in addition.
TREES: dict[str, Callable[..., str]] = {
    "SE": _squared_exponential,
    "RQ": _rational_quadratic,
    "PER": _periodic,
}


def greedy(x: np.ndarray, y: np.ndarray, seed: int) -> tuple[Greedy, Evaluator]:
    """Return compositional kernel search by BIC on scaled data (n, 1), (n,), and its evaluator."""
    evaluator = Evaluator(x, y, Hyperpriors(), "bic", seed=seed)
    return Greedy(Grammar(1), np.random.default_rng(seed)), evaluator


def trees_of(evaluations: Sequence[Evaluation], x: np.ndarray, y: np.ndarray) -> list[Individual]:
    """Return models as trees with their values, and their BIC on data (n, 1), (n,).

    Those that can't be trees, or have no likelihood on the data, are left out.
    """
    found = []
    for evaluation in evaluations:
        with suppress(InputError):  # too many hyperparameters
            kernel = converted(evaluation)
            values = coordinates_of_tree(kernel.inherited, np.array([*kernel.tree.positive, True]))
            height = TreeObjective(kernel.tree, x, y).evaluate(values).height
            if math.isfinite(height):
                score = bic(height, len(values), len(y)).value
                found.append(Individual(kernel.tree, kernel.inherited, height, score, {}))
    return found


def converted(evaluation: Evaluation) -> Offspring:
    """Return the kernel of an evaluated model as a tree, with the fitted values.

    The constant mean of the model is left out. The amplitude of a product is a hyperparameter of
    its own, unless the product contains LIN, whose lengthscale then is its inverse.

    Parameters
    ----------
    evaluation : Evaluation
        Model on one input column, of the base kernels SE, RQ, LIN and PER.

    Returns
    -------
    Offspring

    Raises
    ------
    InputError
        If there are other base kernels, or more than 20 hyperparameters.
    """
    factors = [factor for candidate in evaluation.expression for factor in candidate.factors]
    unknown = [factor.base for factor in factors if factor.base not in ("LIN", *TREES)]
    if unknown:
        raise InputError(
            f"{unknown[0]} can't be written with the primitives of trees. "
            f"Use LIN, {', '.join(TREES)}."
        )
    values, noise = coordinates_of(evaluation.expression, 1).named(evaluation.values)
    natural: list[float] = []

    def new(value: float) -> str:
        natural.append(value)
        return f"h{len(natural) - 1}"

    texts = [
        _product(candidate, [values[h.name] for h in candidate.hyperparameters], new)
        for candidate in evaluation.expression
    ]
    if len(natural) > HYPERPARAMETERS:
        raise InputError(
            f"The kernel {evaluation.expression} has {len(natural)} hyperparameters, but a tree "
            f"has at most {HYPERPARAMETERS}. Convert a smaller kernel."
        )
    tree = Tree.parse(_joined("add", texts))
    return Offspring(*simplified(tree, np.array([*natural, noise])))


def _product(candidate: Candidate, values: list[float], new: Namer) -> str:
    """Return the text of a product with the values of its amplitude and its factors."""
    amplitude, left = values[0], iter(values[1:])
    has_line = any(factor.base == "LIN" for factor in candidate.factors)
    texts = [] if has_line else [f"hp({new(amplitude)})"]
    for factor in candidate.factors:
        given = [next(left) for _ in base_kernel(factor.base).hyperparameters]
        if factor.base == "LIN":
            texts.append(f"dot_prod(euc(x), {new(given[0])}, {new(1 / amplitude)})")
            amplitude = 1.0
        else:
            texts.append(TREES[factor.base](new, *given))
    return _joined("multiply", texts)


def _joined(name: str, texts: Iterable[str]) -> str:
    """Return the text of a sum or a product."""
    return reduce(lambda one, other: f"{name}({one}, {other})", texts)
