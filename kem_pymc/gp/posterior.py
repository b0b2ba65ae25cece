"""The exact posterior of a Gaussian process, on which everything stands that conditions on data.

Observations y have the mean m and the covariance C, noise included. With C = L L' (L lower
triangular) and v = L^-1 (y - m), a value f whose covariances with the observations are k has, given
them, mean and variance (Rasmussen and Williams 2006, eqs. 2.25 and 2.26)

    E f + w'v    and    Var f - w'w,    with w = L^-1 k.

:class:`Conditional` contains this algebra, for any jointly normal variables. :class:`Posterior` is
a process given observations, and is itself a process.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from scipy.linalg.lapack import dtrtrs

from kem_pymc.errors import InputError
from kem_pymc.gp.likelihood import HALF_LOG_2PI

#: Share of a point's prior variance, noise included, below which nothing is left to be learned.
RESOLUTION = 1e-10

#: How far an observation without noise may be from what is known, in prior standard deviations.
TOLERANCE = 1e-4


class MeanFunction(Protocol):
    """Protocol of a normally distributed function: a mean and its covariance."""

    def mean(self, x: np.ndarray) -> np.ndarray:
        """Return means (n,) at inputs (n, D)."""

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return covariances (n, m) of inputs (n, D) and (m, D), without noise."""


class PopulationFunction(MeanFunction, Protocol):
    """Protocol of what others say of a user: a function, and where there is more noise."""

    def noise_factors(self, x: np.ndarray) -> np.ndarray | None:
        """Return factors (n,) of the noise variance at inputs (n, D); None if all are one."""


@runtime_checkable
class Process(MeanFunction, Protocol):
    """Protocol of Gaussian processes with noisy observations."""

    @property
    def dimension(self) -> int:
        """Number of inputs D."""

    def variance(self, x: np.ndarray) -> np.ndarray:
        """Return variances (n,) at inputs (n, D), without noise."""

    def noise_at(self, x: np.ndarray) -> np.ndarray:
        """Return noise variances (n,) of observations at inputs (n, D)."""


@dataclass(frozen=True, eq=False)
class Conditional:
    """What n observations say of variables that are jointly normal with them.

    Attributes
    ----------
    root : ndarray, shape (n, n)
        L, lower triangular, with L L' the covariance of the observations. What is above the
        diagonal isn't read. Column by column, so that LAPACK doesn't copy it.
    white : ndarray, shape (n,)
        L^-1 times the observations less their means.
    """

    root: np.ndarray
    white: np.ndarray

    @classmethod
    def of(cls, covariance: np.ndarray, error: np.ndarray) -> Self:
        """Return the conditional of a covariance (n, n) and observations less their means (n,).

        Raises
        ------
        LinAlgError
            If the covariance isn't positive definite.
        """
        return cls.of_root(np.asfortranarray(np.linalg.cholesky(covariance)), error)

    @classmethod
    def of_root(cls, root: np.ndarray, error: np.ndarray) -> Self:
        """Return the conditional of a Cholesky factor (n, n); see :meth:`of`."""
        return cls(root, _solved(root, error))

    def whiten(self, cross: np.ndarray) -> np.ndarray:
        """Return L^-1 times covariances (n, m) with the observations, or means (n,) of these."""
        return _solved(self.root, cross)

    def moments(self, cross: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what is added to means (m,), and what is taken from variances (m,).

        Parameters
        ----------
        cross : ndarray, shape (n, m)
            Covariances of the observations with other variables.
        """
        white = self.whiten(cross)
        return self.white @ white, (white**2).sum(axis=0)

    def extended(self, cross: np.ndarray, covariance: np.ndarray, error: np.ndarray) -> Self:
        """Return the conditional with m further observations, in O(n^2 m) operations.

        Parameters
        ----------
        cross : ndarray, shape (n, m)
            Covariances of the observations with the further ones.
        covariance : ndarray, shape (m, m)
            Covariance of the further ones, noise included.
        error : ndarray, shape (m,)
            The further ones less their means.

        Raises
        ------
        LinAlgError
            If the conditional covariance of the further ones isn't positive definite.
        """
        n, m = cross.shape
        white = self.whiten(cross)
        corner = np.linalg.cholesky(covariance - white.T @ white)
        root = np.zeros((n + m, n + m), order="F")
        root[:n, :n], root[n:, :n], root[n:, n:] = self.root, white.T, corner
        further = _solved(corner, error - self.white @ white)
        return replace(self, root=root, white=np.append(self.white, further))

    @property
    def log_density(self) -> float:
        """The log density of the observations."""
        terms = -0.5 * self.white**2 - np.log(np.diag(self.root)) - HALF_LOG_2PI
        return float(terms.sum())

    def left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return errors (n,) and variances (n,) of predictions of each observation from all others.

        With a = C^-1 (y - m) they are a_i / (C^-1)_ii and 1 / (C^-1)_ii (Rasmussen and Williams
        2006, eqs. 5.10 to 5.12).
        """
        inverse = self.whiten(np.eye(len(self.white)))
        variance = 1 / (inverse**2).sum(axis=0)
        return (self.white @ inverse) * variance, variance


def _solved(root: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return L^-1 b for a lower triangular L (n, n), and b (n,) or (n, m)."""
    # LAPACK directly: for few observations SciPy's checks would take most of the time.
    return dtrtrs(root, b, lower=1)[0] if b.size else b


class Watched(NamedTuple):
    """Moments at fixed points, which are kept up to date in O(n m) per observation.

    Attributes
    ----------
    points : ndarray, shape (m, D)
    mean, variance : ndarray, shape (m,)
        Posterior moments of the process, without noise.
    white : ndarray, shape (n, m)
        Covariances of the observations with the process at the points, whitened.
    """

    points: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    white: np.ndarray


@dataclass(frozen=True, eq=False)
class Posterior:
    """A Gaussian process given observations, which is a process again.

    Attributes
    ----------
    process : Process
        The process before the observations.
    x : ndarray, shape (n, D)
        Inputs of the observations.
    conditional : Conditional
    watched : Watched, optional
    """

    process: Process
    x: np.ndarray
    conditional: Conditional
    watched: Watched | None = None

    @classmethod
    def of(cls, process: Process, x: np.ndarray, y: np.ndarray) -> Self:
        """Condition a process on observations y (n,) at inputs x (n, D).

        Raises
        ------
        InputError
            If their covariance isn't positive definite.
        """
        covariance = process.covariance(x, x) + np.diag(process.noise_at(x))
        try:
            return cls(process, x, Conditional.of(covariance, y - process.mean(x)))
        except np.linalg.LinAlgError as error:
            raise InputError(
                f"The covariance of the {len(y)} observations isn't positive definite. Use a "
                "larger noise variance."
            ) from error

    @classmethod
    def unobserved(cls, process: Process, points: np.ndarray | None = None) -> Self:
        """Return the posterior before any observation.

        Parameters
        ----------
        process : Process
        points : ndarray, shape (m, D), optional
            Points at which moments are kept up to date.
        """
        watched = None
        if points is not None:
            moments = process.mean(points), process.variance(points)
            watched = Watched(points, *moments, np.empty((0, len(points))))
        nothing = Conditional(np.empty((0, 0)), np.empty(0))
        return cls(process, np.empty((0, process.dimension)), nothing, watched)

    @property
    def n(self) -> int:
        """Number of observations."""
        return len(self.x)

    @property
    def dimension(self) -> int:
        """Number of inputs D."""
        return self.process.dimension

    def mean(self, x: np.ndarray) -> np.ndarray:
        """Return posterior means; see :class:`Process`."""
        return self.predict(x)[0]

    def variance(self, x: np.ndarray) -> np.ndarray:
        """Return posterior variances; see :class:`Process`."""
        return self.predict(x)[1]

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return posterior means and variances (m,) at inputs (m, D), without noise."""
        added, explained = self.conditional.moments(self.process.covariance(self.x, x))
        variance = np.maximum(self.process.variance(x) - explained, 0.0)
        return self.process.mean(x) + added, variance

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return posterior covariances; see :class:`Process`."""
        left, right = (
            self.conditional.whiten(self.process.covariance(self.x, points)) for points in (x, z)
        )
        return self.process.covariance(x, z) - left.T @ right

    def noise_at(self, x: np.ndarray) -> np.ndarray:
        """Return noise variances; see :class:`Process`."""
        return self.process.noise_at(x)

    @property
    def at_points(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances (m,) at the points that are watched, without noise.

        Raises
        ------
        InputError
            If there are no such points.
        """
        if self.watched is None:
            raise InputError("The posterior has no fixed points. Use predict.")
        return self.watched.mean, self.watched.variance

    def observe(self, x: np.ndarray, y: float) -> Self:
        """Return the posterior with one more observation, in O(n^2) operations.

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
        process, at = self.process, x[None]
        total = float(process.variance(at)[0] + process.noise_at(at)[0])
        cross = process.covariance(self.x, at)
        added, explained = self.conditional.moments(cross)
        error = y - process.mean(at)
        if not total - explained[0] > RESOLUTION * total:
            if abs(error[0] - added[0]) > TOLERANCE * np.sqrt(total):
                raise InputError(
                    f"The value {y} at {x.tolist()} contradicts earlier ones, and there is no "
                    "noise. Give a positive noise variance."
                )
            return self
        conditional = self.conditional.extended(cross, np.array([[total]]), error)
        longer = np.concatenate([self.x, at])
        watched = None if self.watched is None else self._watched(at, conditional)
        return replace(self, x=longer, conditional=conditional, watched=watched)

    def _watched(self, at: np.ndarray, conditional: Conditional) -> Watched:
        """Return the moments at fixed points, given a conditional with one more observation."""
        points, mean, variance, before = self.watched  # type: ignore[misc]  # there are points
        row, new = conditional.root[-1], self.process.covariance(at, points)[0]
        white = (new - row[:-1] @ before) / row[-1]
        return Watched(
            points,
            mean + white * conditional.white[-1],
            np.maximum(variance - white**2, 0.0),
            np.vstack([before, white]),
        )
