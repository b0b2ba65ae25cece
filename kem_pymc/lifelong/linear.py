"""Bayesian linear regression on features, the last layer of networks.

Weights are ``h ~ N(0, I / lambda)`` and values ``y ~ N(Phi h, I / beta)``. The primal form
factorises ``lambda I + beta Phi' Phi`` (p, p), the dual form ``Phi Phi' / lambda + I / beta``
(n, n). Zhang et al. (2019, section 2.1) print the quadratic term of the primal form without its
factor 1/2, and the posterior covariance with a further factor lambda; here both forms are equal.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from scipy.linalg import cho_solve, cholesky, solve_triangular

#: Range of the logs of both precisions, in which covariance matrices can be factorised.
LOG_PRECISIONS = (-8.0, 12.0)


def dual(gram: Any, y: Any, log_lambda: Any, log_beta: Any) -> Any:
    """Return log marginal likelihoods in the dual form, as a PyTensor expression.

    Parameters
    ----------
    gram : tensor variable, shape (S, n, n)
        Products ``Phi Phi'`` of S matrices of features.
    y : tensor variable, shape (n,), or (S, n)
        Values.
    log_lambda, log_beta : scalar tensor variables, or of shape (S,)
        Logs of the precisions of weights and of noise.

    Returns
    -------
    tensor variable, shape (S,)
    """
    noise = pt.exp(-_by_matrix(log_beta)) * pt.eye(y.shape[-1])
    return normal_log_density(y, pt.exp(-_by_matrix(log_lambda)) * gram + noise)


def _by_matrix(log_precision: Any) -> Any:
    """Return a scalar, or S scalars as a tensor (S, 1, 1)."""
    return log_precision[:, None, None] if log_precision.ndim else log_precision


def normal_log_density(y: Any, covariance: Any) -> Any:
    """Return log densities of `y` under normal distributions of mean zero, as an expression.

    The derivative by a covariance K is written out, ``(a a' - K^-1) / 2`` with ``a = K^-1 y``; that
    through the factorisation takes several times as many operations. `y` has no derivative.

    Parameters
    ----------
    y : tensor variable, shape (n,), or (S, n)
    covariance : tensor variable, shape (S, n, n)

    Returns
    -------
    tensor variable, shape (S,)
    """
    n = y.shape[-1]
    factor = pt.linalg.cholesky(covariance)
    inverse = pt.linalg.solve_triangular(
        factor, pt.broadcast_to(pt.eye(n), covariance.shape), lower=True, b_ndim=2
    )
    white = (inverse * y[..., None, :]).sum(axis=2)
    along = (inverse * white[:, :, None]).sum(axis=1)
    slope = along[:, :, None] * along[:, None, :] - pt.matmul(inverse.transpose(0, 2, 1), inverse)
    slope = disconnected_grad(0.5 * slope)
    determinant = 2.0 * pt.log(pt.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    value = -0.5 * (pt.sqr(white).sum(axis=1) + determinant + n * np.log(2 * np.pi))
    linear = (slope * covariance).sum(axis=(1, 2))
    return linear + disconnected_grad(value - linear)


def primal(cross: Any, along: Any, y: Any, log_lambda: Any, log_beta: Any) -> Any:
    """Return log marginal likelihoods in the primal form; see :func:`dual`.

    Parameters
    ----------
    cross : tensor variable, shape (S, p, p)
        Products ``Phi' Phi``.
    along : tensor variable, shape (S, p)
        Products ``Phi' y``.
    y, log_lambda, log_beta
        As for :func:`dual`.
    """
    n, p, beta = y.shape[-1], cross.shape[1], pt.exp(log_beta)
    inner = pt.exp(_by_matrix(log_lambda)) * pt.eye(p) + pt.exp(_by_matrix(log_beta)) * cross
    factor = pt.linalg.cholesky(inner)
    white = pt.linalg.solve_triangular(factor, along, lower=True, b_ndim=1)
    quadratic = beta * pt.sqr(y).sum(axis=-1) - beta**2 * pt.sqr(white).sum(axis=1)
    determinant = 2.0 * pt.log(pt.diagonal(factor, axis1=1, axis2=2)).sum(axis=1) - p * log_lambda
    return -0.5 * (quadratic + determinant + n * (np.log(2 * np.pi) - log_beta))


@dataclass(frozen=True, eq=False)
class LinearPosterior:
    """The posterior of the weights, which predicts.

    Attributes
    ----------
    phi : ndarray, shape (n, p)
    y : ndarray, shape (n,)
    precision, noise_precision : float
        lambda and beta.
    """

    phi: np.ndarray
    y: np.ndarray
    precision: float
    noise_precision: float

    @cached_property
    def _factor(self) -> np.ndarray:
        n, p = self.phi.shape
        if n <= p:
            c = self.phi @ self.phi.T / self.precision
            return cholesky(c + np.eye(n) / self.noise_precision, lower=True)
        k = self.noise_precision * self.phi.T @ self.phi
        return cholesky(k + self.precision * np.eye(p), lower=True)

    @property
    def coefficients(self) -> np.ndarray:
        """Posterior means (p,) of the weights."""
        n, p = self.phi.shape
        if n <= p:
            return self.phi.T @ cho_solve((self._factor, True), self.y) / self.precision
        along = self.noise_precision * (self.phi.T @ self.y)
        return cho_solve((self._factor, True), along)

    def predict(self, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations (m,) of the function at features (m, p); eq. 4."""
        n, p = self.phi.shape
        if n <= p:
            cross = phi @ self.phi.T / self.precision
            mean = cross @ cho_solve((self._factor, True), self.y)
            white = solve_triangular(self._factor, cross.T, lower=True)
            variance = (phi**2).sum(axis=1) / self.precision - (white**2).sum(axis=0)
        else:
            mean = phi @ self.coefficients
            variance = (solve_triangular(self._factor, phi.T, lower=True) ** 2).sum(axis=0)
        return mean, np.sqrt(np.maximum(variance, 0.0))
