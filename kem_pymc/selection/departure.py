"""Methods without evolutions, for users who may not follow what pilot users share."""

import numpy.typing as npt

from kem_pymc.evolution.evolutions import Evolutions
from kem_pymc.selection.kem import DEPARTURE, KEMSelector
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.selector import Previous, Selector


class DepartureSelector:
    """Mixes a method that supposes what users share with selections without it.

    :class:`KEMSelector` and those made of it do so themselves.

    Parameters
    ----------
    selector : Selector
        Scores of what it considers are log evidences.
    unshared : Evolutions
        As in :class:`kem_pymc.Evolutions`.
    departure : float
        As for :class:`KEMSelector`.
    """

    def __init__(
        self, selector: Selector, unshared: Evolutions, departure: float = DEPARTURE
    ) -> None:
        self.selector, self.departure = selector, departure
        self._unshared = KEMSelector(unshared)

    def select(self, x: npt.ArrayLike, y: npt.ArrayLike, previous: Previous = None) -> Selection:
        """Select a kernel for one user's data up to now, as the method itself does."""
        own = self.selector.select(x, y, previous)
        return own.with_unshared(self._unshared.select(x, y), self.departure)
