"""Convert compositions to PyMC covariance functions, for use in other PyMC models.

The built-in base kernels except CAT and PS become PyMC's own classes, with the methods that PyMC
defines for them (such as spectral densities for ``pm.gp.HSGP``). CAT, PS and user-defined base
kernels evaluate their expression.
"""

from collections.abc import Callable, Iterable
from functools import reduce
from operator import add, mul
from types import MappingProxyType
from typing import Any

import pymc as pm
import pytensor.tensor as pt

from kem_pymc._system.options import shown
from kem_pymc.errors import InputError
from kem_pymc.kernels.base import LIN, MATERN32, MATERN52, PER, RQ, SE, BaseKernel, base_kernel


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


#: PyMC's own covariance function of a kernel, given input_dim, column and hyperparameters.
_NATIVE: MappingProxyType[BaseKernel, Callable[..., pm.gp.cov.Covariance]] = MappingProxyType(
    {
        LIN: lambda n, d, shift: pm.gp.cov.Linear(n, c=shift, active_dims=[d]),
        # PyMC's exponent is -sin^2(...) / (2 l^2), the paper's -2 sin^2(...) / l^2.
        PER: lambda n, d, ls, p: pm.gp.cov.Periodic(n, period=p, ls=ls / 2, active_dims=[d]),
        SE: lambda n, d, ls: pm.gp.cov.ExpQuad(n, ls=ls, active_dims=[d]),
        RQ: lambda n, d, ls, mixture: pm.gp.cov.RatQuad(n, alpha=mixture, ls=ls, active_dims=[d]),
        MATERN32: lambda n, d, ls: pm.gp.cov.Matern32(n, ls=ls, active_dims=[d]),
        MATERN52: lambda n, d, ls: pm.gp.cov.Matern52(n, ls=ls, active_dims=[d]),
    }
)


def sum_of_products(
    terms: Iterable[tuple[Any, Iterable[tuple[str, int, Iterable[Any]]]]], dimension: int
) -> pm.gp.cov.Covariance:
    """Return a sum of products of base kernels as a ``pm.gp.cov`` object.

    Parameters
    ----------
    terms : iterable of (amplitude, factors)
        Amplitudes are variances. A factor is the name of a base kernel, its input column, and the
        values of its hyperparameters; a term without factors is constant. Values are numbers or
        variables. Without terms the covariance is zero everywhere.
    dimension : int
        Number of input columns.

    Returns
    -------
    pm.gp.cov.Covariance
    """
    products = [_product(amplitude, factors, dimension) for amplitude, factors in terms]
    return reduce(add, products) if products else _level(dimension) * 0.0


def _product(
    amplitude: Any, factors: Iterable[tuple[str, int, Iterable[Any]]], dimension: int
) -> pm.gp.cov.Covariance:
    covariances = []
    for base, column, values in factors:
        kernel, arguments = base_kernel(base), [_as_float(value) for value in values]
        if kernel in _NATIVE:
            covariances.append(_NATIVE[kernel](dimension, column, *arguments))
        else:
            elementwise = ElementwiseCovariance(dimension, column, kernel.expression, arguments)
            covariances.append(elementwise)
    return reduce(mul, covariances or [_level(dimension)]) * _as_float(amplitude)


def _as_float(value: Any) -> pt.TensorVariable:
    # PyTensor would store whole numbers as small integers.
    return pt.cast(value, "floatX")


def scalar(value: Any, name: str) -> pt.TensorVariable:
    """Return a hyperparameter's value as a scalar variable.

    Raises
    ------
    InputError
        If it isn't a number or a scalar variable.
    """
    try:
        variable = _as_float(value)
    except (TypeError, ValueError, NotImplementedError, OverflowError):
        variable = None
    if variable is None or variable.ndim:
        raise InputError(f"{name} is {shown(value)}. Give a number or a scalar variable.")
    return variable


def _level(dimension: int) -> ElementwiseCovariance:
    """Return CONST without its amplitude; PyMC's own constant has no number of input columns."""
    return ElementwiseCovariance(dimension, 0, lambda x, z: pt.ones_like(x - z))
