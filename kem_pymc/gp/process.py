"""Gaussian processes with given hyperparameters, and their posteriors as observations arrive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dtrtrs

from kem_pymc.data.scaling import Scaling
from kem_pymc.data.validation import check_points
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.covariance import cross_covariance
from kem_pymc.gp.fit import fit
from kem_pymc.gp.likelihood import as_active
from kem_pymc.gp.objective import Objective
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.library import kernels
from kem_pymc.kernels.pool import CandidatePool

#: Share of a point's prior variance, noise included, below which nothing is left to be learned.
KNOWN = 1e-10

#: How far an observation without noise may be from what is known, in prior standard deviations.
CLOSE = 1e-4

#: Number of observations for which there is room at first.
ROOM = 16

#: Number of starting points of a fit.
STARTS = 12


class GaussianProcess(Protocol):
    """Protocol of Gaussian processes with noisy observations."""

    @property
    def dimension(self) -> int:
        """Number of inputs D."""

    def mean(self, x: np.ndarray) -> np.ndarray:
        """Return prior means (n,) at inputs (n, D)."""

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return prior covariances (n, m) of inputs (n, D) and (m, D), without noise."""

    def variance(self, x: np.ndarray) -> np.ndarray:
        """Return prior variances (n,) at inputs (n, D), without noise."""

    def noise_at(self, x: np.ndarray) -> np.ndarray:
        """Return noise variances (n,) of observations at inputs (n, D)."""


@dataclass(frozen=True, eq=False)
class Process:
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
        self._vector  # noqa: B018  refuses hyperparameters at once

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
        found = fit(objective, [np.zeros(len(coordinates)), *starts])
        hyperparameters, noise = coordinates.named(found.values)
        return cls(composition, hyperparameters, noise, scaling)

    def __getstate__(self) -> dict[str, Any]:
        # Pointers to compiled code are invalid in another process.
        return {name: value for name, value in self.__dict__.items() if name != "_vector"}

    @property
    def dimension(self) -> int:
        """Number of inputs D."""
        return len(self.scaling.feature_low)

    @cached_property
    def _pool(self) -> CandidatePool:
        return CandidatePool(self.composition.candidates, self.dimension)

    @cached_property
    def _vector(self) -> tuple[np.ndarray, np.ndarray, Any, Any]:
        """Active candidates (k,), the pool's hyperparameters (H,), its layout, and kernels."""
        coordinates = Coordinates(self._pool, self.composition)
        names = [own.name for own in coordinates.hyperparameters]
        missing = [name for name in names if name not in self.hyperparameters]
        if missing:
            raise InputError(
                f"There is no value of {', '.join(missing)}. Give one of each of "
                f"{', '.join(names)}."
            )
        values = coordinates.from_named(self.hyperparameters, 1.0)
        active, h = as_active(coordinates.inclusion), coordinates.expand(values)[0]
        return active, h, self._pool.layout, kernels()

    def mean(self, x: np.ndarray) -> np.ndarray:
        """Return prior means; see :class:`GaussianProcess`."""
        return np.full(len(x), self.scaling.target_mean)

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return prior covariances; see :class:`GaussianProcess`."""
        if len(z) > len(x):  # variances are computed at the second points, too
            return self._both(z, x)[0].T
        return self._both(x, z)[0]

    def variance(self, x: np.ndarray) -> np.ndarray:
        """Return prior variances; see :class:`GaussianProcess`."""
        return self._both(x[:1], x)[1]

    def noise_at(self, x: np.ndarray) -> np.ndarray:
        """Return noise variances; see :class:`GaussianProcess`."""
        return np.full(len(x), self.noise * self.scaling.target_sd**2)

    def _both(self, x: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        active, h, layout, known = self._vector
        own, other = (
            np.array(self.scaling.inputs(points).T, dtype=np.float64, order="C")
            for points in (x, z)
        )
        cross, prior = np.zeros((len(x), len(z))), np.zeros(len(z))
        for c in active:
            part, variance = cross_covariance(known, layout, c, h, own, other)
            cross += part
            prior += variance
        return cross * self.scaling.target_sd**2, prior * self.scaling.target_sd**2


class Row(NamedTuple):
    """What an observation adds to a posterior.

    Attributes
    ----------
    x : ndarray, shape (D,)
    factor : ndarray, shape (t,)
        The row of the Cholesky factor, up to its diagonal.
    pivot : float
        The diagonal.
    white : float
        The observation, whitened.
    """

    x: np.ndarray
    factor: np.ndarray
    pivot: float
    white: float


class Posterior:
    """The posterior of a Gaussian process, to which observations are added one at a time.

    An observation adds a row to the Cholesky factor: O(t^2) operations after t observations, and
    O(t m) for the moments at m fixed points.

    Parameters
    ----------
    process : GaussianProcess
    points : ndarray, shape (m, D), optional
        Points at which moments are kept up to date.

    Attributes
    ----------
    mean, variance : ndarray, shape (m,)
        Posterior moments of the process, without noise, at these points.
    """

    def __init__(self, process: GaussianProcess, points: np.ndarray | None = None) -> None:
        self.process = process
        self.points = np.empty((0, process.dimension)) if points is None else points
        m = len(self.points)
        self.mean = process.mean(self.points)
        self.variance = process.variance(self.points) if m else np.empty(0)
        self.n = 0
        self._x = np.empty((ROOM, process.dimension))
        self._white = np.empty(ROOM)
        self._factor = np.zeros((ROOM, ROOM))
        self._cross = np.empty((ROOM, m))

    def observe(self, x: np.ndarray, y: float) -> None:
        """Add an observation.

        Without noise, an observation at a point that is known already changes nothing.

        Parameters
        ----------
        x : ndarray, shape (D,)
        y : float

        Raises
        ------
        InputError
            If there is no noise, and another value was observed at the point.
        """
        row = self.row_of(x, y)
        if row is not None:
            self.add(row)

    def row_of(self, x: np.ndarray, y: float) -> "Row | None":
        """Return what an observation would add; None if it would change nothing.

        Raises
        ------
        InputError
            As :meth:`observe`.
        """
        own = x[None]
        total = float(self.process.variance(own)[0] + self.process.noise_at(own)[0])
        row = self._solved(self.process.covariance(self._x[: self.n], own))[:, 0]
        left = total - float(row @ row)
        error = y - float(self.process.mean(own)[0]) - float(row @ self._white[: self.n])
        if left > KNOWN * total:
            return Row(x, row, np.sqrt(left), error / np.sqrt(left))
        if abs(error) > CLOSE * np.sqrt(total):
            raise InputError(
                f"The value {y} at {x.tolist()} contradicts earlier ones, and there is no noise. "
                "Give a positive noise variance."
            )
        return None

    def add(self, row: "Row") -> None:
        """Add an observation of which :meth:`row_of` returned the row."""
        self._grow()
        n = self.n
        self._x[n], self._white[n] = row.x, row.white
        self._factor[n, :n], self._factor[n, n] = row.factor, row.pivot
        if len(self.points):
            new = self.process.covariance(row.x[None], self.points)[0]
            self._cross[n] = (new - row.factor @ self._cross[:n]) / row.pivot
            self.mean = self.mean + self._cross[n] * row.white
            self.variance = np.maximum(self.variance - self._cross[n] ** 2, 0.0)
        self.n += 1

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return posterior means and variances (m,) at inputs (m, D), without noise (eqs. 3-5)."""
        white = self._solved(self.process.covariance(self._x[: self.n], x))
        mean = self.process.mean(x) + self._white[: self.n] @ white
        variance = self.process.variance(x) - (white**2).sum(axis=0)
        return mean, np.maximum(variance, 0.0)

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return posterior covariances (n, m) of inputs (n, D) and (m, D), without noise."""
        before = self._x[: self.n]
        left, right = (self._solved(self.process.covariance(before, own)) for own in (x, z))
        return self.process.covariance(x, z) - left.T @ right

    def _solved(self, cross: np.ndarray) -> np.ndarray:
        """Return the solution (n, m) of L w = cross (n, m)."""
        if not self.n:
            return cross
        # LAPACK directly: for few observations SciPy's checks would take most of the time.
        return dtrtrs(self._factor[: self.n, : self.n], cross, lower=1)[0]

    def _grow(self) -> None:
        """Double the room, if there is none left."""
        if self.n < len(self._white):
            return
        more = len(self._white)
        self._x = np.vstack([self._x, np.empty_like(self._x)])
        self._white = np.append(self._white, np.empty(more))
        self._factor = np.pad(self._factor, ((0, more), (0, more)))
        self._cross = np.vstack([self._cross, np.empty_like(self._cross)])


class AveragedPosterior:
    """The posterior under several draws of the hyperparameters, which have the same weight.

    Parameters
    ----------
    processes : sequence of GaussianProcess
    points : ndarray, shape (m, D), optional
        See :class:`Posterior`.
    """

    def __init__(
        self, processes: Sequence[GaussianProcess], points: np.ndarray | None = None
    ) -> None:
        self.draws = [Posterior(process, points) for process in processes]

    @property
    def mean(self) -> np.ndarray:
        """Posterior means (m,) at the points."""
        return np.mean([draw.mean for draw in self.draws], axis=0)

    @property
    def variance(self) -> np.ndarray:
        """Posterior variances (m,) at the points, those of the means included."""
        return _total([draw.mean for draw in self.draws], [draw.variance for draw in self.draws])

    def row_of(self, x: np.ndarray, y: float) -> "list[Row | None]":
        """Return what an observation would add to each draw; see :meth:`Posterior.row_of`."""
        return [draw.row_of(x, y) for draw in self.draws]

    def add(self, rows: "list[Row | None]") -> None:
        """Add an observation of which :meth:`row_of` returned the rows."""
        for draw, row in zip(self.draws, rows, strict=True):
            if row is not None:
                draw.add(row)

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (m,) at inputs (m, D)."""
        means, variances = zip(*(draw.predict(x) for draw in self.draws), strict=True)
        return np.mean(means, axis=0), _total(means, variances)


def _total(means: Any, variances: Any) -> np.ndarray:
    """Return variances (m,) of mixtures with equal weights, by the law of total variance."""
    return np.mean(variances, axis=0) + np.var(means, axis=0)
