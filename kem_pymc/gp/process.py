"""Gaussian processes whose kernel is a composition with given hyperparameters."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from kem_pymc._system.options import check_seed, check_whole, checked
from kem_pymc._system.resources import one_blas_thread
from kem_pymc.data.scaling import Scaling
from kem_pymc.data.validation import check_points, filled
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.evidence import draw_values
from kem_pymc.gp.fit import fit
from kem_pymc.gp.kernel import FixedKernel
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.problem import normal_prior
from kem_pymc.kernels.composition import Composition

#: Number of starting points of a fit.
STARTS = 12

#: Number of draws of hyperparameters with equal weights, and the standard deviation of their prior
#: around given ones: a factor of 2.7 of those that are positive.
REDRAWN, SPREAD = 8, 1.0

#: How far below a given one the log of the smallest noise variance is, in such deviations.
FLOOR = 4.0


@checked
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
        check_whole(dimension=dimension)
        scaling = Scaling(np.zeros(dimension), np.ones(dimension), mean, 1.0)
        named = Coordinates.alone(composition, dimension).composition
        return cls(named, hyperparameters, noise, scaling)

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
        check_seed(seed=seed)
        x = np.atleast_1d(filled(x))
        dimension = 1 if x.ndim == 1 else x.shape[-1]
        x, y = check_points(x, y, dimension)
        if len(y) < 3 or np.ptp(y) == 0 or (np.ptp(x, axis=0) == 0).any():
            raise InputError(
                "A process can't be fitted to these points: give three or more, with inputs and "
                "values that vary."
            )
        scaling = Scaling(x.min(axis=0), x.max(axis=0), float(y.mean()), float(y.std()))
        coordinates = Coordinates.alone(composition, dimension)
        objective = Objective(
            coordinates, scaling.inputs(x), scaling.targets(y), noise_floor=noise_floor
        )
        rng = np.random.default_rng(seed)
        starts = rng.normal(0.0, 1.5, (STARTS, len(coordinates)))
        starts[:, -1] -= 2.0
        fitted = fit(objective, [np.zeros(len(coordinates)), *starts])
        hyperparameters, noise = coordinates.named(fitted.values)
        return cls(coordinates.composition, hyperparameters, noise, scaling)

    def redrawn(self, x: np.ndarray, y: np.ndarray) -> list[Self]:
        """Return draws of the process from the posterior of its hyperparameters and noise.

        Logs of positive ones, and values of others, have independent normal priors around those of
        this process, with standard deviations of one. Draws have equal weights: they are those of
        :func:`kem_pymc.gp.evidence.draw_values`, resampled systematically. The scaling is kept.

        Parameters
        ----------
        x : ndarray, shape (n, D)
        y : ndarray, shape (n,)

        Raises
        ------
        InputError
            If the noise variance is zero.
        """
        coordinates = Coordinates.alone(self.composition, self.dimension)
        centre = coordinates.from_named(self.hyperparameters, self.noise)
        prior = normal_prior(centre, np.full(len(centre), SPREAD))
        floor = self.noise * float(np.exp(-FLOOR * SPREAD))
        inputs, targets = self.scaling.inputs(x), self.scaling.targets(y)
        objective = Objective(coordinates, inputs, targets, prior, floor)
        values, weights, _ = draw_values(objective, fit(objective, [centre]))
        count = REDRAWN if len(values) > 1 else 1
        levels = (np.arange(count) + 0.5) / count
        places = np.minimum(np.searchsorted(np.cumsum(weights), levels), len(values) - 1)
        return [
            replace(self, hyperparameters=named, noise=noise)
            for named, noise in coordinates.all_named(values[places])
        ]

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


@checked
@one_blas_thread()
def draw_functions(
    composition: Composition | str,
    x: npt.ArrayLike,
    hyperparameters: Mapping[str, npt.ArrayLike],
    draws: int = 1,
    rng: np.random.Generator | int = 0,
) -> np.ndarray:
    """Draw functions, without noise, from the Gaussian process of a composition.

    Parameters
    ----------
    composition : Composition or str
        The composition, or its printed form such as ``"LIN0 + PER0"``.
    x : array_like, shape (m, D), or (m,) if D is 1
        Inputs at which the functions are drawn, in the units of the hyperparameters.
    hyperparameters : mapping of str to float or array_like, shape (draws,)
        Natural values by name, like ``{"LIN0.amplitude": 1.0, ...}``: one value for all functions,
        or one for each, as from :meth:`kem_pymc.Priors.draw`. Other names are ignored.
    draws : int
        Number of functions.
    rng : Generator or int
        Random number generator, or the seed of one.

    Returns
    -------
    ndarray, shape (draws, m)
        One function per row.

    Raises
    ------
    InputError
        If a hyperparameter is missing or out of range, or has neither one value nor one for each
        draw, or the inputs aren't finite numbers.
    """
    if not isinstance(rng, np.random.Generator):
        check_seed(rng=rng)
    check_whole(draws=draws)
    x = filled(x)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or not np.isfinite(x).all():
        raise InputError(
            f"The inputs of shape {x.shape} aren't finite numbers in rows. "
            "Give one row per point and one column per feature."
        )
    rng, coordinates = np.random.default_rng(rng), Coordinates.alone(composition, x.shape[1])
    values = np.empty((draws, len(coordinates) - 1))
    for column, h in zip(values.T, coordinates.hyperparameters, strict=True):
        column[:] = _each(h.name, hyperparameters, draws)
    functions = np.empty((draws, len(x)))
    for draw, natural in enumerate(values):
        kernel = FixedKernel.of(coordinates, coordinates.from_natural(natural, 1.0))
        functions[draw] = coloured(kernel.cross(x, x), rng.standard_normal((1, len(x))))[0]
    return functions


def _each(name: str, values: Mapping[str, npt.ArrayLike], draws: int) -> np.ndarray:
    """Return one value of a hyperparameter for each draw, NaN if there is no value."""
    given = filled(values.get(name, np.nan))
    if given.shape not in ((), (draws,)):
        raise InputError(
            f"There are values of shape {given.shape} of {name} for {draws} draws. "
            "Give one, or one for each draw."
        )
    return np.broadcast_to(given, draws)


def coloured(covariance: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Return draws (s, m) with a covariance (m, m), made of standard normal ones (s, m).

    The symmetric root exists for singular covariances too, and changes little when the covariance
    changes little, so that draws with the same seed can be compared.
    """
    variances, vectors = np.linalg.eigh(covariance)
    return ((normal @ vectors) * np.sqrt(np.maximum(variances, 0.0))) @ vectors.T
