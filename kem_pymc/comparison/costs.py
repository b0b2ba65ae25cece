"""What an update of one user costs: CPU time, and what is kept of the user until the next one."""

import io
from time import process_time
from typing import Any, NamedTuple

import cloudpickle
import numpy.typing as npt

from kem_pymc.selection.selection import Selection
from kem_pymc.selection.selector import Previous, Selector


class Cost(NamedTuple):
    """CPU time and memory.

    Attributes
    ----------
    seconds : float
        CPU time.
    kilobytes : float
        1000 bytes.
    """

    seconds: float
    kilobytes: float


#: What is used in other processes by selections that don't say so.
NOTHING = Cost(0.0, 0.0)


class Metered:
    """A selector that notes the CPU time of its selections.

    Selections made with the help of another process have an attribute ``elsewhere``, a
    :class:`Cost`: its seconds are added, and its kilobytes are those of the user's state.

    Parameters
    ----------
    selector : Selector

    Attributes
    ----------
    seconds : list of float
        CPU time of every selection, in order.
    """

    def __init__(self, selector: Selector) -> None:
        self.selector = selector
        self.seconds: list[float] = []

    def select(
        self, x: npt.ArrayLike, y: npt.ArrayLike, previous: Previous = None, **given: Any
    ) -> Selection:
        """Select; see :meth:`~kem_pymc.selection.selector.Selector.select`."""
        began = process_time()
        selection = self.selector.select(x, y, previous, **given)
        elsewhere: Cost = getattr(selection, "elsewhere", NOTHING)
        self.seconds.append(process_time() - began + elsewhere.seconds)
        return selection

    def kilobytes(self, selection: Selection) -> float:
        """Return the size of what a selection has beyond what the selector has for all users.

        It is the user's rows and what was found for them: what has to be stored until the next
        update. Both are serialised one after the other, so that what they share counts once.
        Matrices that are computed again when they are needed aren't stored.
        """
        elsewhere: Cost = getattr(selection, "elsewhere", NOTHING)
        if elsewhere.kilobytes:
            return elsewhere.kilobytes
        stream = io.BytesIO()
        pickler = cloudpickle.CloudPickler(stream)
        pickler.dump(self.selector)
        begin = stream.tell()
        pickler.dump(selection)
        return (stream.tell() - begin) / 1000
