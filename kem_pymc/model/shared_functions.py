"""Mean and covariance at each pilot user's points that are known in an engine."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.data.cohort import Cohort
from kem_pymc.gp.known_part import KnownPart
from kem_pymc.gp.posterior import PopulationFunction
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
class KnownByUser:
    """Mean and covariance that each user's targets have, whatever their kernels.

    Attributes
    ----------
    mean : ndarray, shape (U, n)
        Mean of what users share at each user's points; zero beyond a user's last point.
    covariance : ndarray, shape (U, n, n)
        Covariance of what users share at each user's points, with the variances of known noise;
        zero beyond a user's last point.
    factors : ndarray, shape (U, n)
        Factors of the noise variance at each user's points; shape (0, 0) if all are one.
    """

    mean: np.ndarray
    covariance: np.ndarray
    factors: np.ndarray

    @classmethod
    @one_blas_thread()
    def at(cls, functions: Sequence[PopulationFunction] | None, cohort: Cohort) -> Self | None:
        """Return what is known of each user's targets, in scaled units; None if there is nothing.

        Parameters
        ----------
        functions : sequence of PopulationFunction, length U, or None
            Each user's mean function.
        cohort : Cohort
        """
        every = [
            KnownPart.of(None if functions is None else functions[u], x, cohort.noise_of(u))
            for u, x in enumerate(cohort.inputs)
        ]
        if not any(every):
            return None
        most = max(map(len, cohort.targets))
        mean = np.zeros((cohort.n_users, most))
        covariance = np.zeros((cohort.n_users, most, most))
        factors = np.ones((cohort.n_users, most))
        for u, known in enumerate(every):
            if known is not None:
                n = len(known.x)
                mean[u, :n], covariance[u, :n, :n] = known.mean, known.covariance
                factors[u, : len(known.factors)] = known.factors
        return cls(mean, covariance, np.empty((0, 0)) if (factors == 1).all() else factors)
