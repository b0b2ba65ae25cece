"""Select a kernel by walking along learned evolutions (paper, algorithm 1)."""

import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from kem_pymc.checks import check_points
from kem_pymc.errors import InputError, SelectionWarning
from kem_pymc.evolution.clusters import LONE_SPREAD, Typical
from kem_pymc.evolution.evolutions import Evolutions
from kem_pymc.evolution.novelty import next_kernel
from kem_pymc.gp.fit import MANY
from kem_pymc.gp.mean_process import MeanAtPoints
from kem_pymc.gp.objective import Coordinates
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection.judge import Judge, Option, ranked
from kem_pymc.selection.selection import LEAST_WEIGHT, Selection
from kem_pymc.selection.selector import Previous, previous_composition

if TYPE_CHECKING:
    from kem_pymc.priors import Priors

#: So many children, the most probable ones, are compared with the data before any is fitted.
COMPARED = 200

#: Probability that a user doesn't follow what the others share, before there are data: robust
#: priors from earlier trials have weights of this size.
DEPARTURE = 0.05

#: Spread of the coordinates of a composition of which nothing at all is known.
VAGUE_SPREAD = 2.0


class KEMSelector:
    """Selects among the children of the user's last composition, and that composition itself.

    Parameters
    ----------
    evolutions : Evolutions
        Learned from pilot users; their scaling is applied to the user's data.
    fit : {"pilot", "map", "ml"}
        How hyperparameters are fitted: with independent normals on the coordinates that have the
        centre and spread of the pilot users' clusters as the prior (with which they ended up, where
        that is known); with the study's priors; by maximum likelihood, from the pilot users' values
        (the paper's text).
    criterion : {"process", "bic", "aic", "laplace", "loo"}
        What decides. ``"process"`` is the log posterior probability of the evolution up to a
        constant: its log predictive probability plus the log evidence under the prior of the fit
        (for ``fit="ml"``, which has none, the pilot users' normals), by quadrature over the noise
        and Laplace's approximation over the other coordinates.
        ``"bic"`` is the paper's. ``"laplace"`` is the log evidence alone. ``"loo"`` is the log
        leave-one-out predictive density.
    priors : Priors, optional
        For ``fit="map"``, and for the smallest noise variance of any fit; by default those stored
        with the evolutions. Population parameters have the values of
        :attr:`kem_pymc.Evolutions.typical_population`.
    minimum_probability : float
        Children of a smaller predictive probability aren't considered, unless all are smaller:
        then the most probable one is. The current composition always is.
    max_candidates : int
        At most so many children are considered: out of the 200 most probable ones those with the
        largest product of probability and likelihood at the pilot users' values.
    runs : int
        How many starting points are followed to an optimum, out of the pilot users' centre, at
        most 5 of their clusters, and the user's own last values: those with the largest objective.
    novelty : float
        Least probability that a user's next composition is a new one, unlike any that followed the
        last composition in the pilot study. New ones are drawn from where pilot users ended up
        (:attr:`kem_pymc.Evolutions.final`); without that it plays no part. With less, first kernels
        are simpler; with more, selections come nearer to those of :class:`FinalSelector`. Zero is
        the model's own probability, which supposes that pilot users' early data are as telling of
        data to come as their late ones. The default was chosen on simulated users.
    departure : float
        Probability, before there are data, that a user doesn't follow what pilot users share.
        Predictions are a mixture with what is selected for a user who shares nothing
        (:attr:`kem_pymc.Evolutions.unshared`), by the evidence for either; without that, and where
        users share nothing, it plays no part. From 400 points on, users for whom it was below 1 %
        one time step earlier follow the others.
    average : int, optional
        Select over so many posterior draws of the evolutions: the composition with the largest
        exp(score), summed over draws; by default the posterior is summarised first. Its
        hyperparameters come from the draw that scores it highest. Draws in which no pilot user had
        the user's last composition have no say.
    progress : bool
        Whether to show a progress bar for selections from 400 points or more, which take seconds.

    Raises
    ------
    InputError
        If an option is unknown or out of range, or ``fit="map"`` finds no priors, or priors of
        which the pilot users told no population parameters.

    Notes
    -----
    Nothing is random: the same data and evolutions give the same selection.
    """

    def __init__(
        self,
        evolutions: Evolutions,
        fit: Literal["pilot", "map", "ml"] = "pilot",
        criterion: Literal["process", "bic", "aic", "laplace", "loo"] = "process",
        *,
        priors: "Priors | None" = None,
        minimum_probability: float = 0.0,
        max_candidates: int = 6,
        runs: int = 3,
        novelty: float = 0.8,
        departure: float = DEPARTURE,
        average: int | None = None,
        progress: bool = False,
    ) -> None:
        shares = {
            "minimum_probability": minimum_probability,
            "novelty": novelty,
            "departure": departure,
        }
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise InputError(f"{name}={share} is no probability. Give 0 to 1.")
        for name, count in {"max_candidates": max_candidates, "average": average}.items():
            if count is not None and count < 1:
                raise InputError(f"{name}={count} leaves nothing to do. Give 1 or more.")
        if priors is not None and priors.noise_floor != evolutions.noise_floor:
            evolutions = evolutions.with_noise_floor(priors.noise_floor)
        self.evolutions = evolutions
        self.fit = fit
        self.criterion = criterion
        self.minimum_probability = minimum_probability
        self.max_candidates = max_candidates
        self.novelty = novelty
        self.average = average
        stored = _stored(priors, evolutions) if fit == "map" else None
        floor = evolutions.noise_floor
        self._judge = Judge(evolutions.pool, fit, criterion, runs, floor, stored, progress)
        self.departure = departure
        self._unshared = None
        if evolutions.unshared is not None and departure > 0:
            self._unshared = KEMSelector(
                evolutions.unshared,
                fit,
                criterion,
                minimum_probability=minimum_probability,
                max_candidates=max_candidates,
                runs=runs,
                average=average,
                progress=progress,
            )

    def __repr__(self) -> str:
        average = f", average={self.average}" if self.average else ""
        name = type(self).__name__
        return f"{name}(fit={self.fit!r}, criterion={self.criterion!r}{average})"

    def select(self, x: npt.ArrayLike, y: npt.ArrayLike, previous: Previous = None) -> Selection:
        """Select a kernel for one user's data up to now.

        At the first time step the children of WHITE are considered, afterwards the children of the
        previous composition and that composition itself.

        Parameters
        ----------
        x : array_like, shape (n, D), or (n,) if D is 1
            All of the user's inputs so far, in the user's units.
        y : array_like, shape (n,)
        previous : Selection, Composition, str or None
            What was selected one time step earlier; None at the first. The values of a Selection
            are one more starting point.

        Returns
        -------
        Selection

        Raises
        ------
        InputError
            If the data can't be used, or the previous composition isn't made of the candidates.

        Warns
        -----
        SelectionWarning
            If no pilot user had the previous composition: it stays and is refitted.
        """
        started = time.perf_counter()
        pool, scaling = self.evolutions.pool, self.evolutions.scaling
        own_x, own_y = check_points(x, y, pool.dimension)
        x, y = scaling.inputs(own_x), scaling.targets(own_y)
        function = self.evolutions.shared
        shared = None if function is None else MeanAtPoints(function, x)
        parent = self._parent(previous)
        message = ""
        if self.evolutions.final is None and not self.evolutions.children(parent):
            message = (
                f"No pilot user had {self.evolutions.label(parent)} one time step earlier, "
                "so it stays. Give where pilot users ended up: "
                "Evolutions.from_posterior(idata, final=...)."
            )
            warnings.warn(message, SelectionWarning, stacklevel=2)
        rounds = []
        for source in self._sources(parent):
            options = self._options(source, parent, previous)
            plausible = self._judge.shortlist(options, self.max_candidates, x, y, shared)
            rounds.append(self._judge.consider(plausible, parent, previous, x, y, shared))
        considered = ranked(rounds)
        run_time = time.perf_counter() - started
        selection = Selection(considered, pool, scaling, x, y, run_time, message, function)
        if self._unshared is None or _follows(previous, len(y)):
            return selection
        return selection.with_unshared(self._unshared.select(own_x, own_y), self.departure)

    def _parent(self, previous: Previous) -> Composition:
        """Return the composition whose children are considered."""
        return previous_composition(previous, self.evolutions.pool)

    def _sources(self, parent: Composition) -> list[Evolutions]:
        """Return the evolutions to select with: all draws as one, or single draws."""
        telling = self.evolutions.draws_with(parent)
        if self.average is None or not len(telling):
            return [self.evolutions]
        count = min(self.average, len(telling))
        spaced = telling[((np.arange(count) + 0.5) * len(telling) / count).astype(int)]
        return [self.evolutions.single_draw(int(i)) for i in spaced]

    def _options(self, source: Evolutions, parent: Composition, previous: Previous) -> list[Option]:
        if source.final is not None:
            return self._with_new(source, parent, previous)
        options = self._children(source, parent)
        if previous is not None or not options:
            own = [c for c in source.children(parent) if c.composition == parent]
            probability = own[0].probability if own else source.probability_of_new(parent)
            typical = own[0] if own else self._typical(parent, previous)
            options = [option for option in options if option.composition != parent]
            options.append(Option(parent, "current", probability, typical))
        return options

    def _with_new(
        self, source: Evolutions, parent: Composition, previous: Previous
    ) -> list[Option]:
        """Return children, what pilot users ended up with, and the parent itself.

        Each composition is one option. Its values are those that pilot users ended up with, from
        all of their data, where any did: values from few data, or from the early data of users who
        change, say little of data to come. Probabilities, those of what isn't considered as well,
        add up to one but for what the base distribution has beside the parent: see
        :func:`kem_pymc.evolution.novelty.next_kernel`.
        """
        assert source.final is not None
        known, new, stay = next_kernel(source, parent, self.novelty)
        options = {
            option.composition: replace(
                option, status="final", probability=new * option.probability
            )
            for option in self._children(source.final, Composition())
        }
        for option in self._children(source, parent):
            final = options.get(option.composition)
            options[option.composition] = Option(
                option.composition,
                option.status,
                known * option.probability + (final.probability if final else 0.0),
                (final or option).typical,
            )
        own = options.get(parent)
        options[parent] = Option(
            parent,
            "current",
            stay + (own.probability if own else 0.0),
            own.typical if own else self._typical(parent, previous),
        )
        return [option for option in options.values() if option.probability > 0]

    def _children(self, source: Evolutions, parent: Composition) -> list[Option]:
        children = source.children(parent)
        likely = [c for c in children if c.probability >= self.minimum_probability]
        return [
            Option(c.composition, "child", c.probability, c)
            for c in likely[:COMPARED] or children[:1]
        ]

    def _typical(self, composition: Composition, previous: Previous) -> Typical:
        """Return what is known of a composition that isn't a child of itself."""
        anywhere = self.evolutions.typical(composition)
        if anywhere is not None:
            return anywhere
        coordinates = Coordinates(self.evolutions.pool, composition)
        centre, spread = np.zeros(len(coordinates)), VAGUE_SPREAD
        if isinstance(previous, Selection):
            centre = coordinates.from_named(previous.hyperparameters, previous.noise)
            spread = LONE_SPREAD
        return Typical(centre, np.full(len(coordinates), spread), centre[None])


def _follows(previous: Previous, n_points: int) -> bool:
    """Return whether a user with many points, by which that is settled, follows the others."""
    if n_points < MANY or not isinstance(previous, Selection):
        return False
    return previous.departure < LEAST_WEIGHT


def _stored(priors: "Priors | None", evolutions: Evolutions) -> "Priors":
    """Return the study's priors: those given, or those stored with the evolutions.

    Population parameters are at their posterior medians.
    """
    if priors is None:
        if not evolutions.priors:
            raise InputError("The evolutions hold no priors for fit='map'. Pass them as priors=.")
        from kem_pymc.priors import Priors

        priors = Priors.from_dict(evolutions.priors)
    return priors.at(evolutions.typical_population)
