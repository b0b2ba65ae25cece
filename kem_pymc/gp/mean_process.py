"""The mean process: a function shared by all users, and its posterior given pilot users' data.

A user's data are y_u(x) = m(x) + f_u(x) + noise, with m ~ GP(0, k) the mean process (Leroy et al.
2022) and f_u the user's own function. Let Z be inducing points, k_r the part of k that isn't
linear, and L L' = k_r(Z, Z). Then

    k(x, z) = phi(x) phi(z)' + r(x, z),     phi(x) = [sqrt(a) b(x), k_r(x, Z) L'^-1],

where b(x) are the functions of the linear candidates (1 for CONST, x - shift for LIN), a their
amplitudes, and r the part of k_r that the inducing points leave unexplained. So m(x) is phi(x) w
plus a process with covariance r. The posterior of m is a normal distribution of the weights w,
whose prior is N(0, I). Predictions need no row of any user's data.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.gp.kernel import FixedKernel
from kem_pymc.gp.posterior import MeanFunction
from kem_pymc.kernels.composition import Candidate, Composition

#: Jitter added to the diagonal at the inducing points, as a share of the largest variance.
JITTER = 1e-10


@dataclass(frozen=True, eq=False)
class MeanAtPoints:
    """A mean function at the points of one data set.

    Attributes
    ----------
    function : MeanFunction
    x : ndarray, shape (n, D)
        Inputs, in scaled units.
    """

    function: MeanFunction
    x: np.ndarray

    @cached_property
    def mean(self) -> np.ndarray:
        """The mean at the points, (n,)."""
        return self.function.mean(self.x)

    @cached_property
    def covariance(self) -> np.ndarray:
        """The covariance at the points, (n, n)."""
        return np.ascontiguousarray(self.function.covariance(self.x, self.x))

    def to(self, z: np.ndarray) -> "NewPoints":
        """Return the function at new points (m, D).

        The last result is cached for the same array, because all kernels that a prediction averages
        over use the same points.
        """
        last: NewPoints | None = self.__dict__.get("_new")
        if last is None or last.x is not z:
            last = self.__dict__["_new"] = NewPoints(self.function, z, self)
        return last


@dataclass(frozen=True, eq=False)
class NewPoints(MeanAtPoints):
    """A mean function at new points (m, D), beside those of a data set.

    Attributes
    ----------
    before : MeanAtPoints
        The function at the n points of the data set.
    """

    before: MeanAtPoints

    @cached_property
    def cross(self) -> np.ndarray:
        """Covariance (n, m) between the points of the data set and the new ones."""
        return np.ascontiguousarray(self.function.covariance(self.before.x, self.x))


@dataclass(frozen=True, eq=False)
class SharedKernel:
    """The prior covariance of a mean process, and the features phi of its weights.

    Parameters
    ----------
    composition : Composition
    hyperparameters : mapping of str to float
        Natural values by name, in scaled units.
    dimension : int
        Number of features D.
    inducing : ndarray, shape (M, D)
        Inducing points, in scaled units; shape (0, D) if all candidates are linear.
    """

    composition: Composition
    hyperparameters: Mapping[str, float]
    dimension: int
    inducing: np.ndarray

    @cached_property
    def linear(self) -> tuple[Candidate, ...]:
        """The candidates that have one weight each: CONST and LIN."""
        return tuple(c for c in self.composition if is_linear(c))

    @cached_property
    def rest(self) -> Composition:
        """The candidates that inducing points stand for."""
        return Composition(tuple(c for c in self.composition if not is_linear(c)))

    @cached_property
    def rest_kernel(self) -> FixedKernel:
        """k_r, the kernel of these candidates.

        Raises
        ------
        InputError
            If a hyperparameter is missing or out of range.
        """
        return FixedKernel.named(self.rest, self.hyperparameters, self.dimension)

    @property
    def size(self) -> int:
        """Number of weights r."""
        return len(self.linear) + len(self.inducing)

    @cached_property
    def _inverse(self) -> np.ndarray:
        """L^-1 (M, M). With few points per user, multiplying by it is faster than solving."""
        covariance = self.rest_kernel.cross(self.inducing, self.inducing)
        identity = np.eye(len(covariance))
        covariance += JITTER * np.max(np.diag(covariance), initial=0.0) * identity
        return solve_triangular(np.linalg.cholesky(covariance), identity, lower=True)

    def features(self, x: np.ndarray, candidate: Candidate | None = None) -> np.ndarray:
        """Return the features phi (n, r) at inputs (n, D), or one candidate's part of them.

        The latter are the covariances of the candidate's own function with the weights.
        """
        features = np.zeros((len(x), self.size))
        for i, linear in enumerate(self.linear):
            if candidate in (None, linear):
                features[:, i] = np.sqrt(self.hyperparameters[f"{linear}.amplitude"])
                for d in linear.dimensions:
                    features[:, i] *= x[:, d] - self.hyperparameters[f"{linear}.shift"]
        if len(self.inducing) and candidate not in self.linear:
            parts = self.rest_kernel.parts(self.inducing, x)
            chosen = [i for i, c in enumerate(self.rest) if candidate in (None, c)]
            features[:, len(self.linear) :] = (self._inverse @ parts[chosen].sum(axis=0)).T
        return features

    def left_over(
        self, x: np.ndarray, z: np.ndarray, one: np.ndarray, other: np.ndarray
    ) -> np.ndarray:
        """Return r (n, m) between inputs (n, D) and (m, D): covariance not due to the weights.

        `one` and `other` are the features phi at both, (n, r) and (m, r).
        """
        k = len(self.linear)
        return self.rest_kernel.cross(x, z) - one[:, k:] @ other[:, k:].T

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as plain data that can be written to a file."""
        return {
            "composition": str(self.composition),
            "hyperparameters": dict(self.hyperparameters),
            "inducing": self.inducing.tolist(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], dimension: int) -> Self:
        """Return the kernel from the data of :meth:`to_dict`."""
        inducing = np.array(data["inducing"], dtype=np.float64).reshape(-1, dimension)
        composition = Composition.parse(data["composition"], dimension)
        return cls(composition, dict(data["hyperparameters"]), dimension, inducing)


@dataclass(frozen=True, eq=False)
class MeanProcess:
    """The posterior of a mean process: a normal distribution of its weights.

    Attributes
    ----------
    kernel : SharedKernel
    weights : ndarray, shape (r,)
        Posterior mean of the weights.
    root : ndarray, shape (r, r)
        R, with R'R the posterior covariance of the weights.
    """

    kernel: SharedKernel
    weights: np.ndarray
    root: np.ndarray

    @classmethod
    @one_blas_thread()
    def of_precision(cls, kernel: SharedKernel, precision: np.ndarray, shift: np.ndarray) -> Self:
        """Return the posterior with precision P (r, r) and mean P^-1 times `shift` (r,)."""
        factor = cho_factor(precision, lower=True)
        root = solve_triangular(factor[0], np.eye(len(shift)), lower=True)
        return cls(kernel, cho_solve(factor, shift), root)

    def mean(self, x: np.ndarray, candidate: Candidate | None = None) -> np.ndarray:
        """Return the posterior mean (n,) at inputs (n, D), both in scaled units.

        With a candidate it is that of its own function. These add up to the mean.
        """
        return self.kernel.features(x, candidate) @ self.weights

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the posterior covariance (n, m) between inputs (n, D) and (m, D)."""
        one = self.kernel.features(x)
        other = one if z is x else self.kernel.features(z)
        spread = (one @ self.root.T) @ (other @ self.root.T).T
        return spread + self.kernel.left_over(x, z, one, other)

    def to_dict(self) -> dict[str, Any]:
        """Return the process as plain data that can be written to a file.

        Only the lower triangle of `root` is included.
        """
        rows = [row[: i + 1].tolist() for i, row in enumerate(self.root)]
        return {"kernel": self.kernel.to_dict(), "weights": self.weights.tolist(), "root": rows}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], dimension: int) -> Self:
        """Return the process from the data of :meth:`to_dict`."""
        root = np.zeros((len(data["root"]),) * 2)
        for i, row in enumerate(data["root"]):
            root[i, : i + 1] = row
        kernel = SharedKernel.from_dict(data["kernel"], dimension)
        return cls(kernel, np.array(data["weights"]), root)


def is_linear(candidate: Candidate) -> bool:
    """Return whether all functions of a candidate are multiples of one: CONST, and a single LIN."""
    return not candidate.factors or [f.base for f in candidate.factors] == ["LIN"]
