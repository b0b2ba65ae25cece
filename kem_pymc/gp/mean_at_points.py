"""A mean function at the points of a data set, and at new points."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kem_pymc.gp.posterior import MeanFunction


@dataclass(frozen=True, eq=False)
class MeanAtPoints:
    """A mean function at the points of one data set.

    Attributes
    ----------
    function : MeanFunction
    x : ndarray, shape (n, D)
        Inputs, in scaled units.
    """

    function: MeanFunction
    x: np.ndarray

    @cached_property
    def mean(self) -> np.ndarray:
        """The mean at the points, (n,)."""
        return self.function.mean(self.x)

    @cached_property
    def covariance(self) -> np.ndarray:
        """The covariance at the points, (n, n)."""
        return np.ascontiguousarray(self.function.covariance(self.x, self.x))

    def to(self, z: np.ndarray) -> "NewPoints":
        """Return the function at new points (m, D).

        The last result is cached for the same array, because all kernels that a prediction averages
        over use the same points.
        """
        last: NewPoints | None = self.__dict__.get("_new")
        if last is None or last.x is not z:
            last = self.__dict__["_new"] = NewPoints(self.function, z, self)
        return last


@dataclass(frozen=True, eq=False)
class NewPoints(MeanAtPoints):
    """A mean function at new points (m, D), beside those of a data set.

    Attributes
    ----------
    before : MeanAtPoints
        The function at the n points of the data set.
    """

    before: MeanAtPoints

    @cached_property
    def cross(self) -> np.ndarray:
        """Covariance (n, m) between the points of the data set and the new ones."""
        return np.ascontiguousarray(self.function.covariance(self.before.x, self.x))
