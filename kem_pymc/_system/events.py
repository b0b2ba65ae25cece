"""Folders with settings and events: one line of JSON for each event, written at once."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

from kem_pymc._system.files import LOCK, locked, write_atomically
from kem_pymc.errors import InputError

#: File of the events.
EVENTS = "events.jsonl"


class EventFolder:
    """Files of something that is continued from its events; without a folder nothing is written.

    Parameters
    ----------
    out : path or None
    what : str
        What the folder contains, such as "optimiser"; for error messages.
    settings : str
        Name of the file of the options.
    options : mapping
        Options that have to be the same when the events are continued.
    known : callable
        Whether an event has the expected keys.

    Raises
    ------
    InputError
        If the folder can't be written to, contains something else, or has other options.
    """

    def __init__(
        self,
        out: str | PathLike[str] | None,
        what: str,
        settings: str,
        options: Mapping[str, Any],
        known: Callable[[Mapping[str, Any]], bool],
    ) -> None:
        self.folder = None if out is None else Path(out).expanduser()
        self._what, self._known = what, known
        self._size = 0
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"The folder {out} can't be written to ({error.strerror}). Choose another."
            ) from error
        self._check(self.folder, self.folder / settings, dict(options))

    def _check(self, folder: Path, file: Path, options: dict[str, Any]) -> None:
        if not file.exists():
            if any(path.name != LOCK for path in folder.iterdir()):
                raise InputError(
                    f"The folder {folder} isn't empty and doesn't contain the files of the "
                    f"{self._what}. Choose another."
                )
            settings = {"kem_pymc": version("kem-pymc"), **options}
            write_atomically(file, (json.dumps(settings, indent=1) + "\n").encode())
            return
        try:
            known = json.loads(file.read_text("utf-8"))
            different = [name for name in options if not _same(known[name], options[name])]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{file} is damaged. Start anew in another folder.") from error
        if different:
            names = ", ".join(different)
            raise InputError(
                f"The {self._what} in {folder} is one with different {names}. Choose another "
                f"folder, or the same {names}."
            )

    def events(self) -> list[dict[str, Any]]:
        """Return the events in the file.

        Raises
        ------
        InputError
            If a line but the last is damaged.
        """
        if self.folder is None or not (self.folder / EVENTS).exists():
            return []
        file = self.folder / EVENTS
        *lines, torn = file.read_bytes().split(b"\n")
        found = []
        for number, line in enumerate(lines, start=1):
            try:
                event = json.loads(line)
                if not self._known(event):
                    raise ValueError("unknown event")
            except (ValueError, TypeError, RecursionError) as error:
                raise InputError(
                    f"Line {number} of {file} is damaged. Delete it and the lines after it."
                ) from error
            found.append(event)
        if torn:  # the last line was cut off when the process was killed
            write_atomically(file, b"".join(line + b"\n" for line in lines))
        self._size = file.stat().st_size
        return found

    def add(self, event: Mapping[str, Any]) -> None:
        """Append an event to the file, durably.

        Raises
        ------
        InputError
            If something else has written to the file meanwhile.
        """
        if self.folder is None:
            return
        with self.current() as folder, (folder / EVENTS).open("ab") as file:
            file.write((json.dumps(event) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
            self._size = file.tell()

    @contextmanager
    def current(self) -> Iterator[Path]:
        """Return the folder while nothing else writes to it.

        Raises
        ------
        InputError
            If something else writes to the folder, or has written to it since the events were read.
        """
        assert self.folder is not None
        other = (
            f"Another {self._what} has written to {self.folder}. Make this one anew from the "
            "folder, or choose another folder for it."
        )
        with locked(self.folder, other):
            file = self.folder / EVENTS
            if (file.stat().st_size if file.exists() else 0) != self._size:
                raise InputError(other)
            yield self.folder


def _same(known: Any, option: Any) -> bool:
    """Return whether an option is the one in the file; in a mapping, the order of names counts."""
    ordered = not isinstance(option, dict) or list(known) == list(option)
    return known == option and ordered
