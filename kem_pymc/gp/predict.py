"""Predict from a fitted composition: mean, sd, and the contribution of each additive component."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.kernel import FixedKernel
from kem_pymc.gp.known_part import KnownPart
from kem_pymc.gp.likelihood import add_upper, factorise
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.posterior import Conditional
from kem_pymc.gp.prediction import Component, Moments, Prediction

#: Name of the component that all users share.
SHARED = "shared"


@dataclass(frozen=True, eq=False)
class Conditioned:
    """A composition with given values, conditioned on the data of an objective.

    It is created by :meth:`of`.

    Attributes
    ----------
    coordinates : Coordinates
    kernel : FixedKernel
        The composition's kernel, with these values.
    noise : float
        The noise variance.
    x : ndarray, shape (n, D)
        Inputs of the data.
    known : KnownPart or None
        What is known of the targets at these inputs.
    conditional : Conditional
    """

    coordinates: Coordinates
    kernel: FixedKernel
    noise: float
    x: np.ndarray
    known: KnownPart | None
    conditional: Conditional

    @classmethod
    def of(cls, objective: Objective, values: np.ndarray) -> Self:
        """Condition on the data of an objective, at given coordinates. Its prior isn't used.

        Raises
        ------
        InputError
            If the covariance isn't positive definite, even with jitter.
        """
        coordinates, known = objective.coordinates, objective.known
        x, errors = objective.problem.x.T, objective.problem.y
        kernel = FixedKernel.of(coordinates, values)
        upper, n = kernel.upper(x), len(errors)
        factors = np.empty(0)
        if known is not None:
            add_upper(upper, known.covariance)
            factors = known.factors
        if factorise(upper, float(values[-1]), factors, np.zeros(2, dtype=np.int64)) < n:
            raise InputError(
                f"The covariance of {coordinates.composition} isn't positive definite. "
                "Use a larger noise variance."
            )
        root = np.ascontiguousarray(upper[:, :n]).T
        noise, conditional = float(np.exp(values[-1])), Conditional.of_root(root, errors)
        return cls(coordinates, kernel, noise, x, known, conditional)

    def predict(self, x_new: np.ndarray, include_noise: bool = False) -> Prediction:
        """Return the prediction of this kernel alone; see :meth:`moments`."""
        return Prediction.mixture([self.moments(x_new)], [1.0], include_noise)

    def moments(self, x_new: np.ndarray) -> Moments:
        """Predict at new inputs.

        With A = K(X, X) + noise F + V, where F and V are the diagonal matrices of the noise's
        factors and of known noise variances, and K = sum_c K_c, the mean is K(X*, X) A^-1 y and the
        variance K(X*, X*) - K(X*, X) A^-1 K(X, X*); for component c, K_c replaces K outside A. The
        empty composition (WHITE) has no components, mean zero, and no variance except the noise.
        Where users share a mean process with mean m and covariance C, y is replaced by y - m(X),
        m(X*) is added to the mean, and C is the covariance of one more component.

        Parameters
        ----------
        x_new : ndarray, shape (m, D)
            Inputs at which to predict, in the units of the objective's inputs.
        """
        kernel, before, m = self.kernel, self.x, len(x_new)
        mean, variance, components, noise = np.zeros(m), np.zeros(m), {}, np.full(m, self.noise)
        whole = np.zeros((m, len(before)))  # covariances with the data, whitened
        if self.known is not None and self.known.function is not None:
            new = self.known.to(x_new)
            whole += self.conditional.whiten(new.cross).T
            mean, variance = new.mean + whole @ self.conditional.white, new.covariance.diagonal()
            remaining = variance - (whole**2).sum(axis=1)
            components[SHARED] = Component(mean, _root(remaining))
            noise *= new.factors if len(new.factors) else 1.0
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
        return Moments(mean, _root(variance), noise, components)


def _root(variance: np.ndarray) -> np.ndarray:
    """Return the roots of variances, of which only rounding makes some negative."""
    return np.sqrt(np.maximum(variance, 0.0))
