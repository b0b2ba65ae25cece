"""Fitting and scoring of compositions, which all methods of selection have in common.

Methods differ in which compositions they consider. How a composition is fitted to a user's data and
by which criterion it is scored is the same for all methods, so that differences between methods
aren't due to the optimiser or the priors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kem_pymc._system.options import check_whole
from kem_pymc.errors import InputError
from kem_pymc.evolutions.clusters import KernelSummary
from kem_pymc.gp.batched import largest_likelihoods
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.evidence import laplace
from kem_pymc.gp.fit import (
    MANY,
    Criterion,
    Fit,
    aic,
    bic,
    fit,
    leave_one_out,
    refined,
    spread_places,
)
from kem_pymc.gp.laplace import Laplace
from kem_pymc.gp.likelihood import HALF_LOG_2PI
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.problem import Prior, flat_prior, normal_prior
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.priors.compiled_table import PriorTable
from kem_pymc.selection.scored_kernel import ScoredKernel, draws_around
from kem_pymc.selection.screening import REFINED, rough_fit
from kem_pymc.selection.selection import LEAST_WEIGHT, Selection
from kem_pymc.selection.selector import Previous, ScaledPoints

if TYPE_CHECKING:
    from kem_pymc.priors import Priors

FITS = ("pilot", "map", "ml")
CRITERIA = ("posterior", "bic", "aic", "laplace", "loo")

#: Largest number of times that observations that stand for targets of a family are made anew and
#: the composition is fitted to them; and the gain of a fit in nats below which they are kept. With
#: new ones scores would change by .005 nats at most, in nine of ten cases.
ROUNDS, SETTLED = 5, 0.05

#: Compositions whose approximate score is this many nats below the best keep it: of fits to all
#: points, and of those to some of many. In four studies, of 5 to 300 points, approximate scores of
#: fits to all points within 10 nats of the best were at most 2.4 nats too small.
FAR, FAR_OF_MANY = 13.0, 60.0

#: Weight of a composition from which on each draw of its values has observations of its own: for
#: all with draws, a selection would take up to 2.6 times as long as one of normal targets.
LIKELY = 0.1


@dataclass(frozen=True)
class Proposal:
    """A composition to consider, with its probability and typical values in the pilot study.

    Attributes
    ----------
    composition : Composition
    status : str
        As in :class:`~kem_pymc.selection.scored_kernel.ScoredKernel`.
    probability : float
        Predictive probability of the evolution in the pilot study.
    summary : KernelSummary
        Values from which fits start. Their centre and spread are the prior of ``fit="pilot"``.
    """

    composition: Composition
    status: str
    probability: float
    summary: KernelSummary


@dataclass(frozen=True)
class FitProblem:
    """A proposal with its objective, the pilot users' prior and its starting points."""

    proposal: Proposal
    objective: Objective
    pilot: Prior
    starts: list[np.ndarray]


class _Scored(NamedTuple):
    """An objective, its fit, and the score of the fit."""

    objective: Objective
    fit: Fit
    criterion: Criterion


class Scorer:
    """Procedure that fits compositions to a user's data and scores them.

    Parameters
    ----------
    pool : CandidatePool
    fit : {"pilot", "map", "ml"}
    criterion : {"posterior", "bic", "aic", "laplace", "loo"}
        Both as in :class:`~kem_pymc.KEMSelector`.
    runs : int
        Number of starting points from which the objective is maximised.
    noise_floor : float
        Smallest noise variance of fits, in scaled units.
    priors : Priors, optional
        Priors for ``fit="map"``.

    Raises
    ------
    InputError
        If an option is unknown or out of range, or ``fit="map"`` has no priors or priors that
        depend on population parameters.
    """

    def __init__(
        self,
        pool: CandidatePool,
        fit: str,
        criterion: str,
        runs: int,
        noise_floor: float,
        priors: "Priors | None" = None,
    ) -> None:
        if fit not in FITS:
            raise InputError(f"There is no fit {fit!r}. Use one of {', '.join(FITS)}.")
        if criterion not in CRITERIA:
            raise InputError(
                f"There is no criterion {criterion!r}. Use one of {', '.join(CRITERIA)}."
            )
        check_whole(runs=runs)
        if fit == "map" and priors is None:
            raise InputError(
                "{fit} needs priors. Add those of the study with {priors}.", fit=fit, priors=...
            )
        if fit == "map" and priors is not None:
            priors.check_values(pool)
        self.pool, self.priors = pool, priors
        self.fit, self.criterion, self.runs = fit, criterion, runs
        self.noise_floor = noise_floor

    def __getstate__(self) -> dict[str, Any]:
        # Pointers to compiled code are invalid in another process, which compiles again.
        return {name: v for name, v in self.__dict__.items() if name not in ("table", "_known")}

    @cached_property
    def _known(self) -> dict[Composition, Coordinates]:
        """Coordinates of compositions, which all selections have in common."""
        return {}

    @cached_property
    def table(self) -> PriorTable:
        """The study's priors, compiled when they are first needed."""
        assert self.priors is not None
        return self.priors.compile(self.pool)

    def consider(
        self,
        proposals: Sequence[Proposal],
        parent: Composition,
        previous: Previous,
        points: ScaledPoints,
    ) -> list[ScoredKernel]:
        """Fit and score every proposal.

        Scores are first approximated by a normal density at the fit, and made exact unless they
        are so far below the best that they don't matter. With many points, proposals are fitted to
        an evenly spread subset of the points and compared approximately on all of them; the best
        two are then fitted to all points. Approximate and unfinished fits are marked as not
        converged.

        Parameters
        ----------
        proposals : sequence of Proposal
            At least one proposal.
        parent : Composition
            Parent composition, on which the study's prior of the noise depends.
        previous : Selection, Composition, str or None
            If it is a Selection of the same composition as a proposal, its values are an additional
            starting point.
        points : ScaledPoints

        Returns
        -------
        list of ScoredKernel
            One record per proposal, in the same order. Their weights add up to one.
        """
        problems = [self.problem(proposal, parent, previous, points) for proposal in proposals]
        screens = len(points.y) >= MANY and len(problems) > REFINED
        fitted = self._screened(problems) if screens else self._fitted(problems)
        # The scores of all that matter are made exact.
        far = FAR_OF_MANY if screens else FAR if self.fit == "pilot" else math.inf
        best = -math.inf
        for count, i in enumerate(_order([scored.criterion.score for scored in fitted])):
            if fitted[i].criterion.score < best - far:
                break
            if screens and count >= REFINED and fitted[i].criterion.score < best:
                break
            fitted[i] = self._exact(problems[i], fitted[i], screens)
            best = max(best, fitted[i].criterion.score)
        weights = normalised([scored.criterion.score for scored in fitted])
        return [
            ScoredKernel.of(
                objective,
                found,
                status=problem.proposal.status,
                criterion=criterion.value,
                score=criterion.score,
                weight=weight,
                probability=problem.proposal.probability,
                draws=draws_around(objective, found, bool(weight >= LIKELY))
                if weight >= LEAST_WEIGHT
                else (),
            )
            for problem, (objective, found, criterion), weight in zip(
                problems, fitted, weights, strict=True
            )
        ]

    def problem(
        self, proposal: Proposal, parent: Composition, previous: Previous, points: ScaledPoints
    ) -> FitProblem:
        """Return what a fit of one proposal needs; the arguments are those of :meth:`consider`."""
        coordinates = self._coordinates(proposal.composition)
        pilot = normal_prior(proposal.summary.centre, proposal.summary.spread)
        prior = self._prior(coordinates, parent, pilot)
        objective = points.objective(coordinates, prior, self.noise_floor)
        starts = [proposal.summary.centre, *proposal.summary.starts]
        if isinstance(previous, Selection) and previous.composition == proposal.composition:
            starts.append(coordinates.from_named(previous.hyperparameters, previous.noise))
        return FitProblem(proposal, objective, pilot, starts)

    def shortlist(
        self, proposals: Sequence[Proposal], count: int, points: ScaledPoints
    ) -> list[Proposal]:
        """Return the most plausible proposals of each status, in their original order.

        A fit costs as much as a hundred evaluations of the likelihood. Options are therefore
        compared without a fit, by their probability times the largest likelihood at their starting
        values.

        Parameters
        ----------
        proposals : sequence of Proposal
        count : int
            Maximum number of proposals of each status.
        points : ScaledPoints

        Returns
        -------
        list of Proposal
        """
        x, y, known = points.x, points.y, points.known
        if len(y) >= MANY:
            few = spread_places(len(y))
            x, y, known = x[few], y[few], None if known is None else known.at(few)
        kept: set[int] = set()
        for status in dict.fromkeys(proposal.status for proposal in proposals):
            places = [i for i, proposal in enumerate(proposals) if proposal.status == status]
            if len(places) > count:
                summaries = [proposals[i].summary for i in places]
                rivals = [
                    (self._coordinates(proposals[i].composition), np.vstack([s.centre, s.starts]))
                    for i, s in zip(places, summaries, strict=True)
                ]
                plausibility = largest_likelihoods(rivals, x, y, self.noise_floor, known)
                plausibility += np.log([proposals[i].probability for i in places])
                places = [places[i] for i in np.argsort(-plausibility, kind="stable")[:count]]
            kept |= {*places}
        return [proposals[i] for i in sorted(kept)]

    def _coordinates(self, composition: Composition) -> Coordinates:
        """Return the coordinates of a composition."""
        if composition not in self._known:
            self._known[composition] = Coordinates(self.pool, composition)
        return self._known[composition]

    def _prior(self, coordinates: Coordinates, parent: Composition, pilot: Prior) -> Prior:
        if self.fit == "map":
            return study_prior(self.table, coordinates, parent)
        return pilot if self.fit == "pilot" else flat_prior(len(coordinates))

    def _fit_and_criterion(
        self, objective: Objective, problem: FitProblem, fitted: Fit
    ) -> tuple[Fit, Criterion]:
        """Return a fit and its score.

        The fit is replaced if the evidence finds a higher optimum.
        """
        likelihood = fitted.log_likelihood + objective.log_constant
        if self.criterion == "bic":
            return fitted, bic(likelihood, len(fitted.values), objective.n_points)
        if self.criterion == "aic":
            return fitted, aic(likelihood, len(fitted.values))
        if self.criterion == "laplace":
            fitted, evidence = laplace(objective, fitted)
            return fitted, evidence.plus(objective.log_constant)
        if self.criterion == "loo":
            left_out = leave_one_out(objective, fitted.values)
            return fitted, left_out.plus(objective.log_constant)
        if self.fit == "ml":  # the evidence needs a prior: use that of fit="pilot"
            objective = objective.with_prior(problem.pilot)
            _, evidence = laplace(objective, fit(objective, [fitted.values], 1))
        else:
            fitted, evidence = laplace(objective, fitted)
        more = math.log(problem.proposal.probability) + objective.log_constant
        return fitted, evidence.plus(more)

    def _fitted(self, problems: Sequence[FitProblem]) -> list[_Scored]:
        """Return fits with approximate scores, left unfinished where these don't matter."""
        found: dict[int, _Scored] = {}
        best = -math.inf
        for i in _order([self._height(problem) for problem in problems]):
            least = self._least(problems[i], best - FAR)
            fitted = fit(problems[i].objective, problems[i].starts, self.runs, least=least)
            found[i] = self._roughly(problems[i], *self._settled(problems[i], fitted))
            best = max(best, found[i].criterion.score)
        return [found[i] for i in range(len(problems))]

    def _screened(self, problems: Sequence[FitProblem]) -> list[_Scored]:
        """Return approximate fits, to some of many points, with approximate scores."""
        found = []
        for problem in problems:
            objective = problem.objective
            fitted = rough_fit(objective, problem.starts, self.runs)
            if objective.recorded is not None:
                (objective,) = objective.around(fitted.values[None])
                fitted = replace(fitted, log_likelihood=objective.terms(fitted.values)[0])
            found.append(self._roughly(problem, objective, fitted))
        return found

    def _height(self, problem: FitProblem) -> float:
        """Return the objective at the pilot users' centre, with the proposal's probability."""
        (height,) = problem.objective.heights(problem.starts[0][None])
        return float(height) + math.log(problem.proposal.probability)

    def _least(self, problem: FitProblem, score: float) -> float:
        """Return the least height of a fit with a given score, if there is one.

        A posterior is taken to be no wider than its prior.
        """
        prior = problem.objective.problem.prior
        known = self.criterion == "posterior" and prior.precision.min() > 0
        if not known or problem.objective.recorded is not None:
            return -math.inf
        volume = float((HALF_LOG_2PI - 0.5 * np.log(prior.precision)).sum())
        return score - math.log(problem.proposal.probability) - volume

    def _settled(self, problem: FitProblem, fitted: Fit) -> tuple[Objective, Fit]:
        """Return an objective whose observations stand for targets at its fit, with that fit."""
        objective, near = problem.objective, None
        for _ in range(ROUNDS if objective.recorded is not None else 0):
            (objective,) = objective.around(fitted.values[None], near)
            near, before = objective.sites, sum(objective.terms(fitted.values))
            assert fitted.curvature is not None
            fitted = refined(objective, fitted.values, fitted.curvature)
            if fitted.height < before + SETTLED:
                break
        return objective, fitted

    def _roughly(self, problem: FitProblem, objective: Objective, fitted: Fit) -> _Scored:
        """Return a fit with its score, for which the evidence is that of a normal density."""
        if self.criterion not in ("posterior", "laplace"):
            return _Scored(objective, *self._fit_and_criterion(objective, problem, fitted))
        assert fitted.curvature is not None
        evidence = fitted.height + Laplace(fitted.curvature).log_volume + objective.log_constant
        if self.criterion == "posterior":
            evidence += math.log(problem.proposal.probability)
            if self.fit == "ml":
                evidence += problem.objective.with_prior(problem.pilot).terms(fitted.values)[1]
        return _Scored(objective, fitted, Criterion(evidence, evidence))

    def _exact(self, problem: FitProblem, rough: _Scored, screened: bool) -> _Scored:
        """Return a fit with its score, given an approximate score, and fit if it was screened."""
        objective, fitted = rough.objective, rough.fit
        if screened:
            assert fitted.curvature is not None
            fitted = refined(problem.objective, fitted.values, fitted.curvature)
            objective, fitted = self._settled(problem, fitted)
        return _Scored(objective, *self._fit_and_criterion(objective, problem, fitted))


def _order(numbers: Sequence[float]) -> list[int]:
    """Return the indices of numbers, the largest first."""
    return sorted(range(len(numbers)), key=lambda i: -numbers[i])


def study_prior(priors: PriorTable, coordinates: Coordinates, parent: Composition) -> Prior:
    """Return the study's priors for a composition, given its parent composition.

    Parameters
    ----------
    priors : PriorTable
        Table of densities of unconstrained coordinates.
    coordinates : Coordinates
    parent : Composition

    Returns
    -------
    Prior

    Raises
    ------
    InputError
        If the parent has a candidate that isn't in the pool.
    """
    return Prior(
        centre=np.zeros(len(coordinates)),
        precision=np.zeros(len(coordinates)),
        entries=priors.entry[coordinates.places],
        parent=coordinates.pool.inclusion(parent),
        log_density=priors.log_density,
        gradient=priors.gradient,
        noise_log_density=priors.noise_log_density,
        noise_gradient=priors.noise_gradient,
        population=priors.population,
        from_study=True,
    )


def ranked(rounds: Sequence[Sequence[ScoredKernel]]) -> tuple[ScoredKernel, ...]:
    """Return all rows with weights proportional to exp(score), best composition first.

    Compositions are ranked by the sum of their rows' weights. Weights are normalised over all
    rounds, not within each, so that posterior draws are weighted by the user's data as well.
    """
    rows = [row for rows in rounds for row in rows]
    weights = normalised([row.score for row in rows])
    rows = [replace(row, weight=float(w)) for row, w in zip(rows, weights, strict=True)]
    totals: dict[Composition, float] = {}
    highest: dict[Composition, float] = {}
    for row in rows:
        totals[row.composition] = totals.get(row.composition, 0.0) + row.weight
        highest[row.composition] = max(highest.get(row.composition, -math.inf), row.score)

    def place(row: ScoredKernel) -> tuple[Any, ...]:
        c = row.composition
        return -totals[c], -highest[c], c, -row.weight, -row.score

    return tuple(sorted(rows, key=place))


def normalised(scores: Sequence[float]) -> np.ndarray:
    """Return normalised exp(score); equal weights if all scores are minus infinity."""
    highest = max(scores)
    if highest == -math.inf:
        return np.full(len(scores), 1 / len(scores))
    weights = np.exp(np.array(scores) - highest)
    return weights / weights.sum()
