"""Conversion of evolved kernels to PyMC covariance functions, for use in other PyMC models."""

from collections.abc import Callable
from typing import Any

import pymc as pm
import pytensor.tensor as pt


class ExpressionCovariance(pm.gp.cov.Covariance):
    """A covariance function that a PyTensor expression defines.

    Parameters
    ----------
    expression : callable
        Covariance (n, m), or (1, 1) if it is constant, of points (n, D) and (m, D).
    input_dim : int
        Number of input columns D.
    """

    def __init__(self, expression: Callable[[Any, Any], Any], input_dim: int) -> None:
        super().__init__(input_dim)
        self.expression = expression

    def full(self, X, Xs=None):
        """Return the covariance (n, m) of the points X (n, D) and Xs (m, D), by default X."""
        x, z = self._slice(X, X if Xs is None else Xs)
        return self._alloc(self.expression(x, z), x.shape[0], z.shape[0])

    def diag(self, X):
        """Return the variances (n,) at the points X (n, D)."""
        return pt.diagonal(self.full(X))
