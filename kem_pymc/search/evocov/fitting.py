"""Fit the hyperparameters of evolved kernels (Roman et al. 2019, section 4.3)."""

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.optimize import Bounds, minimize

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.gp.fit import bic
from kem_pymc.search.evocov.individual import Individual, Offspring
from kem_pymc.search.evocov.interpreter import FINE, OUTCOMES
from kem_pymc.search.evocov.objective import Metric, TreeObjective, lml
from kem_pymc.search.periodogram import periods

#: Bounds of the logs of positive hyperparameters, of shifts, and of the log noise variance. Those
#: of frequencies contain the periodogram's.
LOGS, SHIFTS, LOG_NOISES = (-7.0, 7.0), (-3.0, 3.0), (-14.0, 2.0)

#: Standard deviation of the normal noise that is added to inherited coordinates.
SPREAD = 0.1

#: Number of peaks of the periodogram at which frequencies may start, and the share of starts there.
PEAKS, SHARE_AT_PEAKS = 5, 0.5

#: What optimisers minimise, where there is no height. An infinite one would stop them.
PENALTY = 1e10


@dataclass(frozen=True, eq=False)
class Fitter:
    """Procedure that fits kernels to one data set by L-BFGS with gradients, from several starts.

    Starts are uniform within bounds; half of the frequencies start at peaks of the Lomb-Scargle
    periodogram, since a fit finds a period only from a start near it. Where values are inherited,
    the first start has these, and the others are normal around them with standard deviation 0.1 in
    the coordinates. Starts follow each other until the budget is spent.

    Attributes
    ----------
    x : ndarray, shape (n, D)
        Inputs, scaled to [0, 1].
    y : ndarray, shape (n,)
        Standardised targets.
    evaluations : int
        Number of evaluations of the metric with its gradient, per kernel. The last search may take
        a few more, to the end of its step.
    seed : int
        Seed of the starts.
    metric : callable
        What the hyperparameters are fitted to (:mod:`kem_pymc.search.evocov.objective`). Kernels
        are compared by BIC, whatever it is.
    """

    x: np.ndarray
    y: np.ndarray
    evaluations: int
    seed: int = 0
    metric: Metric = lml

    #: Criterion of the scores.
    criterion: ClassVar[str] = "bic"

    @property
    def compared(self) -> int:
        """Number of points on which kernels are compared: all."""
        return len(self.y)

    def context(self, proposed: Offspring, number: int, before: Sequence[Individual]) -> list[int]:
        """Return the seed of the starts of a kernel; see :class:`.Procedure`."""
        return [self.seed, number]

    @one_blas_thread()
    @np.errstate(all="ignore")  # what isn't finite is counted
    def evaluate(self, offspring: Offspring, seed: int | list[int] = 0) -> Individual:
        """Fit a kernel.

        Parameters
        ----------
        offspring : Offspring
        seed : int or list of int
            Seed of the starts.

        Returns
        -------
        Individual
        """
        began = time.perf_counter()
        rng = np.random.default_rng(seed)
        tree = offspring.tree
        positive = np.array([*tree.positive, True])
        bounds = [*(LOGS if p else SHIFTS for p in tree.positive), LOG_NOISES]
        low, high = np.transpose(bounds)
        frequencies = np.array([*tree.frequencies, False])
        high[frequencies] = max(LOGS[1], math.log(math.pi * len(self.y)))
        inherited = coordinates_of(offspring.inherited, positive)
        search = _Search(TreeObjective(tree, self.x, self.y, self.metric))
        spread = 0.0
        while search.outcomes.total() < self.evaluations:
            near = rng.normal(inherited, spread)
            spread = SPREAD
            drawn = rng.uniform(low, high)
            if len(self._peaks):
                at_peaks = frequencies & (rng.random(len(drawn)) < SHARE_AT_PEAKS)
                drawn = np.where(at_peaks, rng.choice(self._peaks, len(drawn)), drawn)
            start = np.clip(np.where(np.isnan(near), drawn, near), low, high)
            left = {"maxfun": self.evaluations - search.outcomes.total()}
            box = Bounds(low, high)
            minimize(search, start, jac=True, method="L-BFGS-B", bounds=box, options=left)
        values, likelihood = search.best
        if self.metric is not lml:
            likelihood = TreeObjective(tree, self.x, self.y).evaluate(values).height
        score = math.inf
        if likelihood > -math.inf:
            score = bic(likelihood, len(values), len(self.y)).value
        natural = np.where(positive, np.exp(np.where(positive, values, 0.0)), values)
        seconds = time.perf_counter() - began
        return Individual(tree, natural, likelihood, score, search.outcomes, seconds)

    @cached_property
    def _peaks(self) -> np.ndarray:
        """Logs of angular frequencies at the highest peaks of the periodograms of all inputs."""
        peaks = [periods(column, self.y, PEAKS) for column in self.x.T]
        return np.log(2 * np.pi / np.concatenate(peaks))


class _Search:
    """The objective as a function to minimise, which remembers its best point.

    Attributes
    ----------
    best : tuple of ndarray and float
        Coordinates (k + 1,), and the height there.
    outcomes : Counter of str
        Number of evaluations, by the outcome.
    """

    def __init__(self, objective: TreeObjective) -> None:
        self._objective = objective
        self.best = (np.zeros(objective.size), -math.inf)
        self.outcomes: Counter[str] = Counter()

    def __call__(self, values: np.ndarray) -> tuple[float, np.ndarray]:
        height, gradient, outcome = self._objective.evaluate(values)
        self.outcomes[OUTCOMES[outcome]] += 1
        if height > self.best[1]:
            self.best = (values.copy(), height)
        return (-height if outcome == FINE else PENALTY), -gradient


def coordinates_of(natural: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Return coordinates (k + 1,) of natural values; NaN where there is none.

    A value that a parent had as a shift may be negative where the offspring needs a positive one;
    nothing is inherited then.
    """
    usable = ~positive | (natural > 0)
    logs = np.log(np.where(positive & usable, natural, 1.0))
    return np.where(usable, np.where(positive, logs, natural), math.nan)
