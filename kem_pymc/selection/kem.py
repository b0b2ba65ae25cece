"""Online selection of kernels along the learned evolutions (paper, algorithm 1)."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from kem_pymc._system.options import check_whole, checked
from kem_pymc.errors import InputError, SelectionWarning
from kem_pymc.evolutions.clusters import LONE_SPREAD, KernelSummary
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.evolutions.novelty import EVEN, UNLEARNED, next_kernel
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.fit import MANY
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection.scored_kernel import ScoredKernel
from kem_pymc.selection.scorer import Proposal, Scorer, ranked
from kem_pymc.selection.selection import LEAST_WEIGHT, Selection
from kem_pymc.selection.selector import PoolSelector, Previous, ScaledPoints, as_composition

if TYPE_CHECKING:
    from kem_pymc.priors import Priors

#: Number of children, the most probable ones, whose likelihood is computed before any is fitted.
COMPARED = 200

#: Prior probability that a user doesn't follow the shared mean. Robust priors from earlier trials
#: have weights of this size.
DEPARTURE = 0.05

#: Spread of the coordinates of a composition if neither pilot users nor the previous selection
#: provide values.
VAGUE_SPREAD = 2.0


@checked
class KEMSelector(PoolSelector):
    """Selector that chooses among the previous composition's children and that composition itself.

    Parameters
    ----------
    evolutions : Evolutions
        Evolutions learned from pilot users. Their scaling is applied to the user's data.
    fit : {"pilot", "map", "ml"}
        How hyperparameters are fitted: ``"pilot"`` uses independent normal priors on the
        coordinates, with the centre and spread of the pilot users' clusters (those of their final
        compositions, if available); ``"map"`` uses the study's priors; ``"ml"`` is maximum
        likelihood, started from the pilot users' values (the paper's text).
    criterion : {"posterior", "bic", "aic", "laplace", "loo"}
        Criterion by which compositions are compared. ``"posterior"`` is the log probability
        of the evolution up to a constant: its log predictive probability plus the log evidence
        under the prior of the fit (for ``fit="ml"``, which has no prior, under the normal priors of
        ``"pilot"``), by quadrature over the noise and Laplace's approximation over the other
        coordinates.
        ``"bic"`` is the criterion of the paper. ``"laplace"`` is the log evidence alone. ``"loo"``
        is the log leave-one-out predictive density.
    priors : Priors, optional
        Priors for ``fit="map"``, which also define the smallest noise variance of any fit; by
        default those stored with the evolutions. Population parameters have the values of
        :attr:`kem_pymc.Evolutions.typical_population`.
    minimum_probability : float
        Children with a smaller predictive probability aren't considered; if all are smaller, the
        most probable one is. Without final compositions, the current one is always considered.
    max_candidates : int
        Maximum number of children that are considered, and of final compositions that aren't
        children: out of the 200 most probable ones, those with the largest product of probability
        and likelihood at the pilot users' values.
    runs : int
        Number of starting points from which the objective is maximised: those with the largest
        objective out of the pilot users' centre, at most 5 of their clusters, and the user's own
        last values.
    departure : float
        Prior probability that a user doesn't follow the mean function that pilot users share.
        Predictions are a mixture with the selection from evolutions without a shared mean
        (:attr:`kem_pymc.Evolutions.unshared`), weighted by the evidence for each. If there are no
        such evolutions, `departure` has no effect. From 400 points on, a user whose probability was
        below 1 % one time step earlier is taken to follow the shared mean.
    average : int, optional
        Number of posterior draws of the evolutions to average over: the composition with the
        largest sum of exp(score) over draws is selected, with the hyperparameters of the draw that
        scores it highest. Draws in which no pilot user had the user's last composition aren't used.
        By default the posterior is summarised first.

    Raises
    ------
    InputError
        If an option is unknown or out of range, or ``fit="map"`` has no priors, or priors with
        population parameters that weren't learned from the pilot users.

    Notes
    -----
    Nothing is random: the same data and evolutions give the same selection.

    If the pilot users' final compositions were learned (:attr:`kem_pymc.Evolutions.final`), the
    next composition is one of these with the weight that :func:`kem_pymc.calibrate` learns for the
    number of points (:attr:`kem_pymc.Evolutions.novelty`), and otherwise one that followed the last
    one in the pilot study. Unless weights were learned, that of final compositions is .8.
    """

    least = 0

    def __init__(
        self,
        evolutions: Evolutions,
        fit: Literal["pilot", "map", "ml"] = "pilot",
        criterion: Literal["posterior", "bic", "aic", "laplace", "loo"] = "posterior",
        *,
        priors: "Priors | None" = None,
        minimum_probability: float = 0.0,
        max_candidates: int = 6,
        runs: int = 3,
        departure: float = DEPARTURE,
        average: int | None = None,
    ) -> None:
        shares = {"minimum_probability": minimum_probability, "departure": departure}
        for name, share in shares.items():
            if not (isinstance(share, Real) and 0 <= share <= 1):
                raise InputError(f"{name}={share} isn't a probability. Give a number from 0 to 1.")
        check_whole(max_candidates=max_candidates, average=1 if average is None else average)
        if priors is not None and priors.noise_floor != evolutions.noise_floor:
            evolutions = evolutions.with_noise_floor(priors.noise_floor)
        self.evolutions = evolutions
        self.pool, self.scaling = evolutions.pool, evolutions.scaling
        self.shared, self.distribution = evolutions.shared, evolutions.distribution
        self.fit = fit
        self.criterion = criterion
        self.minimum_probability = minimum_probability
        self.max_candidates = max_candidates
        self.average = average
        # Other criteria don't use probabilities: they compare all that is possible.
        learned = evolutions.novelty or UNLEARNED
        self.novelty = learned if criterion == "posterior" else EVEN
        stored = _stored(priors, evolutions) if fit == "map" else None
        floor = evolutions.noise_floor
        self.scorer = Scorer(evolutions.pool, fit, criterion, runs, floor, stored)
        self.departure = departure
        usual = (fit, criterion, average) == ("pilot", "posterior", None)
        self.calibration = evolutions.calibration if usual else None
        self.unshared = None
        if evolutions.unshared is not None and departure > 0:
            self.unshared = KEMSelector(
                evolutions.unshared,
                fit,
                criterion,
                minimum_probability=minimum_probability,
                max_candidates=max_candidates,
                runs=runs,
                average=average,
            )

    def __repr__(self) -> str:
        average = f", average={self.average}" if self.average else ""
        name = type(self).__name__
        return f"{name}(fit={self.fit!r}, criterion={self.criterion!r}{average})"

    def select(
        self, x: npt.ArrayLike, y: npt.ArrayLike, previous: Previous = None, **given: Any
    ) -> Selection:
        """Select a kernel for one user's data up to now, see :meth:`Selector.select`.

        ``**given`` is what is known of the targets, ``noise``.

        At the first time step the children of WHITE (the empty composition) are considered,
        afterwards the children of the previous composition and that composition itself. If the
        pilot users' final compositions were learned, these and the children are considered, by
        their weights.

        Warns
        -----
        SelectionWarning
            If no pilot user had the previous composition, and the final compositions weren't
            learned. The previous composition is then kept and refitted.
        """
        selection = super().select(x, y, previous, **given)
        selection = replace(selection, calibration=self.calibration)
        parent = self.parent(previous)
        if self.evolutions.final is None and not self.evolutions.children(parent):
            message = (
                f"No pilot user had {self.evolutions.label(parent)} one time step earlier, "
                "so it is kept. Give the pilot users' final compositions too: "
                "Evolutions.from_posterior(idata, final=...)."
            )
            warnings.warn(message, SelectionWarning, stacklevel=2)
            selection = replace(selection, message=message)
        if self.unshared is None or _follows(previous, len(selection.y)):
            return selection
        return selection.with_unshared(self.unshared.select(x, y, **given), self.departure)

    def _consider(self, points: ScaledPoints, previous: Previous) -> Sequence[ScoredKernel]:
        parent = self.parent(previous)
        rounds = []
        for source in self._sources(parent):
            proposals = self._proposals(source, parent, previous, len(points.y))
            plausible = self.scorer.shortlist(proposals, self.max_candidates, points)
            rounds.append(self.scorer.consider(plausible, parent, previous, points))
        return ranked(rounds)

    def parent(self, previous: Previous) -> Composition:
        """Return the composition whose children are considered."""
        composition = as_composition(previous, self.pool.dimension)
        self.pool.inclusion(composition)
        return composition

    def _sources(self, parent: Composition) -> list[Evolutions]:
        """Return the evolutions to select with: the summary of all draws, or single draws."""
        telling = self.evolutions.draws_with(parent)
        if self.average is None or not len(telling):
            return [self.evolutions]
        count = min(self.average, len(telling))
        spaced = telling[((np.arange(count) + 0.5) * len(telling) / count).astype(int)]
        return [self.evolutions.single_draw(int(i)) for i in spaced]

    def _proposals(
        self, source: Evolutions, parent: Composition, previous: Previous, n_points: int
    ) -> list[Proposal]:
        if source.final is not None:
            return self._with_new(source, parent, previous, self.novelty.at(n_points))
        proposals = self._children(source, parent)
        if previous is not None or not proposals:
            kept = [c for c in source.children(parent) if c.composition == parent]
            probability = kept[0].probability if kept else source.probability_of_new(parent)
            summary = kept[0] if kept else self.typical(parent, previous)
            proposals = [proposal for proposal in proposals if proposal.composition != parent]
            proposals.append(Proposal(parent, "current", probability, summary))
        return proposals

    def _with_new(
        self, source: Evolutions, parent: Composition, previous: Previous, weight: float
    ) -> list[Proposal]:
        """Return the children of the parent, and the pilot users' final compositions, as proposals.

        Each composition is one proposal. If it is a final composition of pilot users, its typical
        values are those fitted to their complete data: values from few data, or from early data of
        users who change, contain little information on future data. The probabilities of all
        compositions, including those that aren't considered, add up to one: see
        :func:`kem_pymc.evolutions.novelty.next_kernel`.
        """
        assert source.final is not None
        first = previous is None
        followed, new, stays = next_kernel(source, parent, weight, first=first)
        children = {c.composition: c for c in self._children(source, parent)}
        finals = {c.composition: c for c in self._children(source.final, Composition())}
        proposals = []
        for composition in dict.fromkeys([*finals, *children, parent]):
            child, final = children.get(composition), finals.get(composition)
            status, probability = "child" if child else "final", 0.0
            if composition == parent:
                status, probability = "current", stays
            probability += followed * child.probability if child else 0.0
            probability += new * final.probability if final else 0.0
            known = final or child
            summary = known.summary if known else self.typical(parent, previous)
            proposals.append(Proposal(composition, status, probability, summary))
        return [proposal for proposal in proposals if proposal.probability > 0]

    def with_weight(self, selection: Selection, previous: Previous, weight: float) -> Selection:
        """Return a selection with another weight of the pilot users' final compositions.

        The same compositions are considered, except for those that become impossible, with other
        probabilities. It is the selection for users who follow the shared mean.
        """
        parent = self.parent(previous)
        every = self._with_new(self.evolutions, parent, previous, weight)
        probabilities = {proposal.composition: proposal.probability for proposal in every}
        rows = []
        for row in selection.considered:
            probability = probabilities.get(row.composition, 0.0)
            if probability > 0:
                score = row.score + math.log(probability / row.probability)
                row = replace(row, probability=probability, score=score, criterion=score)
                rows.append(row)
        return replace(selection, considered=ranked([rows]), unshared=None, departure=0.0)

    def _children(self, source: Evolutions, parent: Composition) -> list[Proposal]:
        children = source.children(parent)
        likely = [c for c in children if c.probability >= self.minimum_probability]
        return [
            Proposal(c.composition, "child", c.probability, c)
            for c in likely[:COMPARED] or children[:1]
        ]

    def typical(self, composition: Composition, previous: Previous) -> KernelSummary:
        """Return typical values of a composition that isn't a child of itself."""
        anywhere = self.evolutions.typical(composition)
        if anywhere is not None:
            return anywhere
        coordinates = Coordinates(self.evolutions.pool, composition)
        centre, spread = np.zeros(len(coordinates)), VAGUE_SPREAD
        if isinstance(previous, Selection):
            centre = coordinates.from_named(previous.hyperparameters, previous.noise)
            spread = LONE_SPREAD
        return KernelSummary(centre, np.full(len(coordinates), spread), centre[None])


def _follows(previous: Previous, n_points: int) -> bool:
    """Return whether the user is taken to follow the shared mean, without comparing again.

    That needs many points and a small probability of a departure in the previous selection.
    """
    if n_points < MANY or not isinstance(previous, Selection):
        return False
    return previous.departure < LEAST_WEIGHT


def _stored(priors: "Priors | None", evolutions: Evolutions) -> "Priors":
    """Return the given priors, by default those stored with the evolutions.

    Population parameters are replaced by their posterior medians.
    """
    if priors is None:
        if not evolutions.priors:
            raise InputError(
                "The evolutions have no priors for {fit}. Add them with {priors}.",
                fit="map",
                priors=...,
            )
        from kem_pymc.priors import Priors

        priors = Priors.from_dict(evolutions.priors)
    return priors.at(evolutions.typical_population)
