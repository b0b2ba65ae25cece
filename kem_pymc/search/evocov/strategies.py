"""Strategies: which kernels to fit next (Roman et al. 2019, algorithm 1 and section 4.5)."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from kem_pymc.search.evocov.individual import Individual, Offspring
from kem_pymc.search.evocov.interpreter import FINE, OUTCOMES
from kem_pymc.search.evocov.objective import covariances
from kem_pymc.search.evocov.primitives import HYPERPARAMETERS
from kem_pymc.search.evocov.simplification import simplified
from kem_pymc.search.evocov.tape import lower
from kem_pymc.search.evocov.tree import Tree
from kem_pymc.search.evocov.variation import random_tree, vary

#: EvoCov: number of kernels of a generation (N), and of those that are selected (mu).
GENERATION, SELECTED = 141, 14

#: EvoCov: improvement of the best BIC (beta) at or below which a generation counts as without
#: improvement, number of these with which a run ends, and number of runs whose best kernels then
#: are the parents of the next run.
IMPROVEMENT, PATIENCE, RUNS = 1.0, 3, 4

#: Number of random data sets, and of points of each.
DATA_SETS, POINTS = 20, 20

#: Range of the hyperparameters: logs of positive ones, values of shifts.
LOW, HIGH = -2.0, 2.0

#: Smallest eigenvalue, relative to the largest one, that isn't negative but rounding error.
TOLERANCE = 1e-9


class PsdCheck:
    """Necessary conditions for a kernel to be positive semi-definite, on random data sets.

    On every data set, with random hyperparameters, the covariance must be finite, and neither its
    diagonal nor an eigenvalue may be negative. It can't be asymmetric, because all primitives are
    symmetric. The data sets are the same for all kernels, so that a kernel always has the same
    result.

    Kernels that don't depend on the inputs don't pass either, unlike in the paper: three quarters
    of the random trees that are positive semi-definite are such constants.

    Parameters
    ----------
    dimension : int
        Number of input columns D. Inputs are uniform over [0, 1].
    rng : numpy.random.Generator
    """

    def __init__(self, dimension: int, rng: np.random.Generator) -> None:
        self._x = rng.uniform(size=(DATA_SETS, dimension, POINTS))
        self._values = rng.uniform(LOW, HIGH, size=(DATA_SETS, HYPERPARAMETERS))

    def __call__(self, tree: Tree) -> bool:
        """Return whether a kernel passes."""
        return not self.result(tree)

    def result(self, tree: Tree) -> str:
        """Return what is wrong with a kernel; an empty text if nothing is."""
        tape = lower(tree)
        if tape.uniform == len(tape.code):
            return "constant"
        for x, values in zip(self._x, self._values, strict=True):
            c, outcome = covariances(tape, x.T, values)
            if outcome != FINE:
                return OUTCOMES[outcome]
            if (np.diag(c) < 0).any():
                return "negative variance"
            eigenvalues = np.linalg.eigvalsh(c)
            if eigenvalues[0] < -TOLERANCE * eigenvalues[-1]:
                return "negative eigenvalue"
        return ""


class Evolution:
    """EvoCov: truncation selection, variation and restarts (algorithm 1).

    The best kernels of a generation are selected. They are fitted again, from their own values, in
    the next one, together with their offspring. If the best BIC hasn't improved by more than one
    for three generations, a new run begins with a random generation; in the paper, after one
    generation with less than 1e-5 of the BIC. After four runs, the next one begins with the best
    kernel of each: what they found can be combined.

    Parameters
    ----------
    check : callable
        Whether a kernel is positive semi-definite, :class:`PsdCheck`.
    rng : numpy.random.Generator
    size, selected : int
        Number of kernels of a generation, and of those that are selected.
    initial : sequence of Individual
        Kernels for the first generation, fitted to other data: they are fitted again.
    """

    def __init__(
        self,
        check: Callable[[Tree], bool],
        rng: np.random.Generator,
        size: int = GENERATION,
        selected: int = SELECTED,
        initial: Sequence[Individual] = (),
    ) -> None:
        self.check, self.rng = check, rng
        self.size, self.selected = size, selected
        self.parents = list(initial)
        self.comparable = not self.parents
        self.before, self.stalled = math.inf, 0
        self.winners: list[Individual] = []

    def propose(self) -> list[Offspring]:
        """Return a generation: the selected kernels, then others; see :class:`.Strategy`."""
        selected = [Offspring(parent.tree, parent.natural) for parent in self.parents]
        left = max(self.size - len(selected), 0)
        if selected:
            return selected + [vary(self.parents, self.check, self.rng) for _ in range(left)]
        return [random_kernel(self.check, self.rng) for _ in range(left)]

    def observe(self, evaluations: Sequence[Individual]) -> None:
        """Select the best of a generation, or none; see :class:`.Strategy`."""
        parents = self.parents if self.comparable else []
        self.comparable = True
        again = list(map(better, evaluations, parents))  # the selected ones come first
        generation = sorted(
            [*again, *evaluations[len(again) :]], key=lambda individual: individual.bic
        )
        best = generation[0].bic
        improved = self.before - best > IMPROVEMENT
        self.stalled = 0 if improved else self.stalled + 1
        if math.isfinite(best) and self.stalled < PATIENCE:
            self.parents = generation[: self.selected]
            if improved:
                self.before = best
            return
        if math.isfinite(best):
            self.winners.append(generation[0])
        self.before, self.stalled = math.inf, 0
        if len(self.winners) == RUNS:
            self.parents, self.winners = self.winners, []
        else:
            self.parents = []


def random_kernel(check: Callable[[Tree], bool], rng: np.random.Generator) -> Offspring:
    """Return a random kernel, simplified, that passes the check."""
    while True:
        drawn = Offspring.of(random_tree(rng))
        tree, _ = simplified(drawn.tree, drawn.inherited)
        if check(tree):
            return Offspring.of(tree)


def better(new: Individual, old: Individual) -> Individual:
    """Return the kernel with the smaller BIC, of equal ones the old one."""
    return new if new.bic < old.bic else old


def finalists(individuals: Sequence[Individual], count: int = SELECTED) -> list[Individual]:
    """Return the best different kernels, the one with the smallest BIC first."""
    best: dict[str, Individual] = {}
    for individual in sorted(individuals, key=lambda individual: individual.bic):
        best.setdefault(str(individual), individual)
    return list(best.values())[:count]
