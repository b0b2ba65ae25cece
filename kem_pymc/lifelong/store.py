"""Files of an optimiser: options, one line of JSON for every event, and the model as arrays."""

import io
from collections.abc import Mapping
from os import PathLike
from typing import Any
from zipfile import BadZipFile

import numpy as np

from kem_pymc._system.events import EventFolder
from kem_pymc._system.files import write_atomically
from kem_pymc.errors import InputError
from kem_pymc.lifelong.methods import Method

#: Files in the folder, beside the events.
SETTINGS, MODEL = "lifelong.json", "model.npz"

#: Arrays of the file of the model that aren't the method's: the point that was chosen, and the size
#: of the file of events before.
CHOSEN, WHEN = "chosen", "when"


class Store(EventFolder):
    """Files of an optimiser; without a folder nothing is read or written.

    A point that is chosen is written together with the model that chose it, so that an optimiser
    that is continued goes on as if it hadn't been interrupted.

    Parameters
    ----------
    out : path or None
    options : mapping
        Options that have to be the same when an optimiser is continued.

    Raises
    ------
    InputError
        If the folder can't be written to, or contains something else, or an optimiser with other
        options.
    """

    def __init__(self, out: str | PathLike[str] | None, options: Mapping[str, Any]) -> None:
        super().__init__(out, "optimiser", SETTINGS, options, _known)
        self._model: dict[str, np.ndarray] = {}
        if self.folder is None:
            return
        if (self.folder / MODEL).exists():
            try:
                with (self.folder / MODEL).open("rb") as file:
                    self._model = dict(np.load(file, allow_pickle=False))
                if CHOSEN not in self._model or self._model[WHEN].ndim > 0:
                    raise ValueError("another version's")
            except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
                raise self._damaged() from error

    def restore(self, method: Method) -> None:
        """Give a method the state in the file, if there is one, once the events are read.

        Raises
        ------
        InputError
            If the state is that of another method.
        """
        if self._model and int(self._model[WHEN]) > self._size:
            self._model = {}  # it learned from events that were deleted since
            with self.current() as folder:
                (folder / MODEL).unlink()
        state = {name: own for name, own in self._model.items() if name not in (CHOSEN, WHEN)}
        if state:
            try:
                method.restore(state)
            except (KeyError, ValueError, TypeError) as error:
                raise self._damaged() from error

    def _damaged(self) -> InputError:
        return InputError(
            f"{self.folder}/{MODEL} is damaged, or that of another method or version. Delete it: "
            "points and values are kept, what was learned from earlier tasks is lost."
        )

    def chosen(self) -> list[float] | None:
        """Return the encoded point that was chosen next, if only its event is missing."""
        if self._model and int(self._model[WHEN]) == self._size:
            return self._model[CHOSEN].tolist()
        return None

    def save_model(self, state: Mapping[str, np.ndarray], row: np.ndarray) -> None:
        """Write the state of the method, and the point that it chose.

        Raises
        ------
        InputError
            If another optimiser writes to the folder, or has written to it.
        """
        if self.folder is None:
            return
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {**state, CHOSEN: row, WHEN: np.array(self._size)}
        np.savez(buffer, allow_pickle=False, **arrays)
        with self.current() as folder:
            write_atomically(folder / MODEL, buffer.getvalue())


def _known(event: Mapping[str, Any]) -> bool:
    """Return whether an event is a task, a point, or a value."""
    if "tell" in event:
        return "value" in event and isinstance(event["value"], float | int | None)
    return any(key in event for key in ("task", "ask", "withdraw"))
