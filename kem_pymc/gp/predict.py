"""Predict from a fitted composition: mean, sd, and the contribution of each additive component."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc._system.jit.simd import padded
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.covariance import covariance
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
        coordinates, problem = objective.coordinates, objective.problem
        kernel = FixedKernel.of(coordinates, values)
        upper, done = _factorised(problem, kernel.h, float(values[-1]))
        if done < len(upper):
            raise InputError(
                f"The covariance of {coordinates.composition} isn't positive definite. "
                "Use a larger noise variance."
            )
        root = np.ascontiguousarray(upper[:, : len(upper)]).T
        noise, conditional = float(np.exp(values[-1])), Conditional.of_root(root, problem.y)
        return cls(coordinates, kernel, noise, problem.x.T, objective.known, conditional)

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
        n, m, noise = len(self.x), len(x_new), np.full(len(x_new), self.noise)
        mean, variance, known = np.zeros(m), np.zeros(m), np.zeros((m, n))
        shared = self.known is not None and self.known.function is not None
        if self.known is not None and shared:
            new = self.known.to(x_new)
            mean, variance = np.array(new.mean), new.covariance.diagonal().copy()
            known = self.conditional.whiten(new.cross).T
            noise *= new.factors if len(new.factors) else 1.0
        parts, priors = self.kernel.parts_and_variances(x_new, self.x)
        white = self.conditional.whiten(parts.reshape(len(parts) * m, n).T).T.reshape(parts.shape)
        given = known, white, priors, self.conditional.white
        own, means, sds, sd = _moments(mean, variance, *given)
        pool = self.coordinates.pool
        components = {SHARED: Component(*own)} if shared else {}
        for c, part, of_part in zip(self.kernel.active, means, sds, strict=True):
            components[pool.candidates[c].label(pool.dimension)] = Component(part, of_part)
        return Moments(own[0] + means.sum(axis=0), sd, noise, components)


@compiled
def _factorised(problem, h, log_noise):
    """Return the factor (n, padded(n)) of a problem's covariance, and how many rows it has."""
    n = problem.x.shape[1]
    out = np.zeros((n, padded(n)))
    scratch = np.empty_like(out)
    covariance(problem.kernels, problem.layout, problem.active, h, problem.x, out, scratch)
    if problem.known.shape[0] > 0:
        add_upper(out, problem.known)
    return out, factorise(out, log_noise, problem.factors, np.zeros(2, dtype=np.int64))


@compiled
def _moments(mean, variance, known, white, priors, error):
    """Return what is said of the function at m inputs; see :meth:`Conditioned.moments`.

    Parameters
    ----------
    mean, variance : (m,) float64
        Of what is known of the function.
    known : (m, n) float64
        Its covariances with the data, whitened.
    white : (k, m, n) float64
        The components' covariances with the data, whitened.
    priors : (k, m) float64
        Their variances.
    error : (n,) float64
        The data less their mean, whitened.

    Returns
    -------
    known (2, m), means, sds (k, m), sd (m,)
        Mean and sd of what is known, those of the components, and sd of the function.
    """
    k, m, n = white.shape
    of_known, means, sds, sd = np.empty((2, m)), np.zeros((k, m)), np.empty((k, m)), np.empty(m)
    for j in range(m):
        added, taken, total, rest = 0.0, 0.0, variance[j], 0.0
        for i in range(n):
            whole = known[j, i]
            added += whole * error[i]
            taken += whole * whole
            for c in range(k):
                whole += white[c, j, i]
            rest += whole * whole
        of_known[0, j] = mean[j] + added
        of_known[1, j] = math.sqrt(max(variance[j] - taken, 0.0))  # rounding makes some negative
        for c in range(k):
            taken = 0.0
            for i in range(n):
                means[c, j] += white[c, j, i] * error[i]
                taken += white[c, j, i] ** 2
            sds[c, j] = math.sqrt(max(priors[c, j] - taken, 0.0))
            total += priors[c, j]
        sd[j] = math.sqrt(max(total - rest, 0.0))
    return of_known, means, sds, sd
