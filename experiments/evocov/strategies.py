"""Strategies of the experiments with evolved kernels, beside those of the package."""

import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from kem_pymc.search.evocov.individual import Individual, Offspring
from kem_pymc.search.evocov.strategies import Strategy
from kem_pymc.search.evocov.tree import Tree
from kem_pymc.search.evocov.variation import vary


class Limited:
    """Strategy that proposes another strategy's kernels one by one, for a limited time.

    Parameters
    ----------
    make : callable
        Returns the strategy. It is called again when a strategy has no more proposals.
    seconds : float, optional
        CPU time of this process after which nothing is proposed.
    """

    def __init__(self, make: Callable[[], Strategy], seconds: float | None) -> None:
        self.make, self.strategy = make, make()
        self.end = math.inf if seconds is None else time.process_time() + seconds
        self.waiting: list[Offspring] = []
        self.fitted: list[Individual] = []

    def propose(self) -> list[Offspring]:
        """Return the next kernel; see :class:`Strategy`."""
        if time.process_time() >= self.end:
            return []
        if not self.waiting:
            self.fitted = []
            self.waiting = self.strategy.propose()
        if not self.waiting:
            self.strategy = self.make()
            self.waiting = self.strategy.propose()
        return self.waiting[:1]

    def observe(self, fitted: Sequence[Individual]) -> None:
        """Take note of a kernel; see :class:`Strategy`."""
        self.fitted += fitted
        self.waiting = self.waiting[len(fitted) :]
        if not self.waiting:
            self.strategy.observe(self.fitted)


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

    def observe(self, fitted: Sequence[Individual]) -> None:
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

    def observe(self, fitted: Sequence[Individual]) -> None:
        """Take note of nothing; see :class:`Strategy`."""
