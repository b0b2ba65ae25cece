"""What every method of selection is: a user's data in, a kernel out."""

from typing import Protocol

import numpy.typing as npt

from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.selection.selection import Selection

#: What a selector may be given of the time step before.
Previous = Selection | Composition | str | None


class Selector(Protocol):
    """A method of selection."""

    def select(self, x: npt.ArrayLike, y: npt.ArrayLike, previous: Previous = None) -> Selection:
        """Select a kernel for one user's data up to now.

        Parameters
        ----------
        x : array_like, shape (n, D), or (n,) if D is 1
            In the user's units.
        y : array_like, shape (n,)
        previous : Selection, Composition, str or None
            What was selected one time step earlier; None at the first.
        """


def previous_composition(previous: Previous, pool: CandidatePool) -> Composition:
    """Return the composition of the time step before; WHITE at the first.

    Raises
    ------
    InputError
        If it isn't made of the pool's candidates, or is no composition.
    """
    if previous is None:
        return Composition()
    if isinstance(previous, Selection):
        previous = previous.composition
    if isinstance(previous, str):
        previous = Composition.parse(previous, pool.dimension)
    if not isinstance(previous, Composition):
        raise InputError(
            f"previous is a {type(previous).__name__}. "
            "Give the last selection, a composition, its name, or None at the first time step."
        )
    pool.inclusion(previous)
    return previous
