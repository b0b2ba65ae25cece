"""Methods that propose points: lifelong Bayesian optimisation and what it is compared with."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from kem_pymc.gp.acquisition import Surrogate


class Acquired(NamedTuple):
    """The acquisitions of one task.

    Attributes
    ----------
    rows : ndarray, shape (n, D)
        Encoded points.
    values : ndarray, shape (n,)
        Values of the function, to be minimised, transformed and standardised within the task.
    """

    rows: np.ndarray
    values: np.ndarray

    def plus(self, rows: np.ndarray, values: np.ndarray) -> "Acquired":
        """Return the acquisitions with others."""
        return Acquired(np.concatenate([self.rows, rows]), np.concatenate([self.values, values]))


class Conditional(Surrogate, Protocol):
    """A fitted model that can be given other acquisitions."""

    def conditioned(self, acquired: Acquired) -> "Conditional":
        """Return the model with these acquisitions in place of its own, and the same parameters."""


class Method(Protocol):
    """Protocol of methods with a model.

    A method is given the acquisitions of all tasks so far, the current one last, whenever a point
    is to be proposed. It may keep a state, which is written to files.
    """

    def fit(self, tasks: Sequence[Acquired], rng: np.random.Generator) -> Conditional:
        """Return a model of the last task's function."""

    def state(self) -> Mapping[str, np.ndarray]:
        """Return the state as arrays by name."""

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""


class Stateless:
    """Base of methods without a state."""

    def state(self) -> Mapping[str, np.ndarray]:
        """Return nothing; see :class:`Method`."""
        return {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Do nothing; see :class:`Method`."""
