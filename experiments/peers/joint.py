"""Methods that know the joint normal distribution of a new user's rows: they condition it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from experiments.peers.forecast import Forecast, ForecastSelector, Predictor
from kem_pymc.comparison.costs import NOTHING, Cost
from kem_pymc.data.scaling import Scaling
from kem_pymc.gp.mixture import Mixture
from kem_pymc.gp.posterior import Conditional

#: Least variance of an observation given others, in squared sds of the target.
LEAST = 1e-8


class Joint(NamedTuple):
    """Mean (m,) and covariance (m, m), noise included, of m observations of a new user."""

    mean: np.ndarray
    covariance: np.ndarray


#: Function from a new user's inputs (m, D), in scaled units, to the distribution of observations.
type Fitted = Callable[[np.ndarray], Joint]


@dataclass(frozen=True, eq=False)
class GivenRows:
    """The distribution of a user's further observations given the first ones.

    Attributes
    ----------
    fitted : callable
        See `Fitted`.
    x, y : ndarray, shapes (n, D) and (n,)
        The first rows.
    """

    fitted: Fitted
    x: np.ndarray
    y: np.ndarray

    @cached_property
    def conditional(self) -> Conditional:
        """What the rows say of others."""
        mean, covariance = self.fitted(self.x)
        return Conditional.of(covariance + LEAST * np.eye(len(mean)), self.y - mean)

    def observations(self, x: np.ndarray) -> Mixture:
        """Return the distribution of new observations; see :class:`Predictor`."""
        n = len(self.y)
        mean, covariance = self.fitted(np.concatenate([self.x, x]))
        added, explained = self.conditional.moments(covariance[:n, n:])
        variance = np.maximum(np.diag(covariance)[n:] - explained, LEAST)
        return Mixture(np.ones(1), (mean[n:] + added)[None], np.sqrt(variance)[None])

    def __getstate__(self) -> dict:
        # The factor is n x n, and quickly computed again.
        return {"fitted": self.fitted, "x": self.x, "y": self.y}


class JointSelector(ForecastSelector):
    """A method that is fitted to pilot users once, and conditioned on a user's rows.

    Parameters
    ----------
    fitted : callable
        See `Fitted`.
    scaling : Scaling
        Scaling of the user's data.
    """

    def __init__(self, fitted: Fitted, scaling: Scaling) -> None:
        self.fitted, self.scaling = fitted, scaling

    def _update(
        self, x: np.ndarray, y: np.ndarray, previous: Forecast | None
    ) -> tuple[Predictor, Cost]:
        rows = GivenRows(self.fitted, x, y)
        _ = rows.conditional  # is the update
        return rows, NOTHING
