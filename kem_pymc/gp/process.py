"""Gaussian processes whose kernel is a composition with given hyperparameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kem_pymc.data.scaling import Scaling
from kem_pymc.data.validation import check_points
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.fit import fit
from kem_pymc.gp.kernel import FixedKernel
from kem_pymc.gp.objective import Objective
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool

#: Number of starting points of a fit.
STARTS = 12


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A Gaussian process whose kernel is a composition with given hyperparameters.

    Attributes
    ----------
    composition : Composition
    hyperparameters : mapping of str to float
        Natural values by name, in scaled units.
    noise : float
        Noise variance of observations, in scaled units; zero if they are exact.
    scaling : Scaling
        Scaling of inputs and values; the mean of the process is its mean of the target.

    Raises
    ------
    InputError
        If a hyperparameter is missing or out of range, the noise variance is negative or infinite,
        or the scaling has a transform of the target.
    """

    composition: Composition
    hyperparameters: Mapping[str, float]
    noise: float
    scaling: Scaling

    def __post_init__(self) -> None:
        if not (np.isfinite(self.noise) and self.noise >= 0):
            raise InputError(f"The noise variance is {self.noise}. Give zero or more.")
        if self.scaling.transform is not None:
            raise InputError(
                "The target is transformed, so that its components don't add up. Learn a scaling "
                "without a transform."
            )
        self._kernel  # noqa: B018  refuses hyperparameters at once

    @classmethod
    def of(
        cls,
        composition: Composition | str,
        hyperparameters: Mapping[str, float],
        noise: float,
        *,
        mean: float = 0.0,
        dimension: int = 1,
    ) -> Self:
        """Return a process in the units of the inputs and values.

        Parameters
        ----------
        composition : Composition or str
        hyperparameters : mapping of str to float
        noise, mean : float
            Noise variance of observations, and mean of the process.
        dimension : int
            Number of inputs D.
        """
        if isinstance(composition, str):
            composition = Composition.parse(composition, dimension)
        scaling = Scaling(np.zeros(dimension), np.ones(dimension), mean, 1.0)
        return cls(composition, hyperparameters, noise, scaling)

    @classmethod
    def fit(
        cls,
        composition: Composition | str,
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        *,
        noise_floor: float = 1e-4,
        seed: int = 0,
    ) -> Self:
        """Return the process with the largest marginal likelihood of pilot observations.

        Inputs are scaled to [0, 1], and values to mean 0 and standard deviation 1.

        Parameters
        ----------
        composition : Composition or str
        x : array_like, shape (n, D), or (n,)
        y : array_like, shape (n,)
        noise_floor : float
            Smallest noise variance, relative to the variance of the values.
        seed : int
            Seed of the starting points.

        Raises
        ------
        InputError
            If there are fewer than three points, an input or all values are constant, a value isn't
            finite, or the composition has inputs that the points lack.
        """
        x = np.asarray(x, dtype=float)
        dimension = 1 if x.ndim == 1 else x.shape[-1]
        x, y = check_points(x, y, dimension)
        if len(y) < 3 or np.ptp(y) == 0 or (np.ptp(x, axis=0) == 0).any():
            raise InputError(
                f"A process can't be fitted to these {len(y)} points: give three or more, with "
                "inputs and values that vary."
            )
        if isinstance(composition, str):
            composition = Composition.parse(composition, dimension)
        scaling = Scaling(x.min(axis=0), x.max(axis=0), float(y.mean()), float(y.std()))
        pool = CandidatePool(composition.candidates, dimension)
        coordinates = Coordinates(pool, composition)
        objective = Objective(
            coordinates, scaling.inputs(x), scaling.targets(y), noise_floor=noise_floor
        )
        rng = np.random.default_rng(seed)
        starts = rng.normal(0.0, 1.5, (STARTS, len(coordinates)))
        starts[:, -1] -= 2.0
        fitted = fit(objective, [np.zeros(len(coordinates)), *starts])
        hyperparameters, noise = coordinates.named(fitted.values)
        return cls(composition, hyperparameters, noise, scaling)

    def __getstate__(self) -> dict[str, Any]:
        # Pointers to compiled code are invalid in another process.
        return {name: value for name, value in self.__dict__.items() if name != "_kernel"}

    @property
    def dimension(self) -> int:
        """Number of inputs D."""
        return len(self.scaling.feature_low)

    @cached_property
    def _kernel(self) -> FixedKernel:
        return FixedKernel.named(self.composition, self.hyperparameters, self.dimension)

    def mean(self, x: np.ndarray) -> np.ndarray:
        """Return prior means; see :class:`~kem_pymc.gp.posterior.Process`."""
        return np.full(len(x), self.scaling.target_mean)

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return prior covariances; see :class:`~kem_pymc.gp.posterior.Process`."""
        cross = self._kernel.cross(self.scaling.inputs(x), self.scaling.inputs(z))
        return cross * self.scaling.target_sd**2

    def variance(self, x: np.ndarray) -> np.ndarray:
        """Return prior variances; see :class:`~kem_pymc.gp.posterior.Process`."""
        variances = self._kernel.variances(self.scaling.inputs(x))
        return variances.sum(axis=0) * self.scaling.target_sd**2

    def noise_at(self, x: np.ndarray) -> np.ndarray:
        """Return noise variances; see :class:`~kem_pymc.gp.posterior.Process`."""
        return np.full(len(x), self.noise * self.scaling.target_sd**2)
