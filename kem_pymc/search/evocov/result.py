"""Result of a search for evolved kernels, and the best ones on their data, which predict."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kem_pymc.data.scaling import Scaling
from kem_pymc.data.validation import input_rows
from kem_pymc.errors import InputError
from kem_pymc.gp.fit import bic
from kem_pymc.gp.likelihood import HALF_LOG_2PI
from kem_pymc.gp.posterior import Conditional
from kem_pymc.gp.prediction import Prediction, averaged, in_target_unit
from kem_pymc.search.evaluation import Evaluation, best
from kem_pymc.search.evocov.fitting import coordinates_of
from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.interpreter import FINE, OUTCOMES
from kem_pymc.search.evocov.objective import covariances
from kem_pymc.search.evocov.strategies import finalists
from kem_pymc.search.evocov.tape import lower
from kem_pymc.search.evocov.tree import Tree
from kem_pymc.search.result import SearchResult, weighted


@dataclass(frozen=True, eq=False, repr=False)
class EvolutionResult(SearchResult):
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
    compositions : tuple of Evaluation
        Models of a compositional kernel search, if the first kernels are from one.
    screened : tuple of Individual
        Kernels of the first search, which were fitted to some of the points only.
    cores : int
        Number of processes that fitted kernels at the same time.
    """

    compositions: tuple[Evaluation, ...] = ()
    screened: tuple[Individual, ...] = ()
    cores: int = 1

    @property
    def best(self) -> Tree:
        """The kernel with the smallest BIC."""
        return best(self.evaluations).tree

    @property
    def constant(self) -> float:
        """-BIC / 2 of a constant plus noise, whose only parameter is the variance."""
        n = len(self.data[1])
        return bic(-n * (HALF_LOG_2PI + 0.5), 1, n).score

    @property
    def fitting(self) -> float:
        """Seconds spent on fitting kernels, those of the first searches included."""
        evolved = sum(fit.seconds for fit in (*self.screened, *self.evaluations))
        return sum(one.seconds for one in self.compositions) + evolved / self.cores

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
    def selection(self) -> "EvolvedSelection":  # type: ignore[override]
        """The best kernel, which predicts.

        Predictions average over all kernels with at least 1 % of the weight, which is proportional
        to exp(-BIC / 2). Of several fits of one kernel, the best one counts.
        """
        different = finalists(self.evaluations, len(self.evaluations))
        return EvolvedSelection(tuple(weighted(different)), self.scaling, *self.data)

    def _facts(self) -> dict[str, str]:
        most = self.outcomes.most_common()
        counted = ", ".join(f"{count} {outcome}" for outcome, count in most)
        first = {"Screened before": f"{len(self.screened)} kernels on some of the points"}
        composed = {"Begun with": f"the best of {len(self.compositions)} compositions"}
        return {
            **self._common_facts(),
            **(composed if self.compositions else {}),
            **(first if self.screened else {}),
            "Hyperparameters": f"{len(self.selection.best.natural)}, with the noise",
            "Evaluations": counted,
        }


@dataclass(frozen=True, eq=False)
class EvolvedSelection:
    """Evolved kernels with their weights, the data, and predictions.

    Attributes
    ----------
    kernels : tuple of (Individual, float)
        Kernels with their weights, the best one first.
    scaling : Scaling
    x : ndarray, shape (n, D)
        Inputs, scaled to [0, 1].
    y : ndarray, shape (n,)
        Standardised targets.
    """

    kernels: tuple[tuple[Individual, float], ...]
    scaling: Scaling
    x: np.ndarray
    y: np.ndarray

    @property
    def best(self) -> Individual:
        """The best kernel, with its fitted hyperparameters."""
        return self.kernels[0][0]

    @property
    def hyperparameters(self) -> Mapping[str, float]:
        """Hyperparameters of the best kernel by name, for scaled inputs and targets."""
        return self.best.to_dict()["hyperparameters"]

    @property
    def noise(self) -> float:
        """Noise variance of the best kernel, for standardised targets."""
        return float(self.best.natural[-1])

    @property
    def noise_in_target_units(self) -> float:
        """Noise variance of the best kernel, in squared units of the target."""
        return float(self.scaling.variance_back(self.noise))

    def predict(
        self, x: npt.ArrayLike, include_noise: bool = False, *, single: bool = False
    ) -> Prediction:
        """Predict at new inputs, given the data.

        The prediction averages over the kernels by their weights. Kernels other than the best one
        are left out if their covariance isn't finite at the new inputs.

        Parameters
        ----------
        x : array_like, shape (m, D), or (m,) if D is 1
            New inputs, in the user's units.
        include_noise : bool
            Whether to predict new observations instead of the latent function.
        single : bool
            Whether to use only the best kernel, as in the paper.

        Returns
        -------
        Prediction
            Prediction in the target's unit.

        Raises
        ------
        InputError
            If the inputs don't have one column per feature or aren't finite numbers, or the best
            kernel has no finite covariance there.
        """
        at = self.scaling.inputs(input_rows(x, self.x.shape[1]))
        made = [predict(self.best, self.x, self.y, at, include_noise)]
        weights = [self.kernels[0][1]]
        for kernel, weight in () if single else self.kernels[1:]:
            try:
                made.append(predict(kernel, self.x, self.y, at, include_noise))
            except InputError:
                continue
            weights.append(weight)
        shares = np.array(weights) / sum(weights)
        return in_target_unit(averaged(made, shares.tolist()), self.scaling)


def predict(
    individual: Individual,
    x: np.ndarray,
    y: np.ndarray,
    x_new: np.ndarray,
    include_noise: bool = False,
) -> Prediction:
    """Return the predictive distribution at new inputs (eq. 3).

    Parameters
    ----------
    individual : Individual
    x, y : ndarray, shape (n, D) and (n,)
        Data, in the units in which the kernel was fitted.
    x_new : ndarray, shape (m, D)
        Inputs, in the same units.
    include_noise : bool
        Whether standard deviations are those of new observations.

    Returns
    -------
    Prediction

    Raises
    ------
    InputError
        If the kernel has no finite or no positive definite covariance at these inputs.
    """
    tree, noise, n = individual.tree, float(individual.natural[-1]), len(y)
    values = coordinates_of(individual.natural, np.array([*tree.positive, True]))
    tape = lower(tree)
    covariance, outcome = covariances(tape, x, values)
    try:
        if outcome != FINE:
            raise np.linalg.LinAlgError
        conditional = Conditional.of(covariance + noise * np.eye(n), y)
    except np.linalg.LinAlgError:
        raise InputError(
            f"The covariance of the kernel {tree.formula()} isn't positive definite on these data. "
            "Fit it to them first, or use another kernel."
        ) from None
    mean, variance = np.empty(len(x_new)), np.empty(len(x_new))
    for first in range(0, len(x_new), n):  # as many new points at a time as there are data
        part = slice(first, first + n)
        both, outcome = covariances(tape, np.vstack([x, x_new[part]]), values)
        if outcome != FINE:
            raise InputError(
                f"The kernel {tree.formula()} can't predict at these inputs: {OUTCOMES[outcome]}. "
                "Predict closer to the data, or use another kernel."
            )
        mean[part], explained = conditional.moments(both[:n, n:])
        variance[part] = np.maximum(np.diag(both)[n:] - explained, 0.0)
    return Prediction.of(mean, np.sqrt(variance), noise, include_noise=include_noise)
