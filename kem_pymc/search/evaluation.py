"""Evaluation of expressions on one data set: fit the hyperparameters, then score the model."""

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self
from zlib import crc32

import numpy as np
from pydantic import BaseModel, Field, NonNegativeFloat, NonNegativeInt
from scipy.special import logsumexp

from kem_pymc._system.files import STRICT
from kem_pymc.data.validation import LARGEST
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.fit import MANY, Fit, aic, bic, fit, thinned
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

#: Largest number of points on which models are compared: a fit takes about n^3 operations.
MOST = 600

#: Number of prior draws among which the starting points of a fit are the most probable ones, and
#: number of ways to complete the values that are inherited from another model. Draws are spread
#: evenly, because a fit finds the period of a rhythm only from a start near it.
DRAWS, COMPLETIONS = 64, 8

#: Number of models from which values are inherited.
SIMILAR = 3

#: Gain of the score, in nats, after which the products of the best mode are drawn anew once more,
#: and how often that is done at most.
GAIN, ROUNDS = 0.5, 4

#: Optima that are farther apart than this many standard deviations are modes of their own. Those
#: that are so many nats less probable than the best one are left out.
APART, LOWER = 2.0, 10.0

#: Largest number of modes on few of many points that are followed on all: each takes two gradients
#: per hyperparameter there for its curvature alone.
FOLLOWED = 3

#: Number of periods that the data suggest, for starting points, and of those from each of which a
#: fit starts.
PERIODS, PEAKS = 5, 2

#: The candidate that stands for a constant mean.
MEAN = Candidate()


class _Mode(BaseModel, allow_inf_nan=True):
    model_config = STRICT
    values: list[Annotated[float, Field(ge=-LARGEST, le=LARGEST)]]
    log_likelihood: float
    log_prior: float
    evaluations: NonNegativeInt
    converged: bool
    part: NonNegativeInt
    score: Annotated[float, Field(le=1e300)]  # minus infinity, but not NaN


class _Line(BaseModel):
    """What a line of the file of a search contains of an evaluation."""

    model_config = STRICT

    expression: str
    modes: Annotated[list[_Mode], Field(min_length=1)]
    gradients: NonNegativeInt
    seconds: NonNegativeFloat
    elapsed: NonNegativeFloat


class Optimum(NamedTuple):
    """A local maximum of the posterior density of a model's hyperparameters.

    Attributes
    ----------
    fit : Fit
        Fitted coordinates, with the constant mean's (:func:`coordinates_of`).
    part : int
        Part of the mixture that is the prior of the noise.
    score : float
        Log of the mode's part of the evidence, or -1/2 times BIC or AIC; minus infinity if it
        isn't a maximum.
    """

    fit: Fit
    part: int
    score: float


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A model that was evaluated.

    Attributes
    ----------
    expression : Composition
        The kernel, without the constant mean; the empty one is a constant plus noise.
    modes : tuple of Optimum
        Modes of the posterior density, the one with the largest score first.
    gradients : int
        Number of evaluations of the likelihood with its gradient.
    seconds : float
        Duration of the evaluation.
    elapsed : float
        Seconds from the start of the search to the end of the evaluation.
    """

    expression: Composition
    modes: tuple[Optimum, ...]
    gradients: int
    seconds: float
    elapsed: float = 0.0

    def __str__(self) -> str:
        return str(self.expression)

    @property
    def model(self) -> str:
        """The expression as text."""
        return str(self)

    @property
    def values(self) -> np.ndarray:
        """Coordinates of the highest mode."""
        return self.modes[0].fit.values

    @property
    def log_likelihood(self) -> float:
        """Log likelihood at the highest mode."""
        return self.modes[0].fit.log_likelihood

    @cached_property
    def score(self) -> float:
        """Log evidence, or -1/2 times BIC or AIC; minus infinity if no fit succeeded."""
        return float(logsumexp([mode.score for mode in self.modes]))

    def to_line(self) -> dict[str, Any]:
        """Return what a file contains of the evaluation, with the values as lists."""
        modes = [
            {**vars(fit), "values": fit.values.tolist(), "part": part, "score": score}
            for fit, part, score in self.modes
        ]
        for mode in modes:
            del mode["curvature"]  # which no one needs after the search
        kept = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**kept, "expression": str(self), "modes": modes}

    @classmethod
    def from_line(cls, line: dict[str, Any], dimension: int) -> Self:
        """Return the evaluation that :meth:`to_line` wrote, for a number of input columns D.

        Raises
        ------
        ValueError
            If it isn't one.
        """
        kept = _Line.model_validate(line).model_dump()
        expression = Composition.parse(kept["expression"], dimension)
        size, modes = len(coordinates_of(expression, dimension)), []
        for mode in kept["modes"]:
            part, score = mode.pop("part"), mode.pop("score")
            values = np.array(mode.pop("values"), dtype=float)
            if len(values) != size:
                raise ValueError("another number of values")
            modes.append(Optimum(Fit(values, **mode), part, score))
        return cls(**{**kept, "expression": expression, "modes": tuple(modes)})


#: A model that a search evaluated.
type Evaluated = Evaluation | Individual


def coordinates_of(expression: Composition, dimension: int) -> Coordinates:
    """Return the coordinates of an expression with a constant mean."""
    model = expression + MEAN
    return Coordinates(CandidatePool(model, dimension), model)


class Evaluator:
    """Procedure that fits and scores expressions on one data set.

    Hyperparameters are fitted to the maximum of the posterior density by BFGS, from the most
    probable of many draws from the prior and of completions of the values of similar models. Half
    of the draws have periods at peaks of the periodogram, because a fit finds a short period only
    from a start near it. Then one product at a time of the best optimum is drawn anew, as long as
    that improves it.

    The prior of the noise is a mixture, so the evidence is the mean of those with each of its
    parts. It is the sum of Laplace's approximations at all optima that were found. Of more than
    `MOST` points, so many are drawn at random.

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
    most : int, optional
        Largest number of points on which models are compared; by default `MOST`.
    """

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray,
        hyperpriors: Hyperpriors,
        criterion: Criterion = "laplace",
        starts: int = 3,
        seed: int = 0,
        most: int | None = None,
    ) -> None:
        self.x, self.y = x, y
        n = len(y)  # of regular points, every other one would hide short periods
        few = min(n, MOST if most is None else most)
        self._chosen = np.sort(np.random.default_rng([seed, n]).choice(n, few, replace=False))
        self._x, self._y = x[self._chosen], y[self._chosen]
        self.hyperpriors, self.criterion = hyperpriors, criterion
        self.starts, self.seed = starts, seed
        self.periods = [periods(column, y, PERIODS) for column in x.T]

    @property
    def compared(self) -> int:
        """Number of points on which models are compared."""
        return len(self._y)

    def context(
        self, proposed: Composition, number: int, before: Sequence[Evaluation]
    ) -> list[Evaluation]:
        """Return the most similar evaluations; see :class:`.Procedure`."""
        return most_similar(proposed, before)

    def evaluate(self, expression: Composition, similar: Sequence[Evaluation] = ()) -> Evaluation:
        """Fit and score an expression.

        Parameters
        ----------
        expression : Composition
        similar : sequence of Evaluation
            Evaluations of models from which values of common products and factors are inherited.

        Returns
        -------
        Evaluation
        """
        began = time.perf_counter()
        rng = np.random.default_rng([self.seed, crc32(str(expression).encode())])
        modes, gradients = list[Optimum](), 0
        quick = [self._quick(expression, part) for part in range(len(self.hyperpriors.noise))]
        for part, objective in enumerate(quick):
            coordinates = objective.coordinates
            groups = [
                [
                    inherited(
                        coordinates,
                        self._draws(coordinates, COMPLETIONS, rng, part),
                        other.expression,
                        mode.fit,
                    )
                    for mode in other.modes
                ]
                for other in similar
            ]
            groups.append([self._draws(coordinates, DRAWS, rng, part)])
            groups.append([mode.fit.values[None] for mode in modes])
            found, used = self._optima(objective, part, [np.concatenate(g) for g in groups if g])
            modes += found
            gradients += used
        found, used = self._improved(quick, modes, rng)
        modes = _likely(modes + found)
        gradients += used
        if self.compared >= MANY:
            modes, used = self._followed(expression, modes[:FOLLOWED])
            gradients += used
        return Evaluation(
            expression=expression,
            # Parts of an evidence add up.
            modes=tuple(modes if self.criterion == "laplace" else modes[:1]),
            gradients=gradients,
            seconds=time.perf_counter() - began,
        )

    def reseeded(self, seed: int) -> Self:
        """Return the same procedure with other prior draws, for the same points."""
        other = copy(self)
        other.seed = seed
        return other

    def before(self, count: int) -> Self:
        """Return the same procedure for the first points alone, a number of them."""
        earlier = copy(self)
        earlier.x, earlier.y = self.x[:count], self.y[:count]
        earlier._chosen = self._chosen[self._chosen < count]
        earlier._x, earlier._y = self.x[earlier._chosen], self.y[earlier._chosen]
        return earlier

    def refitted(self, evaluation: Evaluation, most: int) -> Evaluation:
        """Return an evaluation of other points with its best modes, a number of them, followed."""
        modes, _ = self._followed(evaluation.expression, evaluation.modes[:most])
        return replace(evaluation, modes=tuple(modes))

    def _followed(
        self, expression: Composition, modes: Sequence[Optimum]
    ) -> tuple[list[Optimum], int]:
        """Return modes near given ones on all points, and the number of gradients."""
        objectives = [
            self.objective(expression, part) for part in range(len(self.hyperpriors.noise))
        ]
        found, used = list[Optimum](), 0
        for near, part, _ in modes:
            fitted = fit(objectives[part], near.values[None])
            used += fitted.evaluations
            others = [mode for mode in found if mode.part == part and mode.score > -math.inf]
            if all(_apart(objectives[part], mode, fitted) for mode in others):
                found.append(Optimum(fitted, part, self._score(objectives[part], fitted)))
                used += self._cost(fitted)
        return _likely(found), used

    def _draws(
        self, coordinates: Coordinates, count: int, rng: np.random.Generator, part: int
    ) -> np.ndarray:
        """Return draws from the prior, half of them with periods that the data suggest."""
        points = self.hyperpriors.draw(coordinates, count, rng, part)
        half = points[1::2]
        for i, suggested in self._suggested(coordinates):
            half[:, i] = rng.choice(suggested, len(half))
        return points

    def _suggested(self, coordinates: Coordinates) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the place of each period, and logs of suggested ones, the likeliest first."""
        for parts in _parts(coordinates).values():
            for factor, places in parts[1:]:
                for i in places:
                    suggested = self.periods[factor.dimension]
                    if coordinates.hyperparameters[i].kind == "period" and len(suggested):
                        yield i, np.log(suggested)

    def objective(self, expression: Composition, part: int = 0) -> Objective:
        """Return the objective of fits of an expression, with a part of the prior of the noise."""
        coordinates = coordinates_of(expression, self.x.shape[1])
        prior = self.hyperpriors.prior(coordinates, part)
        return Objective(coordinates, self._x, self._y, prior, NOISE_FLOOR)

    def _quick(self, expression: Composition, part: int) -> Objective:
        """Return the objective on few of many points, whose optima are near those on all."""
        objective = self.objective(expression, part)
        return thinned(objective) if objective.n_points >= MANY else objective

    def _improved(
        self, objectives: Sequence[Objective], modes: list[Optimum], rng: np.random.Generator
    ) -> tuple[list[Optimum], int]:
        """Return other modes that are found from the best one, and the number of gradients.

        The values of one product at a time are drawn anew, while the others keep theirs: a fit may
        have given a product what another one explains better.
        """
        found, used = list[Optimum](), 0
        for _ in range(ROUNDS):
            _, part, score = best = max([*modes, *found], key=lambda mode: mode.score)
            coordinates, groups = objectives[part].coordinates, []
            for parts in _parts(coordinates).values():
                places = [place for _, places in parts for place in places]
                points = np.tile(best.fit.values, (COMPLETIONS, 1))
                points[:, places] = self._draws(coordinates, COMPLETIONS, rng, part)[:, places]
                groups.append(points)
            if not groups or score == -math.inf:
                break
            others = [mode for mode in (*modes, *found) if mode.part == part]
            new, cost = self._optima(objectives[part], part, groups, others)
            found += new
            used += cost
            if max((mode.score for mode in new), default=-math.inf) < score + GAIN:
                break
        return found, used

    def _optima(
        self,
        objective: Objective,
        part: int,
        groups: Sequence[np.ndarray],
        known: Sequence[Optimum] = (),
    ) -> tuple[list[Optimum], int]:
        """Return where fits ended, other than at known modes, and the number of gradients.

        They start from the most probable point of each group. If no mode is known, they also start
        from the most probable points of all, and from that with each of the likeliest periods.
        """
        points = np.concatenate(groups)
        heights, _ = objective.evaluate(points)
        order = np.argsort(-heights, kind="stable")
        group = np.repeat(np.arange(len(groups)), [len(part) for part in groups])
        starts = {int(order[group[order] == i][0]): None for i in range(len(groups))}
        if not known:
            starts |= dict.fromkeys(order[: self.starts].tolist())
            for i, suggested in self._suggested(objective.coordinates):
                for period in suggested[:PEAKS]:
                    starts |= dict.fromkeys(order[points[order, i] == period][:1].tolist())
        fits = [fit(objective, points[[i]]) for i in starts]
        modes = list(known)
        for fitted in sorted(fits, key=lambda one: -one.height):
            if all(_apart(objective, mode, fitted) for mode in modes if mode.score > -math.inf):
                modes.append(Optimum(fitted, part, self._score(objective, fitted)))
        new = modes[len(known) :]
        used = sum(one.evaluations for one in fits) + sum(self._cost(mode.fit) for mode in new)
        return new, len(points) + used

    def _cost(self, fitted: Fit) -> int:
        return 2 * len(fitted.values) + 1

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
        return fitted.height + log_volume(curvature) - math.log(len(self.hyperpriors.noise))


def _apart(objective: Objective, mode: Optimum, fitted: Fit) -> bool:
    """Return whether a fit is more than `APART` standard deviations away from a mode."""
    away = fitted.values - mode.fit.values
    curvature = curvature_at(objective, mode.fit.values, central=True)[2]
    return float(away @ curvature @ away) > APART**2


def _likely(modes: Sequence[Optimum]) -> list[Optimum]:
    """Return modes by score, without those that are far below the best or aren't maxima."""
    modes = sorted(modes, key=lambda mode: -mode.score)
    least = modes[0].score - LOWER
    return [mode for mode in modes if mode.score >= least > -math.inf] or modes[:1]


def inherited(
    coordinates: Coordinates, completed: np.ndarray, similar: Composition, fitted: Fit
) -> np.ndarray:
    """Return starting points with the values of a similar model where there are common parts.

    Parameters
    ----------
    coordinates : Coordinates
        Coordinates of the model to fit.
    completed : ndarray, shape (m, k + 1)
        Values for the parts that the similar model doesn't have.
    similar : Composition
    fitted : Fit
        Fit of the similar model.

    Returns
    -------
    ndarray, shape (m, k + 1)
    """
    before = coordinates_of(similar, coordinates.pool.dimension)
    ours, theirs = _parts(coordinates), _parts(before)
    points, values = completed.copy(), fitted.values
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


def most_similar(
    expression: Composition, evaluations: Sequence[Evaluation], count: int = SIMILAR
) -> list[Evaluation]:
    """Return the evaluations that have most factors in common with an expression, the best first.

    Those that have no factor in common are left out.
    """
    wanted = Counter(f for candidate in expression for f in candidate.factors)

    def place(evaluation: Evaluation) -> tuple[int, int, float]:
        factors = Counter(f for candidate in evaluation.expression for f in candidate.factors)
        products = len({*expression} & {*evaluation.expression})
        return (wanted & factors).total(), products, evaluation.score

    nearest = sorted(evaluations, key=place, reverse=True)[:count]
    return [evaluation for evaluation in nearest if place(evaluation)[0]]


def best[E: Evaluated](evaluations: Sequence[E]) -> E:
    """Return the evaluation with the largest score; of equal ones the first."""
    return max(evaluations, key=lambda evaluation: evaluation.score)
