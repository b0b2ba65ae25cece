"""Files of an optimiser: options, one line of JSON for every event, and the model as arrays."""

import io
import json
import os
from collections.abc import Mapping
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from kem_pymc._system.files import write_atomically
from kem_pymc.errors import InputError

#: Files in the folder.
SETTINGS, EVENTS, MODEL = "lifelong.json", "events.jsonl", "model.npz"

#: Arrays of the file of the model that aren't the method's: the point that was chosen, and when.
CHOSEN, WHEN = "chosen", "when"


class Store:
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
        self._folder = None if out is None else Path(out)
        self._model: dict[str, np.ndarray] = {}
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"The folder {out} can't be written to ({error.strerror}). Choose another."
            ) from error
        self._check(self._folder, dict(options))
        if (self._folder / MODEL).exists():
            try:
                with np.load(self._folder / MODEL, allow_pickle=False) as file:
                    self._model = dict(file)
            except (OSError, ValueError) as error:
                raise InputError(
                    f"{self._folder / MODEL} is damaged. Delete it; the model is then learned anew."
                ) from error

    @staticmethod
    def _check(folder: Path, options: dict[str, Any]) -> None:
        file = folder / SETTINGS
        if not file.exists():
            if any(folder.iterdir()):
                raise InputError(
                    f"The folder {folder} isn't empty and doesn't contain an optimiser. "
                    "Choose another."
                )
            settings = {"kem_pymc": version("kem-pymc"), **options}
            write_atomically(file, (json.dumps(settings, indent=1) + "\n").encode())
            return
        try:
            known = json.loads(file.read_text("utf-8"))
            different = [name for name in options if known[name] != options[name]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{file} is damaged. Start anew in another folder.") from error
        if different:
            what = ", ".join(different)
            raise InputError(
                f"The optimiser in {folder} has other {what}. Choose another folder, or the same "
                f"{what}."
            )

    def events(self) -> list[dict[str, Any]]:
        """Return the events in the file.

        Raises
        ------
        InputError
            If a line but the last is damaged.
        """
        if self._folder is None or not (self._folder / EVENTS).exists():
            return []
        file = self._folder / EVENTS
        *lines, torn = file.read_bytes().split(b"\n")
        found = []
        for number, line in enumerate(lines, start=1):
            try:
                event = json.loads(line)
                if not ("task" in event or "ask" in event or {"tell", "value"} <= set(event)):
                    raise ValueError("unknown event")
            except (ValueError, TypeError, RecursionError) as error:
                raise InputError(
                    f"Line {number} of {file} is damaged. Delete it and the lines after it."
                ) from error
            found.append(event)
        if torn:  # the last line was cut off when the process was killed
            write_atomically(file, b"".join(line + b"\n" for line in lines))
        return found

    def add(self, event: Mapping[str, Any]) -> None:
        """Append an event to the file, durably."""
        if self._folder is None:
            return
        with (self._folder / EVENTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def model(self) -> dict[str, np.ndarray]:
        """Return the state of the method, empty if there is none."""
        return {name: own for name, own in self._model.items() if name not in (CHOSEN, WHEN)}

    def chosen(self, task: int, asked: int) -> list[float] | None:
        """Return the encoded point that was chosen at this place, if the file has it."""
        if WHEN in self._model and self._model[WHEN].tolist() == [task, asked]:
            return self._model[CHOSEN].tolist()
        return None

    def save_model(
        self, state: Mapping[str, np.ndarray], row: np.ndarray, task: int, asked: int
    ) -> None:
        """Write the state of the method, and the point that it chose."""
        if self._folder is None:
            return
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {**state, CHOSEN: row, WHEN: np.array([task, asked])}
        np.savez(buffer, allow_pickle=False, **arrays)
        write_atomically(self._folder / MODEL, buffer.getvalue())
