"""Selector for methods without evolutions, for users who may not follow the shared mean."""

from typing import Any

import numpy.typing as npt

from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.selection.kem import DEPARTURE, KEMSelector
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.selector import Previous, Selector


class DepartureSelector(Selector):
    """Selector that mixes a method with a shared mean with a KEM selection without one.

    :class:`KEMSelector` and its subclasses don't need it: they do the same themselves.

    Parameters
    ----------
    selector : Selector
        Method that assumes that the user follows the shared mean. The scores of the compositions
        that it considers have to be log evidences.
    unshared : Evolutions
        Evolutions of pilot users without a shared mean, as in :class:`kem_pymc.Evolutions`.
    """

    def __init__(self, selector: Selector, unshared: Evolutions) -> None:
        self.selector, self._unshared = selector, KEMSelector(unshared)
        self.scaling = unshared.scaling

    def select(
        self, x: npt.ArrayLike, y: npt.ArrayLike, previous: Previous = None, **given: Any
    ) -> Selection:
        selection = self.selector.select(x, y, previous, **given)
        return selection.with_unshared(self._unshared.select(x, y, **given), DEPARTURE)
