"""Evaluation of expressions on one data set: fit the hyperparameters, then score the model."""

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self
from zlib import crc32

import numpy as np

from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.fit import Fit, aic, bic, fit
from kem_pymc.gp.laplace import curvature_at, log_volume
from kem_pymc.gp.objective import Objective
from kem_pymc.kernels.composition import Candidate, Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.search.hyperpriors import Hyperpriors
from kem_pymc.search.periodogram import periods

if TYPE_CHECKING:
    from kem_pymc.search.evocov.individual import Individual

#: How models are scored: Laplace's approximation of the log evidence, or -1/2 times BIC or AIC.
Criterion = Literal["laplace", "bic", "aic"]

#: Smallest noise variance, far below the prior's mass.
NOISE_FLOOR = 1e-8

#: Number of prior draws among which the starting points of a fit are the most probable ones, and
#: number of ways to complete the values that are inherited from another model. Draws are spread
#: evenly, because a fit finds the period of a rhythm only from a start near it.
DRAWS, COMPLETIONS = 64, 8

#: Number of periods that the data suggest, for starting points.
PERIODS = 5

#: The candidate that stands for a constant mean.
MEAN = Candidate()


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A model that was evaluated.

    Attributes
    ----------
    expression : Composition
        The kernel, without the constant mean.
    values : ndarray, shape (k + 1,)
        Fitted coordinates, with the constant mean's (:func:`coordinates_of`).
    log_likelihood, log_prior : float
        Terms of the objective at the fitted values.
    score : float
        Log evidence, or -1/2 times BIC or AIC; minus infinity if no fit succeeded.
    gradients : int
        Number of evaluations of the likelihood with its gradient.
    seconds : float
        Duration of the evaluation.
    elapsed : float
        Seconds from the start of the search to the end of the evaluation.
    """

    expression: Composition
    values: np.ndarray
    log_likelihood: float
    log_prior: float
    score: float
    gradients: int
    seconds: float
    elapsed: float = 0.0

    def __str__(self) -> str:
        return str(self.expression)

    @property
    def model(self) -> str:
        """The expression as text."""
        return str(self)

    def to_line(self) -> dict[str, Any]:
        """Return what a file contains of the evaluation, with the values as a list."""
        return {**vars(self), "expression": str(self), "values": self.values.tolist()}

    @classmethod
    def from_line(cls, line: dict[str, Any], dimension: int) -> Self:
        """Return the evaluation that :meth:`to_line` wrote, for a number of input columns D.

        Raises
        ------
        ValueError, TypeError or LookupError
            If it isn't one.
        """
        expression = Composition.parse(line["expression"], dimension)
        values = np.array(line["values"], dtype=float)
        if len(values) != len(coordinates_of(expression, dimension)):
            raise ValueError("another number of values")
        return cls(**{**line, "expression": expression, "values": values})


#: A model that a search evaluated.
type Evaluated = Evaluation | Individual


def coordinates_of(expression: Composition, dimension: int) -> Coordinates:
    """Return the coordinates of an expression with a constant mean."""
    model = expression + MEAN
    return Coordinates(CandidatePool(model, dimension), model)


class Evaluator:
    """Procedure that fits and scores expressions on one data set.

    Hyperparameters are fitted to the maximum of the posterior density by BFGS, from the most
    probable of many draws from the prior and of completions of the values of a similar model. Half
    of the draws have periods at peaks of the periodogram, because a fit finds a short period only
    from a start near it.

    Parameters
    ----------
    x : ndarray, shape (n, D)
        Inputs, scaled to [0, 1].
    y : ndarray, shape (n,)
        Standardised targets.
    hyperpriors : Hyperpriors
    criterion : {"laplace", "bic", "aic"}
    starts : int
        Number of starting points from which a fit is run.
    seed : int
        Seed of the prior draws. The draws for an expression don't depend on what was evaluated
        before.
    """

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray,
        hyperpriors: Hyperpriors,
        criterion: Criterion = "laplace",
        starts: int = 3,
        seed: int = 0,
    ) -> None:
        self.x, self.y = x, y
        self.hyperpriors, self.criterion = hyperpriors, criterion
        self.starts, self.seed = starts, seed
        self.periods = [periods(column, y, PERIODS) for column in x.T]

    def context(
        self, proposed: Composition, number: int, before: Sequence[Evaluation]
    ) -> Evaluation | None:
        """Return the most similar evaluation; see :class:`.Procedure`."""
        return most_similar(proposed, before)

    def evaluate(self, expression: Composition, similar: Evaluation | None = None) -> Evaluation:
        """Fit and score an expression.

        Parameters
        ----------
        expression : Composition
        similar : Evaluation, optional
            Evaluation of a model from which values of common products and factors are inherited.

        Returns
        -------
        Evaluation
        """
        began = time.perf_counter()
        objective = self.objective(expression)
        coordinates = objective.coordinates
        rng = np.random.default_rng([self.seed, crc32(str(expression).encode())])
        points = self._draws(coordinates, DRAWS, rng)
        if similar is not None:
            completed = self._draws(coordinates, COMPLETIONS, rng)
            points = np.concatenate([points, inherited(coordinates, completed, similar)])
        fitted, score, gradients = self._scored(objective, points)
        seconds = time.perf_counter() - began
        return Evaluation(
            expression=expression,
            values=fitted.values,
            log_likelihood=fitted.log_likelihood,
            log_prior=fitted.log_prior,
            score=score,
            gradients=gradients,
            seconds=seconds,
        )

    def _draws(self, coordinates: Coordinates, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return draws from the prior, half of them with periods that the data suggest."""
        points = self.hyperpriors.draw(coordinates, count, rng)
        half = points[1::2]
        for parts in _parts(coordinates).values():
            for factor, places in parts[1:]:
                suggested = self.periods[factor.dimension]
                for i in places:
                    if coordinates.hyperparameters[i].kind == "period" and len(suggested):
                        half[:, i] = np.log(rng.choice(suggested, len(half)))
        return points

    def objective(self, expression: Composition) -> Objective:
        """Return the objective of fits of an expression."""
        coordinates = coordinates_of(expression, self.x.shape[1])
        prior = self.hyperpriors.prior(coordinates)
        return Objective(coordinates, self.x, self.y, prior, NOISE_FLOOR)

    def _scored(self, objective: Objective, points: np.ndarray) -> tuple[Fit, float, int]:
        """Return the best fit, its score and the number of gradients."""
        fitted = fit(objective, points, self.starts)
        gradients = fitted.evaluations
        score = self._score(objective, fitted)
        if score > -math.inf or fitted.height == -math.inf:
            return fitted, score, gradients + self._cost(fitted)
        # The highest optimum isn't one: drop its start, and compare the others.
        heights, _ = objective.evaluate(points)
        others = points[np.argsort(-heights, kind="stable")[: self.starts]]
        fits = [fit(objective, point[None]) for point in others]
        scores = [self._score(objective, refitted) for refitted in fits]
        gradients += sum(refitted.evaluations + self._cost(refitted) for refitted in fits)
        best = max(range(len(fits)), key=lambda i: (scores[i], fits[i].height))
        return fits[best], scores[best], gradients

    def _cost(self, fitted: Fit) -> int:
        return 2 * len(fitted.values) + 1 if self.criterion == "laplace" else 0

    def _score(self, objective: Objective, fitted: Fit) -> float:
        if not math.isfinite(fitted.height):
            return -math.inf
        # The constant's amplitude isn't a parameter: its prior has hardly any spread.
        n_parameters = len(fitted.values) - 1
        if self.criterion == "bic":
            return bic(fitted.log_likelihood, n_parameters, objective.n_points).score
        if self.criterion == "aic":
            return aic(fitted.log_likelihood, n_parameters).score
        curvature = curvature_at(objective, fitted.values, central=True)[2]
        return fitted.height + log_volume(curvature)


def inherited(coordinates: Coordinates, completed: np.ndarray, similar: Evaluation) -> np.ndarray:
    """Return starting points with the values of a similar model where there are common parts.

    Parameters
    ----------
    coordinates : Coordinates
        Coordinates of the model to fit.
    completed : ndarray, shape (m, k + 1)
        Values for the parts that the similar model doesn't have.
    similar : Evaluation

    Returns
    -------
    ndarray, shape (m, k + 1)
    """
    before = coordinates_of(similar.expression, coordinates.pool.dimension)
    ours, theirs = _parts(coordinates), _parts(before)
    points, values = completed.copy(), similar.values
    points[:, -1] = values[-1]
    for i, name in enumerate(coordinates.names):
        if "@" in name.partition(".")[0] and name in before.names:  # of a change point
            points[:, i] = values[before.names.index(name)]
    for candidate, parts in ours.items():
        nearest = candidate
        if candidate not in theirs:
            overlaps = [_overlap(candidate, other) for other in theirs]
            nearest = list(theirs)[int(np.argmax(overlaps))]
            # A further copy of a product with the same values would be at a saddle.
            if not max(overlaps) or candidate.factors == nearest.factors:
                continue
        left = list(theirs[nearest])
        for factor, place in parts:
            match = next((item for item in left if item[0] == factor), None)
            if match is not None:
                left.remove(match)
                points[:, place] = values[match[1]]
    return points


def _overlap(one: Candidate, other: Candidate) -> int:
    """Return the number of factors in common."""
    return (Counter(one.factors) & Counter(other.factors)).total()


def _parts(coordinates: Coordinates) -> dict[Candidate, list[tuple[Any, list[int]]]]:
    """Return for each product the places of its amplitude (for None), and of each of its factors.

    Factors that share their hyperparameters with others are left out.
    """
    places = {h.name: i for i, h in enumerate(coordinates.hyperparameters)}
    return {
        candidate: [
            (None, [places[f"{candidate}.amplitude"]]),
            *(
                (factor, [places[h.name] for h in named])
                for factor, named in candidate.by_factor
                if not factor.tie
            ),
        ]
        for candidate in coordinates.composition
    }


def most_similar(expression: Composition, evaluations: Sequence[Evaluation]) -> Evaluation | None:
    """Return the evaluation with most factors in common with an expression, the best of equal ones.

    Return None if none has a factor in common.
    """
    wanted = Counter(f for candidate in expression for f in candidate.factors)

    def place(evaluation: Evaluation) -> tuple[int, int, float]:
        factors = Counter(f for candidate in evaluation.expression for f in candidate.factors)
        products = len({*expression} & {*evaluation.expression})
        return (wanted & factors).total(), products, evaluation.score

    nearest = max(evaluations, key=place, default=None)
    return nearest if nearest is not None and place(nearest)[0] else None


def best[E: Evaluated](evaluations: Sequence[E]) -> E:
    """Return the evaluation with the largest score; of equal ones the first."""
    return max(evaluations, key=lambda evaluation: evaluation.score)
