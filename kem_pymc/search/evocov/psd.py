"""Check whether kernels are positive semi-definite (Roman et al. 2019, section 4.1.2)."""

import numpy as np

from kem_pymc.search.evocov.interpreter import FINE, OUTCOMES
from kem_pymc.search.evocov.objective import tape_covariances
from kem_pymc.search.evocov.primitives import HYPERPARAMETERS
from kem_pymc.search.evocov.tape import lower
from kem_pymc.search.evocov.tree import Tree

#: Number of random data sets, and of points of each.
DATA_SETS, POINTS = 20, 20

#: Range of the hyperparameters: logs of positive ones, values of shifts.
LOW, HIGH = -2.0, 2.0

#: Smallest eigenvalue, relative to the largest one, that isn't negative but rounding error.
TOLERANCE = 1e-9


class PsdCheck:
    """Necessary conditions for a kernel to be positive semi-definite, on random data sets.

    On every data set, with random hyperparameters, the covariance must be finite, and neither its
    diagonal nor an eigenvalue may be negative. It can't be asymmetric, because all primitives are
    symmetric. The data sets are the same for all kernels, so that a kernel always has the same
    result.

    Kernels that don't depend on the inputs don't pass either, unlike in the paper: three quarters
    of the random trees that are positive semi-definite are such constants.

    Parameters
    ----------
    dimension : int
        Number of input columns D. Inputs are uniform over [0, 1].
    rng : numpy.random.Generator
    """

    def __init__(self, dimension: int, rng: np.random.Generator) -> None:
        self._x = rng.uniform(size=(DATA_SETS, dimension, POINTS))
        self._values = rng.uniform(LOW, HIGH, size=(DATA_SETS, HYPERPARAMETERS))

    def __call__(self, tree: Tree) -> bool:
        """Return whether a kernel passes."""
        return not self.result(tree)

    def result(self, tree: Tree) -> str:
        """Return what is wrong with a kernel; an empty text if nothing is."""
        tape = lower(tree)
        if tape.uniform == len(tape.code):
            return "constant"
        for x, values in zip(self._x, self._values, strict=True):
            c, outcome = tape_covariances(tape, x, values)
            if outcome != FINE:
                return OUTCOMES[outcome]
            if (np.diag(c) < 0).any():
                return "negative variance"
            eigenvalues = np.linalg.eigvalsh(c)
            if eigenvalues[0] < -TOLERANCE * eigenvalues[-1]:
                return "negative eigenvalue"
        return ""
