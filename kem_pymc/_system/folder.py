"""Folders of what can be continued: settings, a lock, and logs with a line of JSON per event."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, Self

from kem_pymc._system.files import LOCK, locked, write_atomically
from kem_pymc.errors import InputError


class RunFolder:
    """A folder of something that is continued, if it contains it; without a path nothing happens.

    Parameters
    ----------
    path : path or None
        The folder is created if it is missing.
    what : str
        What the folder contains, such as "search"; for error messages.
    settings : str
        Name of the file of the options.
    options : mapping
        Options that have to be the same when it is continued.

    Raises
    ------
    InputError
        If the folder can't be written to, contains something else, or has other options, or
        another process writes to it.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None,
        what: str,
        settings: str,
        options: Mapping[str, Any],
    ) -> None:
        self.path = None if path is None else Path(path).expanduser()
        self._what = what
        #: Version of kem_pymc that began it.
        self.version = version("kem-pymc")
        with self.locked():
            if self.path is not None:
                self._check(self.path, self.path / settings, dict(options))

    @contextmanager
    def locked(self) -> Iterator[Self]:
        """Lock the folder against other processes.

        Raises
        ------
        InputError
            If another process has locked the folder, or it can't be written to.
        """
        if self.path is None:
            yield self
            return
        busy = f"Another process writes to {self.path}. Wait until it ends, or choose another."
        with locked(self.path, busy):
            yield self

    def log[E](self, name: str, parse: Callable[[Any], E]) -> "Log[E]":
        """Return a log in the folder; see :class:`Log`."""
        return Log(None if self.path is None else self.path / name, parse)

    def _check(self, folder: Path, file: Path, options: dict[str, Any]) -> None:
        """Write the options to an empty folder, or compare them with those in the folder."""
        if not file.exists():
            if any(path.name != LOCK for path in folder.iterdir()):
                raise InputError(
                    f"The folder {folder} isn't empty and doesn't contain a {self._what}. Choose "
                    "another."
                )
            text = json.dumps({"kem_pymc": self.version, **options}, indent=1) + "\n"
            write_atomically(file, text.encode())
            return
        try:
            stored = json.loads(file.read_text("utf-8"))
            different = [name for name in options if stored.get(name) != options[name]]
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            raise InputError(f"{file} is damaged. Start anew in another folder.") from error
        if different:
            names = ", ".join(different)
            raise InputError(
                f"The {self._what} in {folder} is one with different {names}. Choose another "
                f"folder, or the same {names}."
            )
        self.version = str(stored.get("kem_pymc"))[:40]


class Log[E]:
    """Append-only file with one line of JSON for each event; without a path nothing is written.

    Parameters
    ----------
    path : Path or None
    parse : callable
        Function that returns an event, given what its line contains. It raises a ValueError,
        TypeError or LookupError if that isn't an event.

    Raises
    ------
    InputError
        If the file can't be read, or a line is damaged. A last line that was cut off, because the
        process was killed, is removed instead.
    """

    def __init__(self, path: Path | None, parse: Callable[[Any], E]) -> None:
        self.path, self._size = path, 0
        #: The events that were in the file.
        self.events: list[E] = []
        if path is None or not path.exists():
            return
        try:
            *lines, torn = path.read_bytes().split(b"\n")
        except OSError as error:
            raise InputError(
                f"{path} can't be read ({error.strerror}). Restore the file, or choose another "
                "folder."
            ) from error
        for number, line in enumerate(lines, start=1):
            try:
                self.events.append(parse(json.loads(line)))
            except (ValueError, TypeError, LookupError, RecursionError) as error:
                raise InputError(
                    f"Line {number} of {path} is damaged. Delete it and the lines after it."
                ) from error
        if torn:
            write_atomically(path, b"".join(line + b"\n" for line in lines))
        self._size = path.stat().st_size

    def add(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Append events to the file, durably: all of them, or none if an error is raised.

        Apply events after that, not before: what is in memory is in the file then.

        Raises
        ------
        InputError
            If something else has written to the file since it was read, or it can't be written.
        """
        if self.path is None or not events:
            return
        left = "".join(json.dumps(event) + "\n" for event in events).encode()
        try:
            with self.path.open("ab", buffering=0) as file:
                if file.seek(0, os.SEEK_END) != self._size:
                    raise InputError(
                        f"Something else has written to {self.path}. Start anew from the folder, "
                        "or choose another."
                    )
                size = self._size + len(left)
                try:
                    while left:  # a disk that is nearly full takes a part
                        left = left[file.write(left) :]
                    os.fsync(file.fileno())
                except BaseException:
                    file.truncate(self._size)
                    raise
                self._size = size
        except OSError as error:
            raise InputError(
                f"{self.path} can't be written ({error.strerror}), and is as it was. Free some "
                "space, or check the folder."
            ) from error
