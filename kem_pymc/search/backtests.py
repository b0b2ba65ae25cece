"""Backtests: how well the models of a search predicted its own last points, and weights by that.

The model that explains the data best need not forecast best. So each of the most probable models is
fitted anew to the points before several origins, and predicts those that came next, as far ahead as
will be needed. Weights maximise the log score of the mixture of their predictions (stacking, Yao et
al. 2018).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field

from kem_pymc._system.files import STRICT
from kem_pymc._system.folder import RunFolder
from kem_pymc._system.options import check_whole
from kem_pymc.data.scaling import Scaling
from kem_pymc.diagnostics.stacking import log_score, stacking_weights
from kem_pymc.errors import InputError
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.search.evaluation import Evaluation, Evaluator
from kem_pymc.search.points import FEWEST
from kem_pymc.selection.scored_kernel import ScoredKernel, draws_around
from kem_pymc.selection.scorer import normalised
from kem_pymc.selection.selection import LEAST_WEIGHT, Selection

#: Largest number of models of a search that are tried, of the optima of each, and of origins.
TRIED, OPTIMA, ORIGINS = 8, 2, 3

#: Models of a level that walks, with trends and rhythms, which are tried beside those of a search.
WALKS = (
    "MATERN120",
    "LIN0 + MATERN120",
    "MATERN120 + PER0",
    "LIN0 + MATERN120 + PER0",
    "MATERN120 + MATERN120 x PER0",
    "LIN0 + MATERN120 + MATERN120 x PER0",
    "MATERN120 + PER0 x SE0",
    "MATERN120 + SE0",
)

#: Share of the points that come before every origin, at least.
SHARE = 0.4

#: Log densities, in nats per point, that are this far below the best of a point's are raised: what
#: one model thought impossible says little about how much worse than others it is.
LOWEST = 4.0

#: Number of independent points for which those after an origin count at most, because errors ahead
#: of one origin are alike.
INDEPENDENT = 12

#: Number of origins for which the prior of the weights counts, and the power of the evidence to
#: which it is proportional: a few origins say little about many models.
PRIOR, POWER = 1.0, 0.1


class _Tried(BaseModel):
    """What a line of the file of backtests contains."""

    model_config = STRICT

    expression: str
    score: float
    log_densities: list[list[Annotated[float, Field(ge=-1e300, le=1e300)]]]


@dataclass(frozen=True, eq=False)
class Backtest:
    """Log densities of points under a model that was fitted to those before an origin.

    Attributes
    ----------
    evaluation : Evaluation
    log_densities : ndarray, shape (origins, horizon)
        In the target's unit.
    """

    evaluation: Evaluation
    log_densities: np.ndarray

    def to_line(self) -> dict[str, Any]:
        """Return what a file contains of it."""
        return {
            "expression": self.evaluation.model,
            "score": self.evaluation.score,
            "log_densities": self.log_densities.tolist(),
        }


def origins(n: int, horizon: int) -> list[int]:
    """Return the numbers of points before each origin, the largest first.

    As many points as the horizon come after the first one. The others are a horizon, or a tenth of
    the points if that is more, apart.

    Raises
    ------
    InputError
        If the horizon isn't a whole number of at least 1, or so long that there is no origin.
    """
    check_whole(horizon=horizon)
    least, apart = max(math.ceil(SHARE * n), FEWEST), max(horizon, n // 10)
    if horizon > n - least:
        remedy = f"a horizon of at most {n - least}, or more points" if n > least else "more points"
        raise InputError(
            f"The horizon is {horizon} of {n} points, and models are tried on the points before "
            f"that. Give {remedy}."
        )
    ends = [n - horizon - i * apart for i in range(ORIGINS)]
    return [end for end in ends if end >= least]


def considered(evaluator: Evaluator, evaluation: Evaluation, weight: float) -> list[ScoredKernel]:
    """Return a row for each mode of a model, which share its weight."""
    rows = []
    for fitted, part, score in evaluation.modes:
        objective = evaluator.objective(evaluation.expression, part)
        share = math.exp(score - evaluation.score) if score > -math.inf else 1.0
        rows.append(
            ScoredKernel.of(
                objective,
                fitted,
                status="searched",
                criterion=score,
                score=score,
                weight=weight * share,
                probability=1.0,
                draws=draws_around(objective, fitted),
            )
        )
    return rows


def selected(
    evaluator: Evaluator,
    weighted: Sequence[tuple[Evaluation, float]],
    scaling: Scaling,
    seconds: float = 0.0,
) -> Selection:
    """Return what predicts from the data of a procedure by models with weights, the best first."""
    rows = [row for one, weight in weighted for row in considered(evaluator, one, weight)]
    candidates = dict.fromkeys(c for row in rows for c in row.composition)
    pool = CandidatePool(candidates, len(scaling.feature_low))
    return Selection(tuple(rows), pool, scaling, evaluator.x, evaluator.y, seconds)


def backtest(
    evaluator: Evaluator, evaluation: Evaluation, scaling: Scaling, horizon: int
) -> Backtest:
    """Return how well a model predicted from each origin.

    Its values are fitted anew to the points before the origin, from those that were fitted to all.
    """
    low, high = scaling.feature_low, scaling.feature_high
    x, y = low + (high - low) * evaluator.x, scaling.targets_back(evaluator.y)
    densities = []
    for end in origins(len(evaluator.y), horizon):
        earlier, after = evaluator.before(end), slice(end, end + horizon)
        then = earlier.refitted(evaluation, OPTIMA)
        selection = selected(earlier, [(then, 1.0)], scaling)
        densities.append(selection.log_predictive_density(x[after], y[after]))
    bounded = np.maximum(np.nan_to_num(densities, nan=-1e300, neginf=-1e300), -1e300)
    return Backtest(evaluation, bounded)


def stacked(backtests: Sequence[Backtest]) -> list[tuple[Evaluation, float]]:
    """Return models with the weights that predict backtests best, by decreasing weight.

    The observations are origins: the log density of each is the mean of those of its points, times
    `INDEPENDENT` or the horizon. The prior of the weights is a Dirichlet distribution whose mode is
    proportional to a power of the evidence. The models with at least 1 % of the weight, or the
    first one, are returned.
    """
    weights = stacking_weights(*_observed(backtests))
    order = np.argsort(-weights, kind="stable")
    kept = [i for i in order if weights[i] >= LEAST_WEIGHT] or [order[0]]
    return [(backtests[i].evaluation, float(weights[i])) for i in kept]


def gain(backtests: Sequence[Backtest], others: Sequence[Backtest]) -> float:
    """Return by how much larger the log score of backtests is than that of others, stacked."""
    scores = []
    for each in (backtests, others):
        log_density, prior = _observed(each)
        scores.append(log_score(log_density, stacking_weights(log_density, prior)))
    return scores[0] - scores[1]


def _observed(backtests: Sequence[Backtest]) -> tuple[np.ndarray, np.ndarray]:
    """Return log densities (origins, K) of observations, and the prior (K,) of the weights."""
    densities = np.array([each.log_densities for each in backtests])
    densities = np.maximum(densities, densities.max(axis=0) - LOWEST)
    evidence = normalised([POWER * each.evaluation.score for each in backtests])
    points = min(INDEPENDENT, densities.shape[2])
    return points * densities.mean(axis=2).T, 1 + PRIOR * evidence


def backtests(
    evaluator: Evaluator,
    evaluations: Sequence[Evaluation],
    walks: Sequence[Evaluation],
    scaling: Scaling,
    horizon: int,
    folder: RunFolder,
    file: str,
    arrived: Callable[[], object] = lambda: None,
) -> tuple[Backtest, ...]:
    """Return backtests of walks and of the models with the largest scores.

    Those in the file aren't repeated.

    Parameters
    ----------
    evaluator : Evaluator
        The data, in the order of time.
    evaluations, walks : sequences of Evaluation
    scaling : Scaling
    horizon : int
        Number of points after each origin.
    folder : RunFolder
    file : str
    arrived : callable
        Called after each.

    Raises
    ------
    InputError
        If the file is damaged before its last line, or can't be written.
    """
    order = sorted(evaluations, key=lambda one: -one.score)
    likely = list({one.expression: one for one in reversed(order)}.values())[::-1][:TRIED]
    log = folder.log(file, _Tried.model_validate)
    stored = {(line.expression, line.score): line for line in log.events}
    found = []
    for one in (*likely, *walks):
        line = stored.get((one.model, one.score))
        if line is None:
            new = backtest(evaluator, one, scaling, horizon)
            log.add([new.to_line()])
        else:
            new = Backtest(one, np.array(line.log_densities))
        found.append(new)
        arrived()
    return tuple(found)
