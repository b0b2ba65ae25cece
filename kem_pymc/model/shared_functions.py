"""Mean and covariance of the shared part at each pilot user's points, fixed in an engine."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.data.cohort import Cohort
from kem_pymc.gp.posterior import MeanFunction
from kem_pymc.shared.choice import SharedPart

#: Names of the variables of ``constant_data`` that describe the shared part, and their dims.
ARRAYS = {
    "shared_inducing_points": ("inducing_point", "feature"),
    "shared_precision": ("weight", "other_weight"),
    "shared_shift": ("weight",),
    "shared_features": ("user", "shared_point", "weight"),
    "shared_targets": ("user", "shared_point"),
}


def shared_arrays(
    part: SharedPart, users: Sequence[Hashable]
) -> dict[str, tuple[np.ndarray, tuple[str, ...]]]:
    """Return the arrays of a shared part that are stored with a posterior, and their dims, by name.

    They are those of a :class:`~kem_pymc.shared.two_level.SharedPosterior`, with the contributions
    of `users`. Entries beyond a user's last point are zero, and contribute nothing.
    """
    posterior = part.posterior
    points = [posterior.contributions[part.users.index(user)] for user in users]
    most = max(len(y) for _, y in part.posterior.contributions)
    features = np.zeros((len(points), most, part.model.kernel.size))
    targets = np.zeros((len(points), most))
    for u, (x, y) in enumerate(points):
        features[u, : len(y)] = x
        targets[u, : len(y)] = y
    inducing = part.model.kernel.inducing
    values = inducing, posterior.precision, posterior.shift, features, targets
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
