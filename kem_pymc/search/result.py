"""Result of a search: the evaluated models, and the best one, which predicts."""

import math
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version

import numpy as np
import pandas as pd
import xarray as xr

from kem_pymc._system.display import Display, Displayed, Listing, beyond, number
from kem_pymc.data.scaling import Scaling
from kem_pymc.gp.fit import Fit
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.search.evaluation import Evaluation, Evaluator, best
from kem_pymc.selection.considered import Considered, draws_around
from kem_pymc.selection.selection import LEAST_WEIGHT, Selection

#: Names of the scores, by criterion.
SCORES = {"laplace": "log evidence", "bic": "-BIC / 2", "aic": "-AIC / 2"}

#: Number of evaluations that are displayed.
SHOWN = 10


@dataclass(frozen=True, eq=False, repr=False)
class SearchResult(Displayed):
    """The models that a search evaluated.

    Attributes
    ----------
    evaluations : tuple of Evaluation
        Evaluated models, in the order of evaluation.
    method : {"cks", "boms", "random"}
    evaluator : Evaluator
        The scaled data, and the procedure that evaluated the models.
    scaling : Scaling
    """

    evaluations: tuple[Evaluation, ...]
    method: str
    evaluator: Evaluator
    scaling: Scaling

    @property
    def seconds(self) -> float:
        """Duration of the search in seconds, until the last evaluation."""
        return self.evaluations[-1].elapsed

    @property
    def best(self) -> Composition:
        """The expression with the largest score."""
        return best(self.evaluations).expression

    @property
    def overhead(self) -> float:
        """Fraction of the duration that wasn't spent on evaluating models."""
        evaluating = sum(evaluation.seconds for evaluation in self.evaluations)
        return max(1 - evaluating / self.seconds, 0.0) if self.seconds > 0 else 0.0

    @cached_property
    def path(self) -> pd.DataFrame:
        """One row per evaluated model, in the order of evaluation.

        Columns are `model`, `score` (log evidence, or -1/2 times BIC or AIC, of the standardised
        targets), `score_per_point`, `best_per_point` (largest one so far), `log_likelihood`,
        `gradients` (number of evaluations of the likelihood), `seconds` (of the evaluation) and
        `elapsed` (seconds since the start of the search).
        """
        rows = [
            {
                "model": str(evaluation.expression),
                "score": evaluation.score,
                "score_per_point": evaluation.score / len(self.evaluator.y),
                "log_likelihood": evaluation.log_likelihood,
                "gradients": evaluation.gradients,
                "seconds": evaluation.seconds,
                "elapsed": evaluation.elapsed,
            }
            for evaluation in self.evaluations
        ]
        table = pd.DataFrame(rows).rename_axis("evaluation")
        table.insert(3, "best_per_point", table["score_per_point"].cummax())
        return table

    @cached_property
    def selection(self) -> Selection:
        """The best model, which predicts.

        Predictions average over all models with at least 1 % of the weight, which is proportional
        to exp(score), and over draws of their hyperparameters.
        """
        ordered = sorted(self.evaluations, key=lambda evaluation: -evaluation.score)
        weights = self._weights(ordered)
        rows = [
            self._considered(evaluation, weight)
            for evaluation, weight in zip(ordered, weights, strict=True)
            if weight >= LEAST_WEIGHT or evaluation is ordered[0]
        ]
        candidates = dict.fromkeys(c for row in rows for c in row.composition)
        pool = CandidatePool(candidates, len(self.scaling.feature_low))
        x, y = self.evaluator.x, self.evaluator.y
        return Selection(tuple(rows), pool, self.scaling, x, y, self.seconds)

    def _weights(self, ordered: list[Evaluation]) -> list[float]:
        """Return weights proportional to exp(score), given evaluations by decreasing score."""
        if ordered[0].score == -math.inf:
            return [1 / len(ordered)] * len(ordered)
        weights = np.exp([evaluation.score - ordered[0].score for evaluation in ordered])
        return (weights / weights.sum()).tolist()

    def _considered(self, evaluation: Evaluation, weight: float) -> Considered:
        objective = self.evaluator.objective(evaluation.expression)
        fitted = Fit(
            evaluation.values,
            evaluation.log_likelihood,
            evaluation.log_prior,
            evaluation.gradients,
            converged=evaluation.score > -math.inf,
        )
        return Considered.of(
            objective,
            fitted,
            status="searched",
            criterion=evaluation.score,
            score=evaluation.score,
            weight=weight,
            probability=1.0,
            draws=draws_around(objective, fitted),
        )

    def to_datatree(self) -> xr.DataTree:
        """Return the search as a DataTree.

        Group ``search`` has the columns of :attr:`path`; ``fitted`` the hyperparameters of the best
        model, in scaled units; ``observed_data`` and ``constant_data`` the data, in the user's
        units.
        """
        table = self.path
        search = xr.Dataset(
            {name: ("evaluation", table[name].to_numpy()) for name in table if name != "model"},
            coords={
                "evaluation": table.index.to_numpy(),
                "model": ("evaluation", table["model"].to_numpy(dtype=str)),
            },
            attrs={
                "method": self.method,
                "criterion": self.evaluator.criterion,
                "seed": self.evaluator.seed,
                "inference_library": "kem_pymc",
                "inference_library_version": version("kem-pymc"),
                "sampling_time": self.seconds,
            },
        )
        values = {**self.selection.hyperparameters, "noise": self.selection.noise}
        fitted = xr.Dataset(
            {"value": ("hyperparameter", list(values.values()))},
            coords={"hyperparameter": list(values)},
        )
        y = self.scaling.target_mean + self.scaling.target_sd * self.evaluator.y
        low, high = self.scaling.feature_low, self.scaling.feature_high
        return xr.DataTree.from_dict(
            {
                "search": search,
                "fitted": fitted,
                "observed_data": xr.Dataset({"y": ("point", y)}),
                "constant_data": xr.Dataset(
                    {"x": (("point", "feature"), low + (high - low) * self.evaluator.x)}
                ),
            }
        )

    def __repr__(self) -> str:
        return (
            f"SearchResult({self.method}, best {self.best}, "
            f"{len(self.evaluations)} models evaluated in {self.seconds:.1f} s)"
        )

    def _display(self) -> Display:
        order = self.path.sort_values("score", ascending=False, kind="stable")
        rows = [
            (row.model, row.score, row.score_per_point, row.seconds)
            for row in order.head(SHOWN).itertuples()
        ]
        return Display(
            f"Search for a kernel ({self.method}): {self.best}",
            {
                "Points": str(len(self.evaluator.y)),
                "Models evaluated": str(len(self.evaluations)),
                "Time": f"{self.seconds:.2g} s, {self.overhead:.0%} of it not for evaluations",
                "Sd of the noise": number(self.selection.noise_in_target_units**0.5),
            },
            [
                Listing(
                    ("model", self._scored, "per point", "seconds"),
                    rows,
                    {self._scored: ".1f", "per point": ".3f", "seconds": ".2f"},
                    more=beyond(SHOWN, len(self.evaluations), "models are shown."),
                )
            ],
        )

    @property
    def _scored(self) -> str:
        return SCORES[self.evaluator.criterion]
