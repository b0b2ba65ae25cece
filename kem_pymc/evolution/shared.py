"""What users share, at the points of each pilot user: fixed means and covariances of an engine."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kem_pymc.cohort import Cohort
from kem_pymc.gp.mean_process import MeanFunction
from kem_pymc.shared.choice import SharedPart

#: Names of variables of a posterior's ``constant_data``, and their dims.
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
    """Return what a posterior keeps of a shared part: arrays with their dims, by name.

    They are those of a :class:`~kem_pymc.shared.two_level.SharedPosterior`, with the contributions
    of the users who are given; zero behind a user's last point, which contributes nothing.
    """
    posterior = part.posterior
    own = [posterior.contributions[part.users.index(user)] for user in users]
    most = _most_points(part)
    features = np.zeros((len(own), most, part.model.kernel.size))
    targets = np.zeros((len(own), most))
    for u, (x, y) in enumerate(own):
        features[u, : len(y)] = x
        targets[u, : len(y)] = y
    inducing = part.model.kernel.inducing
    values = inducing, posterior.precision, posterior.shift, features, targets
    return {name: (value, dims) for (name, dims), value in zip(ARRAYS.items(), values, strict=True)}


def shared_coords(part: SharedPart) -> dict[str, list[int]]:
    """Return the coordinates of these arrays that a model has for nothing else."""
    sizes = {
        "inducing_point": len(part.model.kernel.inducing),
        "weight": part.model.kernel.size,
        "other_weight": part.model.kernel.size,
        "shared_point": _most_points(part),
    }
    return {name: list(range(size)) for name, size in sizes.items()}


def _most_points(part: SharedPart) -> int:
    return max(len(y) for _, y in part.posterior.contributions)


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
