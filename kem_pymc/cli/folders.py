"""Write folders and files of results atomically: to a draft next to the target, then moved.

If another user or command changed the target in the meantime, the target is left as it is.
"""

import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count
from pathlib import Path

from kem_pymc._system import files
from kem_pymc._system.files import LOCK as LOCK
from kem_pymc._system.resources import lock
from kem_pymc.errors import InputError

#: File that marks a folder as results, and that contains the learned evolutions.
EVOLUTIONS = "evolutions.json"

#: Names that commands write to a folder of results; all other files in it are the user's.
WRITTEN = frozenset(
    {
        *(EVOLUTIONS, "evolutions.png", "summary.csv", "settings.json", "study.py"),
        *("posterior.zarr", "final.zarr", "unshared.zarr", "diagnosis", "report.html"),
    }
)

#: Seconds to wait for another command that moves its results to the same folder.
PATIENCE = 20.0

#: Inode, size and time of the last change of every file in a folder, by relative path.
Contents = dict[str, tuple[int, int, int]]
#: Setting of evolutions that states in what the chains disagree from which they were learned.
DISAGREE = "chains_disagree"


@contextmanager
def results(
    path: Path,
    overwrite: bool = False,
    draft: Path | None = None,
    marker: str = EVOLUTIONS,
    written: Collection[str] = WRITTEN,
) -> Iterator[Path]:
    """Make a folder of results: yield a draft folder that is moved to `path` at the end.

    If an error is raised in between, `path` is left as it was.

    Parameters
    ----------
    path : Path
        Folder of the results. It must be absent or empty, unless `overwrite` is true.
    overwrite : bool
        Whether earlier results may be replaced; folders without the marker never are.
    draft : Path, optional
        Folder to write to, on the same file system; files that a killed process left there are
        deleted. By default a hidden folder next to `path`.
    marker : str
        Name of the file that marks a folder as earlier results.
    written : collection of str
        Names in earlier results that are replaced, or deleted if the new results lack them. Other
        files and folders are kept.

    Yields
    ------
    Path
        The draft folder.

    Raises
    ------
    InputError
        If the folder can't be used, or can't be replaced at the end because it was changed or an
        operation failed; then the results are kept next to it, in a folder that the message names.
    """
    path = path.resolve()
    check(path, overwrite, marker)
    before = _contents(path)
    if draft is None:
        draft = path.with_name(f".{path.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
    except OSError as error:
        raise InputError(
            f"The folder {path} can't be created ({error.strerror}). Choose another with --out."
        ) from error
    try:
        yield draft
        replace_atomically(draft, path, before, written)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check(path: Path, overwrite: bool, marker: str = EVOLUTIONS) -> None:
    """Check that a folder of results may be written to a path.

    Raises
    ------
    InputError
        If the path is a file, or a folder whose contents may not be replaced.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file. Choose a folder with --out.")
    if not path.exists() or not any(path.iterdir()):
        return
    if not overwrite:
        raise InputError(
            f"The folder {path} isn't empty. Choose another with --out, or add --overwrite."
        )
    if not (path / marker).is_file():
        raise InputError(
            f"The folder {path} isn't empty and doesn't contain results. Choose another with --out."
        )


@contextmanager
def result(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Make a file of results: yield a draft file that is moved to `path` at the end.

    Raises
    ------
    InputError
        If `path` is a folder, the file exists and may not be overwritten, its folder can't be
        written to, or the file was changed in the meantime; in the last case the results are kept
        next to it, in a file that the message names.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder. Choose a file with --out.")
    before = _contents(path)
    if before is not None and not overwrite:
        raise InputError(f"The file {path} exists. Choose another with --out, or add --overwrite.")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.touch()
    except OSError as error:
        raise InputError(
            f"The file {path} can't be written ({error.strerror}). Choose another with --out."
        ) from error
    try:
        yield draft
        replace_atomically(draft, path, before)
    finally:
        draft.unlink(missing_ok=True)


def locked(folder: Path) -> AbstractContextManager[None]:
    """Lock a folder against other commands while this one adds to it.

    The folder is created if it doesn't exist. If the system can't lock files, there is no lock.

    Raises
    ------
    InputError
        If another command has locked the folder, or it can't be written to.
    """
    busy = (
        f"Another command is using the folder {folder}. "
        "Wait until it ends, or choose another with --out."
    )
    return files.locked(folder, busy, remedy="Choose another with --out.")


def _contents(path: Path) -> Contents | None:
    """Return the state of every file in a folder, or of a single file; None if it is absent."""
    if not os.path.lexists(path):
        return None
    contents: Contents = {}
    for file in path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]:
        with suppress(FileNotFoundError):  # another process may delete files there
            about = file.lstat()
            contents[str(file.relative_to(path))] = about.st_ino, about.st_size, about.st_mtime_ns
    return contents


def replace_atomically(
    draft: Path, path: Path, before: Contents | None, written: Collection[str] = ()
) -> None:
    """Move a draft to its target, replacing earlier results; files not in `written` are kept.

    Raises
    ------
    InputError
        If the target was changed in the meantime or can't be replaced. The target is left as it
        is, and the draft is kept next to it.
    """
    with _moving(path.parent):
        aside = path.with_name(f".{path.name}.{os.getpid()}.old")
        try:
            if before is not None and os.path.lexists(path):
                path.rename(aside)  # other processes can't change it by its path any more
                if _contents(aside) != before:
                    raise FileExistsError(path)
            _move(draft, path)
        except OSError as error:
            if os.path.lexists(aside):
                _move(aside, path)
            kept = save_aside(draft, path)
            changed = isinstance(error, FileExistsError)
            what = "was changed while the command was running" if changed else "can't be replaced"
            reason = "" if changed else f" ({error.strerror})"
            raise InputError(
                f"{path} {what}{reason}, so it was left unchanged. "
                f"The results are in {kept}. Move them to where you need them."
            ) from error
        if aside.is_dir() and not aside.is_symlink():
            for name in {*os.listdir(aside)} - {*written, *os.listdir(path)}:
                _move(aside / name, path / name)
            shutil.rmtree(aside)
        else:
            aside.unlink(missing_ok=True)


def save_aside(draft: Path, path: Path) -> Path:
    """Move a draft to the first free name next to its target, and return the new path."""
    for number in count(2):
        kept = path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            _move(draft, kept)
        except FileExistsError:
            continue
        return kept
    raise AssertionError


def _move(source: Path, target: Path) -> None:
    """Move a file or folder to a path that doesn't exist yet.

    Raises
    ------
    FileExistsError
        If the path exists; a folder may replace an empty folder.
    """
    if source.is_dir() and not source.is_symlink():
        try:
            source.rename(target)
        except OSError as error:  # the type for an existing target depends on the system
            if os.path.lexists(target):
                raise FileExistsError(target) from error
            raise
        return
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # the file system has no hard links
        if os.path.lexists(target):
            raise FileExistsError(target) from None
        source.rename(target)
    else:
        source.unlink()


@contextmanager
def _moving(folder: Path) -> Iterator[None]:
    """Lock a folder so that other commands don't move results into it at the same time."""
    if os.name != "posix":  # other systems can't open folders
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        until = time.monotonic() + PATIENCE
        while not lock(descriptor) and time.monotonic() < until:
            time.sleep(0.05)  # moves are atomic: nothing is lost without the lock
        yield
    finally:
        os.close(descriptor)
