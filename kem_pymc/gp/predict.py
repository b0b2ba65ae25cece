"""Predict from a fitted composition: mean, sd, and the contribution of each additive component."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kem_pymc.errors import InputError
from kem_pymc.gp.kernel import FixedKernel
from kem_pymc.gp.likelihood import add_upper, factorise
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
    objective : Objective
        Objective whose data are conditioned on; its prior isn't used.
    values : ndarray, shape (k + 1,)
        Coordinates (:mod:`kem_pymc.gp.coordinates`).
    conditional : Conditional
    jittered : bool
        Whether the factorisation needed the jitter of the likelihood.
    """

    objective: Objective
    values: np.ndarray
    conditional: Conditional
    jittered: bool

    @classmethod
    def of(cls, objective: Objective, values: np.ndarray) -> "Conditioned":
        """Condition on the data of an objective, at given coordinates.

        Raises
        ------
        InputError
            If the covariance isn't positive definite, even with jitter.
        """
        conditional, jittered = condition(objective, values)
        if conditional is None:
            raise InputError(
                f"The covariance of {objective.coordinates.composition} isn't positive definite. "
                "Use a larger noise variance."
            )
        return cls(objective, values, conditional, jittered)

    def extended(self, x: np.ndarray, y: np.ndarray) -> "Conditioned":
        """Condition on further points as well, at the same values.

        No kernel is evaluated between old points (:meth:`Conditional.extended`). Where jitter was
        needed, or is needed now, everything is computed again.

        Parameters
        ----------
        x : ndarray, shape (m, D)
            Inputs of the new points.
        y : ndarray, shape (m,)
            Targets of the new points.

        Returns
        -------
        Conditioned

        Raises
        ------
        InputError
            If the covariance isn't positive definite, even with jitter.
        """
        objective, shared = self.objective, self.objective.shared
        before = objective.problem.x.T
        new = None if shared is None else shared.to(x)
        longer = Objective(
            objective.coordinates,
            np.concatenate([before, x]),
            np.concatenate([objective.targets, y]),
            objective.problem.prior,
            objective.noise_floor,
            None if new is None else new.extended,
        )
        if not self.jittered:
            cross, covariance = self._kernel.cross(before, x), self._kernel.cross(x, x)
            if new is not None:
                cross, covariance = cross + new.cross, covariance + new.covariance
            covariance[np.diag_indices(len(x))] += self.noise
            error = longer.problem.y[len(before) :]
            try:
                conditional = self.conditional.extended(cross, covariance, error)
                return replace(self, objective=longer, conditional=conditional)
            except np.linalg.LinAlgError:
                pass
        return Conditioned.of(longer, self.values)

    @cached_property
    def _kernel(self) -> FixedKernel:
        return FixedKernel.of(self.objective.coordinates, self.values)

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
        kernel, before, m = self._kernel, self.objective.problem.x.T, len(x_new)
        mean, variance, components = np.zeros(m), np.zeros(m), {}
        whole = np.zeros((m, len(before)))  # covariances with the data, whitened
        if self.objective.shared is not None:
            new = self.objective.shared.to(x_new)
            whole += self.conditional.whiten(new.cross).T
            mean, variance = new.mean + whole @ self.conditional.white, new.covariance.diagonal()
            remaining = variance - (whole**2).sum(axis=1)
            components[SHARED] = Component(mean, _root(remaining))
        parts = kernel.parts(x_new, before)
        white = self.conditional.whiten(parts.reshape(-1, len(before)).T).T.reshape(parts.shape)
        means, priors = white @ self.conditional.white, kernel.variances(x_new)
        sds = _root(priors - np.einsum("kij,kij->ki", white, white))
        pool = self.objective.coordinates.pool
        for c, part, sd in zip(kernel.active, means, sds, strict=True):
            components[pool.candidates[c].label(pool.dimension)] = Component(part, sd)
        mean = mean + means.sum(axis=0)
        whole += white.sum(axis=0)
        variance = variance + priors.sum(axis=0) - np.einsum("ij,ij->i", whole, whole)
        sd = _root(np.maximum(variance, 0.0) + (self.noise if include_noise else 0.0))
        return Prediction(mean, sd, components, self.noise, include_noise)


def condition(objective: Objective, values: np.ndarray) -> tuple[Conditional | None, bool]:
    """Return what an objective's data say at given coordinates, and whether jitter was needed.

    The first is None if the covariance isn't positive definite, even with the jitter of the
    likelihood.
    """
    problem, n = objective.problem, objective.n_points
    upper = FixedKernel.of(objective.coordinates, values).upper(problem.x.T)
    if objective.shared is not None:
        add_upper(upper, problem.shared)
    counts = np.zeros(2, dtype=np.int64)
    if factorise(upper, float(values[-1]), counts) < n:
        return None, True
    root = np.ascontiguousarray(upper[:, :n]).T
    return Conditional.of_root(root, problem.y), bool(counts[0] > 1)


def _root(variance: np.ndarray) -> np.ndarray:
    """Return the roots of variances, of which only rounding makes some negative."""
    return np.sqrt(np.maximum(variance, 0.0))
