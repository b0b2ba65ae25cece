"""Compositions fitted and scored: what all methods of selection share.

Methods differ in which compositions they consider. How one is fitted to a user's data, and by what
criterion it is judged, is the same for all, so that none wins by a better optimiser or prior.
"""

import math
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kem_pymc.errors import InputError
from kem_pymc.evolution.clusters import Typical
from kem_pymc.gp.compare import largest_likelihoods
from kem_pymc.gp.evidence import laplace
from kem_pymc.gp.fit import (
    MANY,
    Criterion,
    Fit,
    aic,
    bic,
    fit,
    leave_one_out,
    spread_places,
)
from kem_pymc.gp.mean_process import MeanAtPoints
from kem_pymc.gp.objective import (
    Coordinates,
    Objective,
    Prior,
    flat_prior,
    normal_prior,
    study_prior,
)
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.selection.considered import Considered, draws_around
from kem_pymc.selection.screening import REFINED, rough_fit
from kem_pymc.selection.selection import LEAST_WEIGHT, Selection
from kem_pymc.selection.selector import Previous

if TYPE_CHECKING:
    from kem_pymc.prior_table import PriorTable
    from kem_pymc.priors import Priors

FITS = ("pilot", "map", "ml")
CRITERIA = ("process", "bic", "aic", "laplace", "loo")


@dataclass(frozen=True)
class Option:
    """A composition to consider, and what is known of it.

    Attributes
    ----------
    composition : Composition
    status : str
        As in :class:`~kem_pymc.selection.considered.Considered`.
    probability : float
        Of the evolution, in the pilot study.
    typical : Typical
        Values to start from; centre and spread are the prior of ``fit="pilot"``.
    """

    composition: Composition
    status: str
    probability: float
    typical: Typical


class Judge:
    """Fits compositions to a user's data and scores them.

    Parameters
    ----------
    pool : CandidatePool
    fit : {"pilot", "map", "ml"}
    criterion : {"process", "bic", "aic", "laplace", "loo"}
        Both as in :class:`~kem_pymc.KEMSelector`.
    runs : int
        How many starting points are followed to an optimum.
    noise_floor : float
        Smallest noise variance of fits, in scaled units.
    priors : Priors, optional
        For ``fit="map"``.
    progress : bool
        Whether to show a progress bar where there are many points.

    Raises
    ------
    InputError
        If an option is unknown or out of range, or priors depend on population parameters.
    """

    def __init__(
        self,
        pool: CandidatePool,
        fit: str,
        criterion: str,
        runs: int,
        noise_floor: float,
        priors: "Priors | None" = None,
        progress: bool = False,
    ) -> None:
        if fit not in FITS:
            raise InputError(f"There is no fit {fit!r}. Use one of {', '.join(FITS)}.")
        if criterion not in CRITERIA:
            raise InputError(
                f"There is no criterion {criterion!r}. Use one of {', '.join(CRITERIA)}."
            )
        if runs < 1:
            raise InputError(f"runs={runs} leaves nothing to do. Give 1 or more.")
        if fit == "map" and priors is None:
            raise InputError("fit='map' needs priors. Pass the study's as priors=.")
        if fit == "map" and priors is not None:
            priors.check_values(pool)
        self.pool = pool
        self.fit, self.criterion, self.runs = fit, criterion, runs
        self.noise_floor, self.progress = noise_floor, progress
        self.priors = priors if fit == "map" else None

    def __getstate__(self) -> dict[str, Any]:
        # Pointers to compiled code mean nothing in another process, which makes its own.
        return {k: v for k, v in self.__dict__.items() if k != "_table"}

    @cached_property
    def _table(self) -> "PriorTable | None":
        return None if self.priors is None else self.priors.compile(self.pool)

    def consider(
        self,
        options: Sequence[Option],
        parent: Composition,
        previous: Previous,
        x: np.ndarray,
        y: np.ndarray,
        shared: MeanAtPoints | None = None,
    ) -> list[Considered]:
        """Fit every option and score it.

        With many points, options are fitted to an evenly spread few of them and compared roughly
        on all; the best two are fitted to all points. Rough fits count as not converged.

        Parameters
        ----------
        options : sequence of Option
            At least one.
        parent : Composition
            On which the study's prior of the noise depends.
        previous : Selection, Composition, str or None
            The values of a Selection of the same composition are one more starting point.
        x, y : ndarray, shapes (n, D) and (n,)
            In scaled units.
        shared : MeanAtPoints, optional
            What all users share, at the same inputs.

        Returns
        -------
        list of Considered
            In the order of the options; weights add to one.
        """
        tasks = [self._task(option, parent, previous, x, y, shared) for option in options]
        screens = len(y) >= MANY and len(tasks) > REFINED
        least = REFINED if screens else len(tasks)
        fitted: list[tuple[Fit, Criterion]] = []
        done: set[int] = set()
        with bar(len(tasks) * screens + least, self.progress and len(y) >= MANY) as advance:
            for task in tasks:
                fitted.append(self._rough(task) if screens else self._exact(task, task.starts))
                advance()
            # Whatever is selected was fitted to all points.
            while screens and (len(done) < least or _best(fitted, set()) not in done):
                i = _best(fitted, done)
                fitted[i] = self._exact(tasks[i], [fitted[i][0].values])
                done.add(i)
                advance()
        rows = [
            Considered.of(
                task.objective,
                fitted[i][0],
                status=task.option.status,
                criterion=fitted[i][1].value,
                score=fitted[i][1].score,
                weight=math.nan,
                probability=task.option.probability,
            )
            for i, task in enumerate(tasks)
        ]
        weights = _weights([row.score for row in rows])
        return [
            replace(
                row,
                weight=weight,
                draws=draws_around(task.objective, found) if weight >= LEAST_WEIGHT else (),
            )
            for row, weight, task, (found, _) in zip(rows, weights, tasks, fitted, strict=True)
        ]

    def _task(
        self,
        option: Option,
        parent: Composition,
        previous: Previous,
        x: np.ndarray,
        y: np.ndarray,
        shared: MeanAtPoints | None,
    ) -> "_Task":
        coordinates = Coordinates(self.pool, option.composition)
        pilot = normal_prior(option.typical.centre, option.typical.spread)
        prior = self._prior(coordinates, parent, pilot)
        objective = Objective(coordinates, x, y, prior, self.noise_floor, shared)
        starts = [option.typical.centre, *option.typical.starts]
        if isinstance(previous, Selection) and previous.composition == option.composition:
            starts.append(coordinates.from_named(previous.hyperparameters, previous.noise))
        return _Task(option, objective, pilot, starts)

    def shortlist(
        self,
        options: Sequence[Option],
        count: int,
        x: np.ndarray,
        y: np.ndarray,
        shared: MeanAtPoints | None = None,
    ) -> list[Option]:
        """Return the most plausible options of each status, in their order.

        A fit costs as much as a hundred likelihoods, so options are compared unfitted: by their
        probability times the largest likelihood at the values to start from.

        Parameters
        ----------
        options : sequence of Option
        count : int
            Of each status, at most.
        x, y : ndarray, shapes (n, D) and (n,)
            In scaled units.
        shared : MeanAtPoints, optional
            What all users share, at the same inputs.
        """
        if len(y) >= MANY:
            few = spread_places(len(y))
            x, y = x[few], y[few]
            shared = None if shared is None else MeanAtPoints(shared.function, x)
        statuses = {option.status for option in options}
        kept = {
            id(option)
            for status in sorted(statuses)
            for option in self._plausible(
                [option for option in options if option.status == status], count, x, y, shared
            )
        }
        return [option for option in options if id(option) in kept]

    def _plausible(
        self,
        options: Sequence[Option],
        count: int,
        x: np.ndarray,
        y: np.ndarray,
        shared: MeanAtPoints | None,
    ) -> Sequence[Option]:
        if len(options) <= count:
            return options
        rivals = [
            (Coordinates(self.pool, option.composition), np.vstack([known.centre, known.starts]))
            for option in options
            for known in [option.typical]
        ]
        plausibility = largest_likelihoods(rivals, x, y, self.noise_floor, shared)
        plausibility += np.log([option.probability for option in options])
        return [options[i] for i in np.argsort(-plausibility, kind="stable")[:count]]

    def _prior(self, coordinates: Coordinates, parent: Composition, pilot: Prior) -> Prior:
        if self._table is not None:
            return study_prior(self._table, coordinates, parent)
        return pilot if self.fit == "pilot" else flat_prior(len(coordinates))

    def _judge(self, task: "_Task", fitted: Fit) -> tuple[Fit, Criterion]:
        """Return a fit's score, and the fit: a higher one where the evidence leads to it."""
        objective, likelihood = task.objective, fitted.log_likelihood
        if self.criterion == "bic":
            return fitted, bic(likelihood, len(fitted.values), objective.n_points)
        if self.criterion == "aic":
            return fitted, aic(likelihood, len(fitted.values))
        if self.criterion == "laplace":
            return laplace(objective, fitted)
        if self.criterion == "loo":
            return fitted, leave_one_out(objective, fitted.values)
        if self.fit == "ml":  # no prior, no evidence: borrow the pilot users'
            objective = objective.with_prior(task.pilot)
            _, evidence = laplace(objective, fit(objective, [fitted.values], 1))
        else:
            fitted, evidence = laplace(objective, fitted)
        total = evidence.value + math.log(task.option.probability)
        return fitted, Criterion(total, total)

    def _exact(self, task: "_Task", starts: Sequence[np.ndarray]) -> tuple[Fit, Criterion]:
        return self._judge(task, fit(task.objective, starts, self.runs))

    def _rough(self, task: "_Task") -> tuple[Fit, Criterion]:
        fitted, evidence = rough_fit(task.objective, task.starts, self.runs)
        if self.criterion not in ("process", "laplace"):
            return self._judge(task, fitted)
        if self.criterion == "process":
            evidence += math.log(task.option.probability)
            if self.fit == "ml":
                evidence += task.objective.with_prior(task.pilot).terms(fitted.values)[1]
        return fitted, Criterion(evidence, evidence)


def _best(fitted: Sequence[tuple[Fit, Criterion]], without: Set[int]) -> int:
    """Return the place of the largest score, of those that aren't left out."""
    places = [i for i in range(len(fitted)) if i not in without]
    return max(places, key=lambda i: fitted[i][1].score)


@dataclass(frozen=True)
class _Task:
    """An option with what is maximised, the pilot users' prior and where to start."""

    option: Option
    objective: Objective
    pilot: Prior
    starts: list[np.ndarray]


@contextmanager
def bar(steps: int, shown: bool) -> Iterator[Callable[[], None]]:
    """Show a progress bar of so many steps; give what advances it by one."""
    if not shown:
        yield lambda: None
        return
    from rich.progress import Progress

    with Progress(transient=True) as progress:
        task = progress.add_task("Selecting", total=steps)
        yield lambda: progress.advance(task)


def ranked(rounds: Sequence[Sequence[Considered]]) -> tuple[Considered, ...]:
    """Return all rows with weights exp(score), those of the best composition first.

    A composition is as good as the sum of its rows' weights. These are normalised over all rounds,
    not within each: the user's data also say how much a posterior draw counts.
    """
    rows = [row for rows in rounds for row in rows]
    weights = _weights([row.score for row in rows])
    rows = [replace(row, weight=float(w)) for row, w in zip(rows, weights, strict=True)]
    totals: dict[Composition, float] = {}
    highest: dict[Composition, float] = {}
    for row in rows:
        totals[row.composition] = totals.get(row.composition, 0.0) + row.weight
        highest[row.composition] = max(highest.get(row.composition, -math.inf), row.score)

    def place(row: Considered) -> tuple[Any, ...]:
        c = row.composition
        return -totals[c], -highest[c], c, -row.weight, -row.score

    return tuple(sorted(rows, key=place))


def _weights(scores: Sequence[float]) -> np.ndarray:
    """Return exp(score), normalised; equal weights where all scores are minus infinity."""
    highest = max(scores)
    if highest == -math.inf:
        return np.full(len(scores), 1 / len(scores))
    weights = np.exp(np.array(scores) - highest)
    return weights / weights.sum()
