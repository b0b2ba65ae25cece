"""Results appear whole or not at all: a folder or file is written beside its place, then moved.

What came to its place meanwhile stays there: other people and other commands write files too.
"""

import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from kem_pymc.errors import InputError
from kem_pymc.machine import lock

#: What a folder holds that a command wrote.
EVOLUTIONS = "evolutions.json"

#: What a folder of results holds that commands wrote; other files in it are people's own.
WRITTEN = frozenset(
    {
        *(EVOLUTIONS, "evolutions.png", "summary.csv", "settings.json", "study.py"),
        *("posterior.zarr", "final.zarr", "unshared.zarr", "diagnosis", "report.html"),
    }
)

#: Locked in a folder while a command adds to it.
LOCK = ".kem.lock"

#: How long to wait for another command that moves its results to the same folder, in seconds.
PATIENCE = 20.0

#: Of every file in a place, by its path there: inode, size and time of its last change.
Contents = dict[str, tuple[int, int, int]]
#: The setting of evolutions that says in what the chains disagree that they were learned from.
DISAGREE = "chains_disagree"


@contextmanager
def results(
    path: Path,
    overwrite: bool = False,
    draft: Path | None = None,
    marker: str = EVOLUTIONS,
    written: Collection[str] = WRITTEN,
) -> Iterator[Path]:
    """Make a folder of results: yields a folder beside it that takes its place at the end.

    If something fails meanwhile, `path` stays as it was.

    Parameters
    ----------
    path : Path
        Absent or empty, unless it may be overwritten.
    overwrite : bool
        Whether earlier results may be replaced; other people's folders never are.
    draft : Path, optional
        Where to write until then, on the same file system; what a killed process left there is
        deleted. By default a hidden folder beside `path`.
    marker : str
        A file by which earlier results are known.
    written : collection of str
        Names in earlier results that are replaced, or deleted where the new ones lack them. Other
        files and folders stay.

    Raises
    ------
    InputError
        If the folder can't be used, or at the end isn't as it was; then the results are kept beside
        it, in a folder that the message names.
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
            f"The folder {path} can't be made ({error.strerror}). Choose another with --out."
        ) from error
    try:
        yield draft
        _take_place(draft, path, before, written)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check(path: Path, overwrite: bool, marker: str = EVOLUTIONS) -> None:
    """Check that a folder of results may be made here.

    Raises
    ------
    InputError
        If something is there that may not be replaced.
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
            f"The folder {path} holds something else than results. Choose another with --out."
        )


@contextmanager
def result(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Make a file of results: yields a file beside it that takes its place at the end.

    Raises
    ------
    InputError
        If the file exists and may not be overwritten, its folder can't be written to, or at the end
        another file is there; then the results are kept beside it, in a file that the message
        names.
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
        _take_place(draft, path, before)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other commands from a folder that this one adds to, where the system can lock files.

    The folder is made if it isn't there.

    Raises
    ------
    InputError
        If another command is at work in it, or it can't be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("ab")
    except OSError as error:
        raise InputError(
            f"The folder {folder} can't be written to ({error.strerror}). "
            "Choose another with --out."
        ) from error
    with file:
        # Workers may outlive a command that was killed, and write nothing there.
        if not lock(file.fileno(), forks=False):
            raise InputError(
                f"Another command is at work in the folder {folder}. "
                "Wait for it, or choose another with --out."
            )
        yield


def _contents(path: Path) -> Contents | None:
    """Return what is in a folder, or of a file itself; None where nothing is."""
    if not os.path.lexists(path):
        return None
    found: Contents = {}
    for file in path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]:
        with suppress(FileNotFoundError):  # another process deletes there
            about = file.lstat()
            found[str(file.relative_to(path))] = about.st_ino, about.st_size, about.st_mtime_ns
    return found


def _take_place(
    draft: Path, path: Path, before: Contents | None, written: Collection[str] = ()
) -> None:
    """Move a draft to its place, and what was there before away, but for what nothing here wrote.

    Raises
    ------
    InputError
        If something else is there by now. It stays, and the draft is kept beside it.
    """
    with _moving(path.parent):
        aside = path.with_name(f".{path.name}.{os.getpid()}.old")
        try:
            if before is not None and os.path.lexists(path):
                path.rename(aside)  # what is looked at from now on can't change by its name
                if _contents(aside) != before:
                    raise FileExistsError(path)
            _move(draft, path)
        except OSError as error:
            if os.path.lexists(aside):
                _move(aside, path)
            kept = _kept_beside(draft, path)
            changed = isinstance(error, FileExistsError)
            what = "isn't as it was when the command began" if changed else "can't be replaced"
            reason = "" if changed else f" ({error.strerror})"
            raise InputError(
                f"{path} {what}{reason}, so it was left as it is. "
                f"The results are in {kept}: move them to their place."
            ) from error
        if aside.is_dir() and not aside.is_symlink():
            for name in {*os.listdir(aside)} - {*written, *os.listdir(path)}:
                _move(aside / name, path / name)
            shutil.rmtree(aside)
        else:
            aside.unlink(missing_ok=True)


def _kept_beside(draft: Path, path: Path) -> Path:
    """Move a draft to the first free name beside its place."""
    for number in count(2):
        kept = path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            _move(draft, kept)
        except FileExistsError:
            continue
        return kept
    raise AssertionError


def _move(source: Path, target: Path) -> None:
    """Move a file or folder to where nothing is.

    Raises
    ------
    FileExistsError
        If something is there, an empty folder apart.
    """
    if source.is_dir() and not source.is_symlink():
        try:
            source.rename(target)
        except OSError as error:  # which of several it is depends on the system
            if os.path.lexists(target):
                raise FileExistsError(target) from error
            raise
        return
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(target):
            raise FileExistsError(target) from None
        source.rename(target)
    else:
        source.unlink()


@contextmanager
def _moving(folder: Path) -> Iterator[None]:
    """Keep other commands from moving results to places in a folder meanwhile."""
    if os.name != "posix":  # other systems don't open folders
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        until = time.monotonic() + PATIENCE
        while not lock(descriptor, forks=True) and time.monotonic() < until:
            time.sleep(0.05)  # moves are atomic: without the lock too nothing is lost
        yield
    finally:
        os.close(descriptor)
