"""Mean and covariance of the shared part at each pilot user's points, fixed in an engine."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.data.cohort import Cohort
from kem_pymc.gp.posterior import MeanFunction
from kem_pymc.population.shared_part import SharedPart

#: Names of the variables of ``constant_data`` that describe the shared part, and their dims.
ARRAYS = {
    "shared_weights": ("weight",),
    "shared_root": ("weight", "other_weight"),
    "shared_weights_without": ("user", "weight"),
    "shared_root_without": ("user", "weight", "other_weight"),
}


def shared_arrays(
    part: SharedPart, users: Sequence[Hashable]
) -> dict[str, tuple[np.ndarray, tuple[str, ...]]]:
    """Return the arrays of a shared part that are stored with a posterior, and their dims, by name.

    They are mean and root of the covariance of the weights of a
    :class:`~kem_pymc.population.mean_process.MeanProcess`, given all users, and given all except
    each of `users`.
    """
    every = [part.function(user) for user in users]
    values = (
        *(part.process.weights, part.process.root),
        np.array([process.weights for process in every]),
        np.array([process.root for process in every]),
    )
    return {name: (value, dims) for (name, dims), value in zip(ARRAYS.items(), values, strict=True)}


@dataclass(frozen=True, eq=False)
class SharedByUser:
    """Mean and covariance of the shared part for each user.

    Attributes
    ----------
    mean : ndarray, shape (U, n)
        Mean at each user's points; zero beyond a user's last point.
    covariance : ndarray, shape (U, n, n)
        Covariance of each user's points; zero beyond a user's last point.
    """

    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    @one_blas_thread()
    def at(cls, functions: Sequence[MeanFunction], cohort: Cohort) -> Self:
        """Evaluate each user's mean function at the user's points, in scaled units."""
        most = max(map(len, cohort.targets))
        mean = np.zeros((cohort.n_users, most))
        covariance = np.zeros((cohort.n_users, most, most))
        for u, (function, x) in enumerate(zip(functions, cohort.inputs, strict=True)):
            mean[u, : len(x)] = function.mean(x)
            covariance[u, : len(x), : len(x)] = function.covariance(x, x)
        return cls(mean, covariance)
