"""Predictions of methods without kernels, as selections: they are scored like those of KEM."""

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from kem_pymc.comparison.costs import NOTHING, Cost
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.data.validation import check_points, input_rows
from kem_pymc.errors import InputError
from kem_pymc.gp.mixture import Mixture
from kem_pymc.gp.prediction import Prediction, in_target_unit
from kem_pymc.kernels.composition import Candidate, Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.selection.scored_kernel import ScoredKernel
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.selector import Previous

#: Stands for a kernel in selections of methods that have none; nothing in it was fitted.
NO_KERNEL = ScoredKernel(
    composition=Composition(),
    status="fixed",
    hyperparameters={},
    noise=np.nan,
    log_likelihood=np.nan,
    n_parameters=0,
    bic=np.nan,
    criterion=0.0,
    score=0.0,
    weight=1.0,
    probability=1.0,
    evaluations=0,
    converged=True,
)


class Pilots(NamedTuple):
    """Pilot users' rows in scaled units: features from 0 to 1, targets with mean 0 and sd 1.

    Attributes
    ----------
    x : ndarray, shape (n, D)
    y : ndarray, shape (n,)
    users : ndarray of int, shape (n,)
        Number of each row's user, from 0.
    scaling : Scaling
    """

    x: np.ndarray
    y: np.ndarray
    users: np.ndarray
    scaling: Scaling

    @classmethod
    def of(cls, cohort: Cohort) -> Self:
        """Return the rows of a cohort.

        Raises
        ------
        InputError
            If features are categories, or targets have a family, known noise or sizes.
        """
        if cohort.levels or cohort.family is not None or cohort.given(0):
            raise InputError(
                "Peers have numbers as features, and normal targets without known noise or sizes. "
                "Leave out categories, {family}, {noise} and {size}.",
                **{name: ... for name in ("family", "noise", "size")},
            )
        scaling = Scaling.unit(cohort)
        users = np.repeat(np.arange(cohort.n_users), [len(y) for y in cohort.targets])
        x, y = np.concatenate(cohort.inputs), np.concatenate(cohort.targets)
        return cls(scaling.inputs(x), scaling.targets(y), users, scaling)

    def by_user(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return inputs (n_u, D) and targets (n_u,) of every user."""
        each = [self.users == user for user in range(self.users.max() + 1)]
        return [(self.x[own], self.y[own]) for own in each]

    def without(self, user: int) -> Self:
        """Return the rows of all other users."""
        keep = self.users != user
        users = self.users[keep]
        return self._replace(x=self.x[keep], y=self.y[keep], users=users - (users > user))


class Predictor(Protocol):
    """Protocol of what was learned of one user."""

    def observations(self, x: np.ndarray) -> Mixture:
        """Return the distribution of new observations at inputs (m, D), in scaled units."""


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Selection):
    """What a method without kernels predicts for one user, as a selection.

    Attributes
    ----------
    predictor : Predictor
    elsewhere : Cost
        CPU time of the update, and size of the user's state, in another process.
    """

    predictor: Predictor | None = None
    elsewhere: Cost = NOTHING

    def predict(
        self,
        x: npt.ArrayLike,
        include_noise: bool = False,
        *,
        single: bool = False,
        noise: npt.ArrayLike | None = None,
        sizes: npt.ArrayLike | None = None,
        calibrated: bool = False,
    ) -> Prediction:
        """Predict new observations at inputs (m, D), in the user's units.

        Raises
        ------
        InputError
            If the latent function, known noise, sizes or calibrated intervals are asked for.
        """
        if not include_noise or noise is not None or sizes is not None or calibrated:
            raise InputError(
                "A forecast is of new observations, of which nothing is known. Give "
                "include_noise=True, and leave out the noise, sizes and calibration."
            )
        assert self.predictor is not None
        rows = self.scaling.inputs(input_rows(x, self.pool.dimension))
        found = self.predictor.observations(rows)
        return in_target_unit(
            Prediction(found, np.zeros_like(found.mean), include_noise=True), self.scaling
        )


class ForecastSelector:
    """Base class of selectors of methods without kernels.

    Attributes
    ----------
    scaling : Scaling
        Scaling applied to the user's data.
    """

    scaling: Scaling

    def select(
        self, x: npt.ArrayLike, y: npt.ArrayLike, previous: Previous = None, **given: Any
    ) -> Forecast:
        """Learn from one user's rows up to now.

        Parameters
        ----------
        x, y : array_like, shapes (n, D), or (n,) if D is 1, and (n,)
            The user's rows, in the user's units.
        previous : Forecast, optional
            The result of the time step before, from which an online method goes on.

        Returns
        -------
        Forecast

        Raises
        ------
        InputError
            If there are no rows, shapes don't match, a value isn't a finite number, or something
            is given that the method can't use.
        """
        if given:
            raise InputError(f"A peer can't use {', '.join(given)} of the targets. Leave it out.")
        began = time.perf_counter()
        pool, considered = self._constant
        x, y = check_points(x, y, pool.dimension)
        x, y = self.scaling.inputs(x), self.scaling.targets(y)
        earlier = previous if isinstance(previous, Forecast) else None
        predictor, elsewhere = self._update(x, y, earlier)
        seconds = time.perf_counter() - began
        found = considered, pool, self.scaling, x, y, seconds
        return Forecast(*found, predictor=predictor, elsewhere=elsewhere)

    @cached_property
    def _constant(self) -> tuple[CandidatePool, tuple[ScoredKernel]]:
        """What all forecasts have, which no user's state has to contain."""
        return CandidatePool((Candidate(),), len(self.scaling.feature_low)), (NO_KERNEL,)

    def _update(
        self, x: np.ndarray, y: np.ndarray, previous: Forecast | None
    ) -> tuple[Predictor, Cost]:
        """Return what is known after a user's rows, in scaled units, and what it cost elsewhere."""
        raise NotImplementedError
