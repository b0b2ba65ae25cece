"""Conversion of evolved kernels to PyMC covariance functions, for use in other PyMC models."""

from collections.abc import Sequence
from typing import Any

import pymc as pm
import pytensor.tensor as pt

from kem_pymc.search.evocov.tree import Tree


class TreeCovariance(pm.gp.cov.Covariance):
    """The covariance function of a tree, without white noise.

    Parameters
    ----------
    tree : Tree
    hyperparameters : sequence of k scalars
        Natural values, or variables, in the order of :attr:`Tree.hyperparameters`.
    input_dim : int
        Number of input columns.
    """

    def __init__(self, tree: Tree, hyperparameters: Sequence[Any], input_dim: int) -> None:
        super().__init__(input_dim)
        self.tree = tree
        # Cast to floats, because PyTensor would store whole numbers as small integers.
        self.hyperparameters = [pt.cast(value, "floatX") for value in hyperparameters]

    def full(self, X, Xs=None):
        """Return the covariance (n, m) of the points X (n, D) and Xs (m, D), by default X."""
        x, z = self._slice(X, X if Xs is None else Xs)
        value = self.tree.to_pytensor(x, z, self.hyperparameters)
        return self._alloc(value, x.shape[0], z.shape[0])

    def diag(self, X):
        """Return the variances (n,) at the points X (n, D)."""
        return pt.diagonal(self.full(X))
