"""The kernel of a composition with given hyperparameters."""

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np

from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.covariance import (
    covariances_and_variances,
    cross_covariances,
    variances,
)
from kem_pymc.gp.likelihood import as_active
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.library import kernels
from kem_pymc.kernels.pool import CandidatePool, PoolLayout


class FixedKernel(NamedTuple):
    """The kernel of a composition with given hyperparameters.

    Attributes
    ----------
    pool : CandidatePool
    active : ndarray, shape (k,)
        Indices of the composition's candidates in the pool.
    h : ndarray, shape (H,)
        The pool's hyperparameters: logs of positive ones, values of others.
    """

    pool: CandidatePool
    active: np.ndarray
    h: np.ndarray

    @property
    def layout(self) -> PoolLayout:
        """Layout of the pool, which isn't the same in processes that register other kernels."""
        return self.pool.layout

    @classmethod
    def of(cls, coordinates: Coordinates, values: np.ndarray) -> Self:
        """Return the kernel at coordinates (k + 1,), of which that of the noise isn't used."""
        active = as_active(coordinates.inclusion)
        return cls(coordinates.pool, active, coordinates.expand(values)[0])

    @classmethod
    def named(
        cls, composition: Composition, hyperparameters: Mapping[str, float], dimension: int
    ) -> Self:
        """Return the kernel with natural values by name; other names are ignored.

        Raises
        ------
        InputError
            If a hyperparameter is missing or out of range.
        """
        coordinates = Coordinates.alone(composition, dimension)
        return cls.of(coordinates, coordinates.from_named(hyperparameters, 1.0))

    def parts(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the candidates' covariances (k, n, m) of inputs (n, D) and (m, D)."""
        return cross_covariances(
            kernels(), self.layout, self.active, self.h, _columns(x), _columns(z)
        )

    def parts_and_variances(self, x: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return :meth:`parts` of inputs (n, D) and (m, D), and :meth:`variances` of the former."""
        return covariances_and_variances(
            kernels(), self.layout, self.active, self.h, _columns(x), _columns(z)
        )

    def cross(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the covariance (n, m) of inputs (n, D) and (m, D)."""
        return self.parts(x, z).sum(axis=0)

    def variances(self, x: np.ndarray) -> np.ndarray:
        """Return the candidates' variances (k, n) at inputs (n, D)."""
        return variances(kernels(), self.layout, self.active, self.h, _columns(x))


def _columns(points: np.ndarray) -> np.ndarray:
    """Return inputs (D, n): a copy, because compiled code doesn't accept read-only arrays."""
    return np.array(points.T, dtype=np.float64, order="C")
