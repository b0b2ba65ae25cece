"""Interface of all methods of selection, which select a kernel for a user's data."""

from typing import Protocol

import numpy.typing as npt

from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.selection.selection import Selection

#: Types in which a selector accepts the result of the previous time step.
Previous = Selection | Composition | str | None


class Selector(Protocol):
    """Protocol of a method of selection."""

    def select(self, x: npt.ArrayLike, y: npt.ArrayLike, previous: Previous = None) -> Selection:
        """Select a kernel for one user's data up to now.

        Parameters
        ----------
        x : array_like, shape (n, D), or (n,) if D is 1
            All of the user's inputs so far, in the user's units.
        y : array_like, shape (n,)
        previous : Selection, Composition, str or None
            Selection or composition of the previous time step; None at the first.

        Returns
        -------
        Selection
        """


def previous_composition(previous: Previous, pool: CandidatePool) -> Composition:
    """Return the composition of the previous time step; WHITE (the empty one) at the first.

    Raises
    ------
    InputError
        If `previous` isn't a composition, or has candidates that aren't in the pool.
    """
    composition = as_composition(previous, pool.dimension)
    pool.inclusion(composition)
    return composition


def as_composition(previous: Previous, dimension: int) -> Composition:
    """Return the composition of the previous time step, of any candidates.

    Raises
    ------
    InputError
        If `previous` isn't a composition.
    """
    if previous is None:
        return Composition()
    if isinstance(previous, Selection):
        previous = previous.composition
    if isinstance(previous, str):
        previous = Composition.parse(previous, dimension)
    if not isinstance(previous, Composition):
        raise InputError(
            f"previous is a {type(previous).__name__}. "
            "Give the last selection, a composition, its name, or None at the first time step."
        )
    return previous
