"""Predict from a fitted composition: mean, sd, and the contribution of each additive component."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.kernel import FixedKernel
from kem_pymc.gp.likelihood import add_upper, factorise
from kem_pymc.gp.mean_process import MeanAtPoints
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.posterior import Conditional
from kem_pymc.gp.prediction import Component, Prediction

#: Name of the component that all users share.
SHARED = "shared"


@dataclass(frozen=True, eq=False)
class Conditioned:
    """A composition with given values, conditioned on the data of an objective.

    It is created by :meth:`of`; :meth:`extended` adds points at the cost of the new ones.

    Attributes
    ----------
    coordinates : Coordinates
    values : ndarray, shape (k + 1,)
        Values of the coordinates.
    x : ndarray, shape (n, D)
        Inputs of the data.
    errors : ndarray, shape (n,)
        Targets less the mean that users share.
    shared : MeanAtPoints or None
        Mean function that users share, at these inputs.
    conditional : Conditional
    jittered : bool
        Whether the factorisation needed the jitter of the likelihood.
    """

    coordinates: Coordinates
    values: np.ndarray
    x: np.ndarray
    errors: np.ndarray
    shared: MeanAtPoints | None
    conditional: Conditional
    jittered: bool

    @classmethod
    def of(cls, objective: Objective, values: np.ndarray) -> Self:
        """Condition on the data of an objective, at given coordinates. Its prior isn't used.

        Raises
        ------
        InputError
            If the covariance isn't positive definite, even with jitter.
        """
        x, errors = objective.problem.x.T, objective.problem.y
        return cls._of(objective.coordinates, values, x, errors, objective.shared)

    @classmethod
    def _of(
        cls,
        coordinates: Coordinates,
        values: np.ndarray,
        x: np.ndarray,
        errors: np.ndarray,
        shared: MeanAtPoints | None,
    ) -> Self:
        upper, n = FixedKernel.of(coordinates, values).upper(x), len(errors)
        if shared is not None:
            add_upper(upper, shared.covariance)
        counts = np.zeros(2, dtype=np.int64)
        if factorise(upper, float(values[-1]), counts) < n:
            raise InputError(
                f"The covariance of {coordinates.composition} isn't positive definite. "
                "Use a larger noise variance."
            )
        root = np.ascontiguousarray(upper[:, :n]).T
        conditional = Conditional.of_root(root, errors)
        return cls(coordinates, values, x, errors, shared, conditional, bool(counts[0] > 1))

    def extended(self, x: np.ndarray, y: np.ndarray) -> Self:
        """Condition on further points as well, at the same values.

        No kernel is evaluated between old points (:meth:`Conditional.extended`). Where jitter was
        needed, or is needed now, everything is computed again.

        Parameters
        ----------
        x : ndarray, shape (m, D)
            Inputs of the new points.
        y : ndarray, shape (m,)
            Targets of the new points.

        Raises
        ------
        InputError
            If the covariance isn't positive definite, even with jitter.
        """
        n, points, shared = len(self.x), np.concatenate([self.x, x]), None
        new = None if self.shared is None else self.shared.to(x)
        if new is not None:
            y, shared = y - new.mean, new.extended
        data = points, np.concatenate([self.errors, y]), shared
        if not self.jittered:
            covariance = self._kernel.cross(points, x)
            if new is not None:
                covariance += np.concatenate([new.cross, new.covariance])
            corner = covariance[n:]
            corner[np.diag_indices(len(x))] += self.noise
            try:
                conditional = self.conditional.extended(covariance[:n], corner, y)
                return type(self)(self.coordinates, self.values, *data, conditional, jittered=False)
            except np.linalg.LinAlgError:
                pass
        return self._of(self.coordinates, self.values, *data)

    @cached_property
    def _kernel(self) -> FixedKernel:
        return FixedKernel.of(self.coordinates, self.values)

    @property
    def noise(self) -> float:
        """The noise variance."""
        return float(np.exp(self.values[-1]))

    @property
    def log_likelihood(self) -> float:
        """The log likelihood of the data."""
        return self.conditional.log_density

    def predict(self, x_new: np.ndarray, include_noise: bool = False) -> Prediction:
        """Predict at new inputs.

        With A = K(X, X) + noise I and K = sum_c K_c, the mean is K(X*, X) A^-1 y and the variance
        K(X*, X*) - K(X*, X) A^-1 K(X, X*); for component c, K_c replaces K outside A. The empty
        composition (WHITE) has no components, mean zero, and no variance except the noise. Where
        users share a mean process with mean m and covariance C, y is replaced by y - m(X), m(X*)
        is added to the mean, and C is the covariance of one more component.

        Parameters
        ----------
        x_new : ndarray, shape (m, D)
            Inputs at which to predict, in the units of the objective's inputs.
        include_noise : bool
            Whether to predict new observations instead of the latent function.
        """
        kernel, before, m = self._kernel, self.x, len(x_new)
        mean, variance, components = np.zeros(m), np.zeros(m), {}
        whole = np.zeros((m, len(before)))  # covariances with the data, whitened
        if self.shared is not None:
            new = self.shared.to(x_new)
            whole += self.conditional.whiten(new.cross).T
            mean, variance = new.mean + whole @ self.conditional.white, new.covariance.diagonal()
            remaining = variance - (whole**2).sum(axis=1)
            components[SHARED] = Component(mean, _root(remaining))
        parts = kernel.parts(x_new, before)
        white = self.conditional.whiten(parts.reshape(-1, len(before)).T).T.reshape(parts.shape)
        means, priors = white @ self.conditional.white, kernel.variances(x_new)
        sds = _root(priors - np.einsum("kij,kij->ki", white, white))
        pool = self.coordinates.pool
        for c, part, sd in zip(kernel.active, means, sds, strict=True):
            components[pool.candidates[c].label(pool.dimension)] = Component(part, sd)
        mean = mean + means.sum(axis=0)
        whole += white.sum(axis=0)
        variance = variance + priors.sum(axis=0) - np.einsum("ij,ij->i", whole, whole)
        return Prediction.of(mean, _root(variance), self.noise, components, include_noise)


def _root(variance: np.ndarray) -> np.ndarray:
    """Return the roots of variances, of which only rounding makes some negative."""
    return np.sqrt(np.maximum(variance, 0.0))
