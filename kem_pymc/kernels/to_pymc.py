"""Convert compositions to PyMC covariance functions, for use in other PyMC models.

The built-in base kernels except CAT and PS become PyMC's own classes, with the methods that PyMC
defines for them (such as spectral densities for ``pm.gp.HSGP``). CAT, PS and user-defined base
kernels evaluate their expression.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import add, mul
from types import MappingProxyType
from typing import Any

import pymc as pm
import pytensor.tensor as pt

from kem_pymc.kernels.base import LIN, MATERN32, MATERN52, PER, RQ, SE, BaseKernel

#: Base kernel, input column, and values of the kernel's hyperparameters.
type FactorOfTerm = tuple[BaseKernel, int, Sequence[Any]]

#: Amplitude and factors.
type Term = tuple[Any, Sequence[FactorOfTerm]]


class ElementwiseCovariance(pm.gp.cov.Covariance):
    """A covariance function of one input column, defined by an expression.

    Parameters
    ----------
    input_dim : int
        Number of input columns.
    column : int
        Index of the column that is used.
    expression : callable
        ``expression(x, z, *hyperparameters)``, as in :class:`kem_pymc.kernels.base.BaseKernel`.
    hyperparameters : iterable of scalar variables
        Arguments of the expression after x and z.
    """

    def __init__(
        self,
        input_dim: int,
        column: int,
        expression: Callable,
        hyperparameters: Iterable[pt.TensorVariable] = (),
    ) -> None:
        super().__init__(input_dim, active_dims=[column])
        self.expression = expression
        self.hyperparameters = tuple(hyperparameters)

    def full(self, X, Xs=None):
        """Return the covariance (n, m) of the points X (n, D) and Xs (m, D), by default X."""
        x, z = (points[:, 0] for points in self._slice(X, X if Xs is None else Xs))
        value = self.expression(x[:, None], z[None, :], *self.hyperparameters)
        return self._alloc(value, x.shape[0], z.shape[0])

    def diag(self, X):
        """Return the variances (n,) at the points X (n, D)."""
        x = self._slice(X)[0][:, 0]
        return self._alloc(self.expression(x, x, *self.hyperparameters), x.shape[0])


def _linear(input_dim, column, shift):
    return pm.gp.cov.Linear(input_dim, c=shift, active_dims=[column])


def _periodic(input_dim, column, lengthscale, period):
    # PyMC's exponent is -sin^2(...) / (2 l^2), the paper's -2 sin^2(...) / l^2.
    return pm.gp.cov.Periodic(input_dim, period=period, ls=lengthscale / 2, active_dims=[column])


def _rational_quadratic(input_dim, column, lengthscale, mixture):
    return pm.gp.cov.RatQuad(input_dim, alpha=mixture, ls=lengthscale, active_dims=[column])


def _stationary(cls: type[pm.gp.cov.Stationary]) -> Callable[..., pm.gp.cov.Covariance]:
    def made(input_dim, column, lengthscale):
        return cls(input_dim, ls=lengthscale, active_dims=[column])

    return made


_NATIVE: MappingProxyType[BaseKernel, Callable[..., pm.gp.cov.Covariance]] = MappingProxyType(
    {
        LIN: _linear,
        PER: _periodic,
        SE: _stationary(pm.gp.cov.ExpQuad),
        RQ: _rational_quadratic,
        MATERN32: _stationary(pm.gp.cov.Matern32),
        MATERN52: _stationary(pm.gp.cov.Matern52),
    }
)


def sum_of_products(terms: Iterable[Term], dimension: int) -> pm.gp.cov.Covariance:
    """Return a sum of products of base kernels as a ``pm.gp.cov`` object.

    Parameters
    ----------
    terms : iterable of (amplitude, factors)
        Amplitudes are variances. Each factor is a base kernel, an input column, and the values of
        the kernel's hyperparameters. Without terms the covariance is zero everywhere; a term
        without factors is constant.
    dimension : int
        Number of input columns.

    Returns
    -------
    pm.gp.cov.Covariance
    """
    made = [_product(amplitude, factors, dimension) for amplitude, factors in terms]
    return reduce(add, made) if made else _level(dimension) * 0.0


def _product(
    amplitude: Any, factors: Sequence[FactorOfTerm], dimension: int
) -> pm.gp.cov.Covariance:
    made = []
    for kernel, column, values in factors:
        # Cast to floats, because PyTensor would store whole numbers as small integers.
        arguments = [pt.cast(value, "floatX") for value in values]
        if kernel in _NATIVE:
            made.append(_NATIVE[kernel](dimension, column, *arguments))
        else:
            made.append(ElementwiseCovariance(dimension, column, kernel.expression, arguments))
    return reduce(mul, made or [_level(dimension)]) * pt.cast(amplitude, "floatX")


def _level(dimension: int) -> ElementwiseCovariance:
    """Return CONST without its amplitude; PyMC's own constant has no number of input columns."""
    return ElementwiseCovariance(dimension, 0, lambda x, z: pt.ones_like(x - z))
