"""Strategies: which expression of the grammar to evaluate next."""

from collections.abc import Iterable, Sequence

import numpy as np

from kem_pymc.kernels.composition import Composition
from kem_pymc.search.distances import DRAWS, Distances, Embedding
from kem_pymc.search.evaluation import Evaluation, best
from kem_pymc.search.grammar import Grammar
from kem_pymc.search.hyperpriors import Hyperpriors
from kem_pymc.search.model_gp import ModelGP

#: BOMS: number of steps from base kernels of the first candidates, and their number at most.
STEPS, FIRST = 2, 500

#: BOMS: number of neighbours of the best model and of random walks in each round, and number of
#: candidates that are kept.
NEIGHBOURS, WALKS, KEPT = 100, 15, 150

#: Random walks without a new expression after which a grammar is taken to be exhausted.
PATIENCE = 1000


class Greedy:
    """Compositional kernel search (Duvenaud et al. 2013).

    Evaluate all base kernels, then all neighbours of the best expression, and so on. If no
    neighbour is better, the next best expression is expanded, in place of ending the search.

    Parameters
    ----------
    grammar : Grammar
    rng : numpy.random.Generator
        Generator for the order in which neighbours are evaluated.
    """

    def __init__(self, grammar: Grammar, rng: np.random.Generator) -> None:
        self.grammar, self.rng = grammar, rng
        self.seen: dict[Composition, Evaluation] = {}
        self.expanded: set[Composition] = set()
        self.queue = shuffled(grammar.starts, rng)

    def propose(self) -> list[Composition]:
        """Return the next expression in the queue; see :class:`.Strategy`."""
        while not self.queue:
            left = [e for e in self.seen.values() if e.expression not in self.expanded]
            if not left:
                return []
            parent = best(left).expression
            self.expanded.add(parent)
            neighbours = self.grammar.neighbours(parent)
            self.queue = shuffled([n for n in neighbours if n not in self.seen], self.rng)
        return self.queue[-1:]

    def observe(self, evaluations: Sequence[Evaluation]) -> None:
        """Remove expressions from the queue; see :class:`.Strategy`."""
        self.seen |= {evaluation.expression: evaluation for evaluation in evaluations}
        self.queue = [expression for expression in self.queue if expression not in self.seen]


def shuffled[T](items: Sequence[T], rng: np.random.Generator) -> list[T]:
    """Return items in random order."""
    return [items[i] for i in rng.permutation(len(items))]


class Random:
    """Evaluate the ends of random walks in the grammar.

    Parameters
    ----------
    grammar : Grammar
    rng : numpy.random.Generator
    """

    def __init__(self, grammar: Grammar, rng: np.random.Generator) -> None:
        self.grammar, self.rng = grammar, rng
        self.seen: set[Composition] = set()

    def propose(self) -> list[Composition]:
        """Return an expression that wasn't evaluated before; see :class:`.Strategy`."""
        for _ in range(PATIENCE):
            expression = self.grammar.random_walk(self.rng)
            if expression not in self.seen:
                return [expression]
        return []

    def observe(self, evaluations: Sequence[Evaluation]) -> None:
        """Exclude expressions from further proposals; see :class:`.Strategy`."""
        self.seen |= {evaluation.expression for evaluation in evaluations}


class Boms:
    """Bayesian optimisation for model search (Malkomes et al. 2016).

    A Gaussian process over models predicts their scores from a distance between the functions that
    they explain a priori, and the candidate with the largest expected improvement is evaluated. The
    first model is SE, or the first base kernel. Candidates are models near the base kernels, and in
    every round the neighbours of the best model and the ends of random walks; those with the
    largest expected improvement are kept.

    Parameters
    ----------
    grammar : Grammar
    x : ndarray, shape (n, D)
        Inputs, scaled to [0, 1].
    hyperpriors : Hyperpriors
    rng : numpy.random.Generator
    draws : int
        Number of draws of hyperparameters for the distances.
    """

    def __init__(
        self,
        grammar: Grammar,
        x: np.ndarray,
        hyperpriors: Hyperpriors,
        rng: np.random.Generator,
        draws: int = DRAWS,
    ) -> None:
        self.grammar, self.rng = grammar, rng
        self.distances = Distances(x, hyperpriors, rng, draws)
        self.gp = ModelGP()
        self.evaluated: list[Evaluation] = []
        self.embedded: list[Embedding] = []
        self.candidates: dict[Composition, _Candidate] = {}
        self.highest: Composition | None = None
        self.around: list[Composition] = []
        self._admit(grammar.within(STEPS, FIRST, rng))

    def propose(self) -> list[Composition]:
        """Return the candidate with the largest expected improvement; see :class:`.Strategy`."""
        if not any(evaluation.expression for evaluation in self.evaluated):
            simple = self.grammar.starts
            return [next((e for e in simple if str(e) == "SE0"), simple[0])]
        if not self.candidates:
            return []
        expressions = list(self.candidates)
        for candidate in self.candidates.values():
            candidate.measure(self.distances, self.embedded)
        distances = np.array([c.distances for c in self.candidates.values()])
        costs = [candidate.cost for candidate in self.candidates.values()]
        improvement = self.gp.expected_improvement(distances) / costs
        order = np.argsort(-improvement, kind="stable")[:KEPT]
        self.candidates = {expressions[i]: self.candidates[expressions[i]] for i in order}
        return [expressions[order[0]]]

    def observe(self, evaluations: Sequence[Evaluation]) -> None:
        """Add evaluations to the process, and new candidates; see :class:`.Strategy`."""
        for evaluation in evaluations:
            self._observe(evaluation)

    def _observe(self, evaluation: Evaluation) -> None:
        self._admit([evaluation.expression])
        candidate = self.candidates.pop(evaluation.expression)
        candidate.measure(self.distances, self.embedded)
        self.gp.add(np.array(candidate.distances).reshape(-1, 2), evaluation.score)
        self.evaluated.append(evaluation)
        self.embedded.append(candidate.embedding)
        highest = best(self.evaluated).expression
        if highest != self.highest:
            self.highest = highest
            self.around = shuffled(self.grammar.neighbours(highest), self.rng)
        self._admit(self.around[:NEIGHBOURS])
        self.around = self.around[NEIGHBOURS:]
        self._admit(self.grammar.random_walk(self.rng) for _ in range(WALKS))

    def _admit(self, expressions: Iterable[Composition]) -> None:
        """Add expressions that haven't been evaluated to the candidates."""
        evaluated = {evaluation.expression for evaluation in self.evaluated}
        for e in expressions:
            if e not in evaluated and e not in self.candidates:
                self.candidates[e] = _Candidate(e, self.distances.embed(e))


class _Candidate:
    """A model that may be evaluated, with its distances from models that were evaluated.

    Its cost is the number of its parameters: an evaluation takes about as many steps, and each is
    longer with more of them.
    """

    __slots__ = ("cost", "distances", "embedding")

    def __init__(self, expression: Composition, embedding: Embedding) -> None:
        self.cost = len(expression.hyperparameters) + 1
        self.embedding = embedding
        self.distances: list[tuple[float, float]] = []

    def measure(self, distances: Distances, embedded: list[Embedding]) -> None:
        """Compute the distances that are missing."""
        for other in embedded[len(self.distances) :]:
            self.distances.append(distances.between(self.embedding, other))
