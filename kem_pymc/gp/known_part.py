"""What is known of a data set's points before any kernel: a mean function, and noise variances."""

from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from kem_pymc.gp.posterior import PopulationFunction


@dataclass(frozen=True, eq=False)
class KnownPart:
    """Mean and covariance that the targets at the points of one data set have, whatever the kernel.

    Attributes
    ----------
    function : PopulationFunction or None
        Mean function, such as the one that users share.
    x : ndarray, shape (n, D)
        Inputs, in scaled units.
    noise : ndarray, shape (n,), or None
        Known variances of the targets' own noise, which add to the noise variance of a fit.
    """

    function: PopulationFunction | None
    x: np.ndarray
    noise: np.ndarray | None = None
    #: The function at the last new points.
    _new: "dict[str, NewPoints]" = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls, function: PopulationFunction | None, x: np.ndarray, noise: np.ndarray | None = None
    ) -> Self | None:
        """Return what is known, or None if there is no mean function and no known noise."""
        noise = None if noise is None or not noise.any() else noise
        return None if function is None and noise is None else cls(function, x, noise)

    @cached_property
    def mean(self) -> np.ndarray:
        """The mean at the points, (n,)."""
        return np.zeros(len(self.x)) if self.function is None else self.function.mean(self.x)

    @cached_property
    def factors(self) -> np.ndarray:
        """Factors of the noise variance at the points, (n,), or (0,) if all are one."""
        factors = None if self.function is None else self.function.noise_factors(self.x)
        return np.empty(0) if factors is None else factors

    @cached_property
    def covariance(self) -> np.ndarray:
        """The covariance at the points, (n, n), with the known noise."""
        return self.of_function if self.noise is None else self.of_function + np.diag(self.noise)

    @cached_property
    def of_function(self) -> np.ndarray:
        """The covariance of the mean function at the points, (n, n)."""
        if self.function is None:
            return np.zeros((len(self.x), len(self.x)))
        return np.ascontiguousarray(self.function.covariance(self.x, self.x))

    def with_noise(self, noise: np.ndarray) -> Self:
        """Return the same function, of which nothing is computed again, with other known noise."""
        other = copy(self)
        kept = {"mean": self.mean, "factors": self.factors, "of_function": self.of_function}
        other.__dict__.update(kept, noise=noise)
        other.__dict__.pop("covariance", None)
        return other

    def at(self, places: np.ndarray) -> Self:
        """Return what is known of the points at some places."""
        noise = None if self.noise is None else self.noise[places]
        return type(self)(self.function, self.x[places], noise)

    def to(self, z: np.ndarray) -> "NewPoints":
        """Return the function at new points (m, D).

        The last result is cached for the same array, because all kernels that a prediction averages
        over use the same points.
        """
        last = self._new.get("last")
        if last is None or last.x is not z:
            last = self._new["last"] = NewPoints(self.function, z, before=self)
        return last


@dataclass(frozen=True, eq=False, kw_only=True)
class NewPoints(KnownPart):
    """A mean function at new points (m, D), beside those of a data set.

    Attributes
    ----------
    before : KnownPart
        What is known of the n points of the data set.
    """

    before: KnownPart

    @cached_property
    def cross(self) -> np.ndarray:
        """Covariance (n, m) between the points of the data set and the new ones."""
        assert self.function is not None
        return np.ascontiguousarray(self.function.covariance(self.before.x, self.x))
