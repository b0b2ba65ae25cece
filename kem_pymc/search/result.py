"""Result of a search: the evaluated models, and the best one, which predicts and is described."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from kem_pymc._system.display import Display, Displayed, Listing, beyond, number, plural
from kem_pymc._system.options import checked
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import describe_candidate, named
from kem_pymc.search.backtests import Backtest, selected, stacked
from kem_pymc.search.evaluation import MEAN, Evaluated, best
from kem_pymc.selection.scorer import normalised
from kem_pymc.selection.selection import LEAST_WEIGHT, Selection

#: Names of the scores, by criterion.
SCORES = {"laplace": "log evidence", "bic": "-BIC / 2", "aic": "-AIC / 2"}

#: Number of evaluations that are displayed.
SHOWN = 10

#: A model whose log evidence is this much above that of a constant plus noise, with about 20 times
#: its probability, is strong evidence of structure (Kass and Raftery 1995).
CONVINCING = 3.0


@dataclass(frozen=True, eq=False, repr=False)
class SearchResult(Displayed):
    """The models that a search evaluated.

    Attributes
    ----------
    evaluations : tuple of Evaluation
        Evaluated models, in the order of evaluation.
    method : {"cks", "boms", "random"}
    scaling : Scaling
    seed : int
        Seed of the search.
    evaluator : Evaluator
        The scaled data, and the procedure that evaluated the models.
    features : tuple of str
        Names of the inputs, if they had any, which are shown in the names of models.
    backtests : tuple of Backtest
        How well the most probable models predicted the last points, if there is a horizon.
    """

    evaluations: tuple[Any, ...]
    method: str
    scaling: Scaling
    seed: int
    evaluator: Any
    features: tuple[str, ...] = ()
    backtests: tuple[Backtest, ...] = ()

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Scaled inputs (n, D) and targets (n,)."""
        return self.evaluator.x, self.evaluator.y

    @property
    def best(self) -> Composition:
        """The expression with the largest score; the empty one is a constant plus noise."""
        return best(self.evaluations).expression

    @property
    def constant(self) -> float:
        """Score of a constant plus noise, with which models are compared."""
        return max(e.score for e in self.evaluations if not e.expression)

    @property
    def found(self) -> bool:
        """Whether the best model is convincingly more probable than a constant plus noise."""
        return best(self.evaluations).score - self.constant >= CONVINCING

    @property
    def verdict(self) -> str:
        """What was found, as a sentence."""
        highest = best(self.evaluations)
        gain = highest.score - self.constant
        if gain <= 0:
            return "Nothing found: a constant plus noise is the most probable model."
        odds = f"{self._named(highest.model)} is {times(gain)} as probable as a constant plus noise"
        return f"{odds}." if self.found else f"Nothing found: {odds}, which isn't convincing."

    @cached_property
    def selection(self) -> Selection:
        """The best model, which predicts.

        Predictions average over all models with at least 1 % of the weight, and over draws of their
        hyperparameters. Weights are proportional to exp(score); with a horizon, they are those with
        which backtests are predicted best, and the model with the largest one is selected.
        """
        models = stacked(self.backtests) if self.backtests else weighted(self.evaluations)
        return selected(self.evaluator, models, self.scaling, self.seconds)

    @property
    def seconds(self) -> float:
        """Duration of the search in seconds, until the last evaluation."""
        return max(evaluation.elapsed for evaluation in self.evaluations)

    @property
    def fitting(self) -> float:
        """Seconds spent on evaluating models."""
        return sum(evaluation.seconds for evaluation in self.evaluations)

    @property
    def overhead(self) -> float:
        """Fraction of the duration that wasn't spent on evaluating models."""
        return max(1 - self.fitting / self.seconds, 0.0) if self.seconds > 0 else 0.0

    @cached_property
    def path(self) -> pd.DataFrame:
        """One row per evaluated model, in the order of evaluation.

        Columns are `model`, `score` (log evidence, or -1/2 times BIC or AIC, of the standardised
        targets), `score_per_point`, `best_per_point` (largest one so far), `log_likelihood`,
        `gradients` (number of evaluations of the likelihood), `seconds` (of the evaluation) and
        `elapsed` (seconds since the start of the search).
        """
        names = ("model", "score", "log_likelihood", "gradients", "seconds", "elapsed")
        columns = {name: [getattr(e, name) for e in self.evaluations] for name in names}
        table = pd.DataFrame(columns).rename_axis("evaluation")
        table.insert(2, "score_per_point", table["score"] / self.evaluator.compared)
        table.insert(3, "best_per_point", table["score_per_point"].cummax())
        return table

    def _facts(self) -> dict[str, str]:
        """Return facts for the display, by name."""
        sd = float(left_out_errors(self.selection).std())
        return self._common_facts() | {"Sd of leave-one-out errors": number(sd)}

    def _common_facts(self) -> dict[str, str]:
        n, compared = len(self.data[1]), self.evaluator.compared
        facts, transform = dict[str, str](), self.scaling.transform
        if self.backtests:
            ends, horizon = self.backtests[0].log_densities.shape
            facts["Weights"] = (
                f"by forecasts of {plural(horizon, 'point')} from {plural(ends, 'origin')}; "
                f"{self.selection.label()} has the largest"
            )
        if transform is not None:
            facts["Scale"] = transform.label("target")
        return facts | {
            "Points": f"{n}, models are compared on {compared} of them" if compared < n else f"{n}",
            "Models evaluated": str(len(self.evaluations)),
            "Time": f"{self.seconds:.2g} s, {100 * self.overhead:.0f} % of it not for evaluations",
            "Sd of the noise": number(self.selection.noise_in_target_units**0.5),
        }

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.method}, best {best(self.evaluations).model}, "
            f"{plural(len(self.evaluations), 'model')} evaluated in {self.seconds:.1f} s)"
        )

    def _display(self) -> Display:
        order = self.path.sort_values("score", ascending=False, kind="stable")
        order = order.drop_duplicates("model")
        rows = [
            (
                self._named(row.model),
                row.score,
                row.score - self.constant,
                row.score_per_point,
                row.seconds,
            )
            for row in order.head(SHOWN).itertuples()
        ]
        scored = SCORES[self.evaluator.criterion]
        listing = Listing(
            ("model", scored, "above a constant", "per point", "seconds"),
            rows,
            {scored: ".1f", "above a constant": ".1f", "per point": ".3f", "seconds": ".2f"},
            more=beyond(SHOWN, len(order), "models are shown."),
        )
        title = f"Search for a kernel ({self.method}). {self.verdict}"
        return Display(title, self._facts(), [listing])

    def _named(self, model: str) -> str:
        """Return the name of a model, given its label."""
        return named(model, self.features) if self.features else model


def times(nats: float) -> str:
    """Return a ratio of probabilities, given its log, as text such as "20 times"."""
    return f"{math.exp(nats):,.{int(nats < 2)}f} times" if nats < 7 else f"e^{nats:.0f} times"


def weighted[E: Evaluated](evaluations: Sequence[E]) -> list[tuple[E, float]]:
    """Return the best evaluations, by decreasing score, with weights proportional to exp(score).

    The first one and those with at least 1 % of the weight are returned.
    """
    ordered = sorted(evaluations, key=lambda evaluation: -evaluation.score)
    weights = normalised([evaluation.score for evaluation in ordered])
    return [
        (evaluation, float(weight))
        for evaluation, weight in zip(ordered, weights, strict=True)
        if weight >= LEAST_WEIGHT or evaluation is ordered[0]
    ]


@checked
def describe(selection: Selection, features: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the components of a selected kernel, with descriptions and shares of variance.

    Components are ordered as by Lloyd et al. (2014): each is the one that explains most of the
    variance that the components before it left. A component's share is the fraction of the
    variance of the targets by which the variance of the residuals falls when the posterior mean of
    the component is subtracted. Shares add up to one with that of the noise, which is the rest.
    They can be negative, because components fit the data together.

    Parameters
    ----------
    selection : Selection
        Selected kernel, with the data.
    features : sequence of str, shape (D,), optional
        Names of the input columns; by default ``x``, or ``x0``, ``x1`` and so on.

    Returns
    -------
    DataFrame
        Columns `component`, `description` and `share`. The last row is the noise.

    Raises
    ------
    InputError
        If there isn't one name per input column.
    """
    dimension = selection.pool.dimension
    if features is None:
        features = ["x"] if dimension == 1 else [f"x{d}" for d in range(dimension)]
    if len(features) != dimension:
        raise InputError(
            f"The number of names is {len(features)}, and that of input columns {dimension}. "
            "Give one name per column."
        )
    scaling = selection.scaling
    low, high = scaling.feature_low, scaling.feature_high
    x = low + (high - low) * selection.x
    predicted = selection.predict(x, single=True)
    parts = {label: part.mean for label, part in predicted.components.items()}
    parts.pop(MEAN.label(dimension))
    rest = scaling.mean_back(selection.y)
    total = left = float(rest.var())
    values = scaling.hyperparameters_back(selection.hyperparameters)
    candidates = {c.label(dimension): c for c in selection.composition - Composition((MEAN,))}
    rows: list[dict[str, str | float]] = []
    shares: list[float] = []
    while parts:
        variances = {label: float((rest - mean).var()) for label, mean in parts.items()}
        label = min(variances, key=variances.__getitem__)
        rest = rest - parts.pop(label)
        shares.append((left - variances[label]) / total)
        left = variances[label]
        text = describe_candidate(candidates[label], features, values)
        rows.append({"component": label, "description": text, "share": shares[-1]})
    sd = selection.noise_in_target_units**0.5
    rows.append(
        {"component": "noise", "description": f"noise of sd {sd:.2g}", "share": 1 - sum(shares)}
    )
    return pd.DataFrame(rows)


def left_out_errors(selection: Selection) -> np.ndarray:
    """Return the errors of predictions of each target from all others, at the fitted values.

    They are a_i / (C^-1)_ii with a = C^-1 y (Rasmussen and Williams 2006, section 5.4.2). Where
    they are far larger than the noise, components follow single points, and may be noise.

    Parameters
    ----------
    selection : Selection
        Selected kernel, with the data, on a scale without a transform.

    Returns
    -------
    ndarray, shape (n,)
        Errors in the target's unit.
    """
    errors, _ = selection.conditioned.conditional.left_out()
    return errors * selection.scaling.target_sd
