"""Result of a search for evolved kernels."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from kem_pymc.search.evaluation import best
from kem_pymc.search.evocov.fitting import Fitter
from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.screening import POINTS, finalists
from kem_pymc.search.evocov.selection import EvolvedSelection
from kem_pymc.search.evocov.tree import Tree
from kem_pymc.search.result import Found, weighted


@dataclass(frozen=True, eq=False, repr=False)
class EvolutionResult(Found[Individual, Fitter]):
    """The kernels that a search fitted.

    Attributes
    ----------
    evaluations : tuple of Individual
        Fitted kernels, in the order in which they were proposed.
    method : str
        "evocov".
    scaling : Scaling
    seed : int
    evaluator : Fitter
        The scaled data, and the procedure that fitted the kernels.
    screened : tuple of Individual
        Kernels of the first search, which were fitted to some of the points only.
    cores : int
        Number of processes that fitted kernels at the same time.
    """

    screened: tuple[Individual, ...] = ()
    cores: int = 1

    @property
    def best(self) -> Tree:
        """The kernel with the smallest BIC."""
        return best(self.evaluations).tree

    @property
    def overhead(self) -> float:
        """Fraction of the duration that wasn't spent on fitting kernels."""
        fitting = sum(fit.seconds for fit in (*self.screened, *self.evaluations)) / self.cores
        return max(1 - fitting / self.seconds, 0.0) if self.seconds > 0 else 0.0

    @property
    def outcomes(self) -> Counter[str]:
        """Number of evaluations of the metric by outcome, such as "fine" or "overflow".

        Those of the first search are included.
        """
        total: Counter[str] = Counter()
        for evaluation in (*self.screened, *self.evaluations):
            total.update(evaluation.outcomes)
        return total

    @cached_property
    def selection(self) -> EvolvedSelection:
        """The best kernel, which predicts.

        Predictions average over all kernels with at least 1 % of the weight, which is proportional
        to exp(-BIC / 2). Of several fits of one kernel, the best one counts.
        """
        different = finalists(self.evaluations, len(self.evaluations))
        return EvolvedSelection(tuple(weighted(different)), self.scaling, *self.data)

    def _facts(self) -> dict[str, str]:
        most = self.outcomes.most_common()
        counted = ", ".join(f"{count} {outcome}" for outcome, count in most)
        first = {"Screened before": f"{len(self.screened)} kernels on {POINTS} of the points"}
        return {
            **super()._facts(),
            **(first if self.screened else {}),
            "Hyperparameters": f"{len(self.selection.best.natural)}, with the noise",
            "Evaluations": counted,
        }
