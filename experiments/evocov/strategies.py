"""Strategies of the experiments with evolved kernels, beside those of the package."""

import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from kem_pymc.search.evocov.individual import Individual, Offspring
from kem_pymc.search.evocov.strategies import GENERATION, better, random_kernel
from kem_pymc.search.evocov.tree import Tree
from kem_pymc.search.evocov.variation import vary
from kem_pymc.search.exploration import Strategy

#: Go With The First: number of kernels that climb (G), and of their mutations before the worst one
#: is left out (N).
CLIMBERS, MUTATIONS = 13, 200


class Limited[P, E]:
    """Strategy that proposes another strategy's models one by one, for a limited time.

    Parameters
    ----------
    make : callable
        Returns the strategy. It is called again when a strategy has no more proposals.
    seconds : float, optional
        CPU time of this process after which nothing is proposed.
    """

    def __init__(self, make: Callable[[], Strategy[P, E]], seconds: float | None) -> None:
        self.make, self.strategy = make, make()
        self.end = math.inf if seconds is None else time.process_time() + seconds
        self.waiting: list[P] = []
        self.fitted: list[E] = []

    def propose(self) -> list[P]:
        """Return the next model; see :class:`Strategy`."""
        if time.process_time() >= self.end:
            return []
        if not self.waiting:
            self.fitted = []
            self.waiting = self.strategy.propose()
        if not self.waiting:
            self.strategy = self.make()
            self.waiting = self.strategy.propose()
        return self.waiting[:1]

    def observe(self, evaluations: Sequence[E]) -> None:
        """Take note of a model; see :class:`Strategy`."""
        self.fitted += evaluations
        self.waiting = self.waiting[len(evaluations) :]
        if not self.waiting:
            self.strategy.observe(self.fitted)


class RandomSearch:
    """Random kernels (section 4.5.1).

    Parameters
    ----------
    check, rng, initial
        As for :class:`kem_pymc.search.evocov.strategies.Evolution`.
    size : int
        Number of kernels that are proposed at a time.
    """

    def __init__(
        self,
        check: Callable[[Tree], bool],
        rng: np.random.Generator,
        size: int = GENERATION,
        initial: Sequence[Individual] = (),
    ) -> None:
        self.check, self.rng, self.size = check, rng, size
        self.first = [Offspring(individual.tree, individual.natural) for individual in initial]

    def propose(self) -> list[Offspring]:
        """Return random kernels; see :class:`Strategy`."""
        if self.first:
            first, self.first = self.first, []
            return first
        return [random_kernel(self.check, self.rng) for _ in range(self.size)]

    def observe(self, evaluations: Sequence[Individual]) -> None:
        """Take note of nothing; see :class:`Strategy`."""


class GoWithTheFirst:
    """Hill climbing by mutations from several random kernels, the worst of which is left out.

    Every kernel is mutated `mutations` times, and replaced by its mutant whenever that is better;
    then the worst kernel is left out, until one is left (section 4.5.2).

    Parameters
    ----------
    check, rng, initial
        As for :class:`kem_pymc.search.evocov.strategies.Evolution`.
    climbers, mutations : int
        Number of kernels, and of mutations of each before one is left out.
    """

    def __init__(
        self,
        check: Callable[[Tree], bool],
        rng: np.random.Generator,
        climbers: int = CLIMBERS,
        mutations: int = MUTATIONS,
        initial: Sequence[Individual] = (),
    ) -> None:
        self.check, self.rng = check, rng
        self.climbers, self.mutations = climbers, mutations
        self.first = [
            Offspring(individual.tree, individual.natural) for individual in initial[:climbers]
        ]
        self.population: list[Individual] = []
        self.rounds = 0

    def propose(self) -> list[Offspring]:
        """Return one mutant of each kernel; see :class:`Strategy`."""
        if not self.population:
            missing = self.climbers - len(self.first)
            return self.first + [random_kernel(self.check, self.rng) for _ in range(missing)]
        if self.rounds == self.climbers * self.mutations:
            return []
        return [vary([individual], self.check, self.rng) for individual in self.population]

    def observe(self, evaluations: Sequence[Individual]) -> None:
        """Keep the better one of each kernel and its mutant; see :class:`Strategy`."""
        if not self.population:
            self.population = list(evaluations)
            return
        self.population = list(map(better, evaluations, self.population))
        self.rounds += 1
        if self.rounds % self.mutations == 0 and len(self.population) > 1:
            self.population.remove(max(self.population, key=lambda individual: individual.bic))


class Mutants:
    """Random mutations of a kernel (section 6.4.1).

    Parameters
    ----------
    original : Individual
    check, rng
        As for :class:`kem_pymc.search.evocov.strategies.Evolution`.
    """

    def __init__(
        self, original: Individual, check: Callable[[Tree], bool], rng: np.random.Generator
    ) -> None:
        self.original, self.check, self.rng = original, check, rng

    def propose(self) -> list[Offspring]:
        """Return a mutant; see :class:`Strategy`."""
        return [vary([self.original], self.check, self.rng)]

    def observe(self, evaluations: Sequence[Individual]) -> None:
        """Take note of nothing; see :class:`Strategy`."""


class Fresh:
    """One kernel, from random starting points.

    Parameters
    ----------
    tree : Tree
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def propose(self) -> list[Offspring]:
        """Return the kernel; see :class:`Strategy`."""
        return [Offspring.of(self.tree)]

    def observe(self, evaluations: Sequence[Individual]) -> None:
        """Take note of nothing; see :class:`Strategy`."""
