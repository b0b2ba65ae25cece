"""Interface of all methods of selection, which select a kernel for a user's data."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from kem_pymc.data.feature_distribution import FeatureDistribution
from kem_pymc.data.scaling import Scaling
from kem_pymc.data.validation import check_noise, check_points, filled
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import NOISE_FLOOR, Coordinates
from kem_pymc.gp.known_part import KnownPart
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.posterior import PopulationFunction
from kem_pymc.gp.problem import Prior
from kem_pymc.gp.recorded import Recorded
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.population.mean_process import MeanProcess
from kem_pymc.selection.scored_kernel import ScoredKernel
from kem_pymc.selection.selection import Selection

#: Types in which a selector accepts the result of the previous time step.
Previous = Selection | Composition | str | None


@runtime_checkable
class Selector(Protocol):
    """Protocol of a method of selection."""

    def select(
        self,
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        previous: Previous = None,
        *,
        noise: npt.ArrayLike | None = None,
        sizes: npt.ArrayLike | None = None,
    ) -> Selection:
        """Select a kernel for one user's data up to now.

        Parameters
        ----------
        x : array_like, shape (n, D), or (n,) if D is 1
            All of the user's inputs so far, in the user's units. With none, shape (0, D), a new
            user is predicted by what was learned from pilot users, if the method learns that.
        y : array_like, shape (n,)
        previous : Selection, Composition, str or None
            Selection or composition of the time step before; None at the first. If it is a
            Selection of a composition that is considered, its fitted values are an additional
            starting point.
        noise : array_like, shape (n,), optional
            Known standard deviation of each target's own noise, in the target's unit.
        sizes : array_like, shape (n,), optional
            Exposure of each count, or number of trials, as the pilot users' family has them.

        Returns
        -------
        Selection

        Raises
        ------
        InputError
            If there are no points and the method needs some, the shapes don't match, a value isn't
            a finite number, or the method needs the previous composition, and it has candidates
            that aren't in the pool.
        """


@dataclass(frozen=True)
class ScaledPoints:
    """The points of one user, in scaled units.

    Attributes
    ----------
    x, y : ndarray, shapes (n, D) and (n,)
        Inputs, and targets or observations that stand for them.
    known : KnownPart, optional
        Mean function that all users share, at the inputs, and known noise of the targets.
    recorded : Recorded, optional
        The targets themselves, if they have a family.
    """

    x: np.ndarray
    y: np.ndarray
    known: KnownPart | None = None
    recorded: Recorded | None = None

    @classmethod
    def of(
        cls,
        scaling: Scaling,
        x: np.ndarray,
        y: np.ndarray,
        shared: PopulationFunction | None = None,
        *,
        noise: npt.ArrayLike | None = None,
        sizes: npt.ArrayLike | None = None,
    ) -> Self:
        """Return the points of a user in scaled units, with what is known of them.

        Parameters
        ----------
        scaling : Scaling
        x, y : ndarray, shapes (n, D) and (n,)
            Inputs and targets in the user's units.
        shared : PopulationFunction, optional
            Mean function that all users share, in scaled units.
        noise, sizes : array_like, shape (n,), optional
            As for :meth:`Selector.select`.

        Raises
        ------
        InputError
            If a target can't be transformed or doesn't belong to the family, or there isn't one
            noise or size for each target.
        """
        inputs, noise = scaling.inputs(x), None if noise is None else check_noise(noise, y)
        targets, sds = scaling.observations(y, noise, sizes)
        if scaling.family is None or not len(y):
            variances = None if sds is None else sds**2
            return cls(inputs, targets, KnownPart.of(shared, inputs, variances))
        each = None if sizes is None else filled(sizes)
        recorded = Recorded(scaling.family, y, each, scaling.target_mean, scaling.target_sd)
        before = KnownPart(shared, inputs)
        # Of the user's own function no more is known than its size: it has the unit's variance.
        found = recorded.sites(before.mean, before.covariance + np.eye(len(y)))
        return cls(inputs, found.targets, KnownPart(shared, inputs, found.noise), recorded)

    @property
    def noise(self) -> np.ndarray | None:
        """Known variances (n,) of the targets' noise."""
        return None if self.known is None else self.known.noise

    def objective(
        self, coordinates: Coordinates, prior: Prior | None = None, noise_floor: float = NOISE_FLOOR
    ) -> Objective:
        """Return the objective of a composition's fit to the points."""
        known, recorded = self.known, self.recorded
        return Objective(coordinates, self.x, self.y, prior, noise_floor, known, recorded)


class PoolSelector(Selector):
    """Base class of methods that consider compositions of a pool, for data in scaled units.

    Subclasses have the attributes and implement :meth:`_consider`.

    Attributes
    ----------
    pool : CandidatePool
    scaling : Scaling
        Scaling applied to the user's data.
    shared : MeanProcess or None
        Mean process that all users share, in scaled units.
    distribution : FeatureDistribution or None
        Distribution of pilot users' features.
    """

    pool: CandidatePool
    scaling: Scaling
    shared: MeanProcess | None = None
    distribution: FeatureDistribution | None = None

    #: Least number of points; 0 of methods that know kernels and values from pilot users.
    least: int = 1

    def select(
        self,
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        previous: Previous = None,
        *,
        noise: npt.ArrayLike | None = None,
        sizes: npt.ArrayLike | None = None,
    ) -> Selection:
        started = time.perf_counter()
        x, y = check_points(x, y, self.pool.dimension, self.least)
        points = ScaledPoints.of(self.scaling, x, y, self.shared, noise=noise, sizes=sizes)
        considered = tuple(self._consider(points, previous))
        return Selection(
            considered,
            self.pool,
            self.scaling,
            points.x,
            points.y,
            time.perf_counter() - started,
            shared=self.shared,
            distribution=self.distribution,
            known_noise=points.noise,
            recorded=points.recorded,
        )

    def _consider(self, points: ScaledPoints, previous: Previous) -> Sequence[ScoredKernel]:
        """Return the compositions considered for data in scaled units, the best one first."""
        raise NotImplementedError


def as_composition(previous: Previous, dimension: int) -> Composition:
    """Return the composition of the previous time step; WHITE (the empty one) at the first.

    Raises
    ------
    InputError
        If `previous` isn't a composition.
    """
    if previous is None:
        return Composition()
    if isinstance(previous, Selection):
        previous = previous.composition
    if isinstance(previous, str):
        previous = Composition.parse(previous, dimension)
    if not isinstance(previous, Composition):
        raise InputError(
            f"previous is a {type(previous).__name__}. "
            "Give the last selection, a composition, its name, or None at the first time step."
        )
    return previous
