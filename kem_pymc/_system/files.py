"""Files that appear whole or not at all, and locks against other processes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kem_pymc._system.resources import lock
from kem_pymc.errors import InputError

#: File that is locked in a folder while a process adds to the folder.
LOCK = ".kem.lock"


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Lock a file, which is created if it is missing, against other processes.

    There is no lock on systems that can't lock files.

    Raises
    ------
    InputError
        If another process has locked the file, with the text `busy`.
    OSError
        If the file can't be opened for writing.
    """
    with path.open("ab") as file:
        if not lock(file.fileno()):
            raise InputError(busy)
        yield


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file: if the process or machine fails meanwhile, an earlier file stays as it was.

    Raises
    ------
    OSError
        If the folder is missing or can't be written to, or the disk is full.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make a rename durable across a power failure, on systems on which folders can be opened."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
