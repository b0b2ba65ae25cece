"""What users share, at the points of each pilot user: fixed means and covariances of an engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kem_pymc.cohort import Cohort
from kem_pymc.gp.mean_process import MeanFunction


@dataclass(frozen=True, eq=False)
class SharedByUser:
    """A mean and a covariance for each user.

    Attributes
    ----------
    mean : ndarray, shape (U, n)
    covariance : ndarray, shape (U, n, n)
        Both zero behind a user's last point.
    """

    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def at(cls, functions: Sequence[MeanFunction], cohort: Cohort) -> Self:
        """Return each user's own mean function at the user's points, in scaled units."""
        most = max(map(len, cohort.targets))
        mean = np.zeros((cohort.n_users, most))
        covariance = np.zeros((cohort.n_users, most, most))
        for u, (function, x) in enumerate(zip(functions, cohort.inputs, strict=True)):
            mean[u, : len(x)] = function.mean(x)
            covariance[u, : len(x), : len(x)] = function.covariance(x, x)
        return cls(mean, covariance)

    def of(self, user: int, points: int) -> "SharedByUser":
        """Return those of one user alone, by number, who has so many points."""
        mean = self.mean[user : user + 1, :points]
        covariance = self.covariance[user : user + 1, :points, :points]
        return SharedByUser(mean, np.ascontiguousarray(covariance))
