"""Files that appear whole or not at all, and locks against other processes."""

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kem_pymc._system.resources import lock
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from pydantic import ConfigDict, ValidationError

#: Options of all schemas by which Pydantic checks what a file contains.
STRICT: "ConfigDict" = {
    "extra": "forbid",
    "frozen": True,
    "strict": True,
    "allow_inf_nan": False,
}

#: File that is locked in a folder while a process adds to the folder.
LOCK = ".kem.lock"

#: Parts of Pydantic's locations of errors that aren't in the file: tags and types of unions.
TAGS = ("list", "number", "prior", "int", "float", "constrained-str")


@contextmanager
def locked(
    folder: Path, busy: str, name: str = LOCK, remedy: str = "Choose another."
) -> Iterator[None]:
    """Lock a folder, which is created if it is missing, against other processes.

    There is no lock on systems that can't lock files.

    Parameters
    ----------
    folder : Path
    busy : str
        Message if another process has locked the folder.
    name : str
        Name of the file in the folder that is locked.
    remedy : str
        What to do if the folder can't be written to, for the message.

    Raises
    ------
    InputError
        If another process has locked the folder, or it can't be written to.
    """
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context((folder / name).open("ab"))
        except (OSError, ValueError) as error:  # the latter of null characters
            why = getattr(error, "strerror", error)
            raise InputError(
                f"The folder {folder} can't be written to ({why}). {remedy}"
            ) from error
        if not lock(file.fileno()):
            raise InputError(busy)
        yield


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file: if the process or machine fails meanwhile, an earlier file stays as it was.

    Raises
    ------
    OSError
        If the folder is missing or can't be written to, the disk is full, or the path can't be that
        of a file.
    """
    if not path.name or "\0" in str(path):  # Python has errors of another kind for these
        raise OSError(errno.EINVAL, "it isn't the path of a file")
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


def read_part_of_run[T](kind: type[T], file: Path, schema_version: int, *names: str) -> T:
    """Return what a JSON file of a run contains.

    Parameters
    ----------
    kind : type
        Class that Pydantic makes of the contents.
    file : Path
    schema_version : int
        Version of the format.
    *names : str
        Where the file has the version of kem_pymc, see :func:`written_by`.

    Raises
    ------
    InputError
        If the file can't be read, has another format, or an invalid entry.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        data = json.loads(file.read_text("utf-8"))
        version = data["schema_version"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise InputError(f"{file} can't be read. Restore the file.") from error
    if version != schema_version:
        raise InputError(
            f"{file} has format {ascii(version)[:40]}, not {schema_version}. Resume the run with "
            f"the version of kem_pymc that began it{written_by(data, *names)}."
        )
    try:
        return TypeAdapter(kind).validate_json(json.dumps(data))
    except ValidationError as error:
        raise InputError(
            f"{file} isn't a valid file of a run ({first_fault(error)}). Restore the file."
        ) from error


def first_fault(error: "ValidationError") -> str:
    """Return the first fault that Pydantic found in a file, as text for messages.

    It names the entry, like ``its entry clusters[3].count: Input should be ...``.
    """
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    what = first["msg"].removeprefix("Value error, ").rstrip(".").replace(". ", ", ")
    where = place(first["loc"])
    return f"its entry {where}: {what}" if where else f"it {what}"


def place(loc: tuple[int | str, ...]) -> str:
    """Return the location of an entry in a file as text, like ``clusters[3].count``."""
    parts = (part for part in loc if part not in TAGS)
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return text.removeprefix(".")[:200].encode("utf-8", "replace").decode()


def written_by(data: Any, *names: str) -> str:
    """Return the version of kem_pymc in the entry of a file that has it, as text for messages.

    `names` are those of the entries that contain one another; the last one has the version. The
    text is "" if there is no version, or if it doesn't look like one.
    """
    for name in names:
        data = data.get(name) if isinstance(data, dict) else None
    sound = isinstance(data, str) and re.fullmatch(r"[\w.+]{1,40}", data)
    return f" ({data})" if sound else ""
