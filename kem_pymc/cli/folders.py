"""Folders and files of results, which appear whole or not at all: as drafts that are moved at last.

Where something else came to their place meanwhile, it stays, and the results are put beside it.
"""

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kem_pymc._system import files
from kem_pymc._system.files import LOCK as LOCK
from kem_pymc._system.spreadsheet import write_table as write_table
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: File that marks a folder as results, and that contains the learned evolutions.
EVOLUTIONS = "evolutions.json"

#: Names that commands write to a folder of results; all other files in it are the user's.
WRITTEN = frozenset(
    {
        *(EVOLUTIONS, "evolutions.png", "summary.csv", "settings.json", "study.py"),
        *("posterior.zarr", "final.zarr", "unshared.zarr", "effects", "diagnosis", "report.html"),
    }
)


def results(
    path: Path,
    overwrite: bool = False,
    draft: Path | None = None,
    marker: str = EVOLUTIONS,
    written: Collection[str] = WRITTEN,
) -> AbstractContextManager[Path]:
    """Make a folder of results: a context of a draft folder, which is moved to `path` at the end.

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

    Raises
    ------
    InputError
        If the folder can't be used, or can't be replaced at the end because of what came there or
        because an operation failed; then the results are kept next to it, in a folder that the
        message names.
    """
    path = path.resolve()
    folder = _hidden(path) if draft is None else draft

    def make() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    may = partial(check, path, overwrite, marker)
    return _drafted(path, folder, may, make, partial(_replace, folder, path, written))


def check(path: Path, overwrite: bool, marker: str = EVOLUTIONS) -> None:
    """Check that a folder of results may be written to a path.

    Raises
    ------
    InputError
        If the path is a file, or a folder whose contents may not be replaced.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file. Choose a folder with --out.")
    if not path.exists() or {*os.listdir(path)} <= {LOCK}:
        return
    if not overwrite:
        raise InputError(
            f"The folder {path} isn't empty. Choose another with --out, or add --overwrite."
        )
    if not (path / marker).exists():
        raise InputError(
            f"The folder {path} isn't empty and doesn't contain results. Choose another with --out."
        )


def result(path: Path, overwrite: bool = False) -> AbstractContextManager[Path]:
    """Make a file of results: a context of a draft file, which is moved to `path` at the end.

    Raises
    ------
    InputError
        If `path` is a folder, the file exists and may not be overwritten, or its folder can't be
        written to. If another file came there meanwhile, the results are kept next to it, in a file
        that the message names.
    """
    draft, may = _hidden(path), partial(_check_file, path, overwrite)
    return _drafted(path, draft, may, draft.touch, partial(draft.replace, path))


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


def _check_file(path: Path, overwrite: bool) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a folder. Choose a file with --out.")
    if path.exists() and not overwrite:
        raise InputError(f"The file {path} exists. Choose another with --out, or add --overwrite.")


def _hidden(path: Path) -> Path:
    return path.parent / f".{path.name}.{os.getpid()}"  # "." has no other name


def _replace(draft: Path, path: Path, written: Collection[str]) -> None:
    """Move a draft to its folder; what is there is deleted if it is in `written`, or else kept."""
    if not path.exists():
        draft.rename(path)
        return
    aside = path.with_name(f".{path.name}.{os.getpid()}.old")
    path.rename(aside)
    try:
        draft.rename(path)
    except OSError:
        aside.rename(path)
        raise
    for name in {*os.listdir(aside)} - {*written, *os.listdir(path)}:
        (aside / name).rename(path / name)
    shutil.rmtree(aside)


@contextmanager
def _drafted(
    path: Path,
    draft: Path,
    may: Callable[[], None],
    make: Callable[[], None],
    move: Callable[[], Any],
) -> Iterator[Path]:
    """Make and yield a draft, and move it to `path`, or else to the first free name next to it.

    `may` checks that something may be written to `path`, before and after.
    """
    may()
    try:
        make()
    except OSError as error:
        raise InputError(
            f"{path} can't be written ({error.strerror}). Choose another with --out."
        ) from error
    try:
        yield draft
        try:
            may()
            move()
        except (InputError, OSError) as error:
            names = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
            kept = next(name for name in names if not os.path.lexists(name))
            draft.rename(kept)
            raise InputError(
                f"{path} was left unchanged, since something came there while the command was "
                f"running, or it can't be replaced. The results are in {kept}. Move them to where "
                "you need them."
            ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        if draft.is_file():
            draft.unlink()


def save_figure(axes: "Axes", file: Path) -> None:
    """Save the figure of axes as a picture, and close it."""
    from kem_pymc.plots import style

    figure: Any = axes.figure.get_figure(root=True)
    figure.savefig(file, dpi=150, bbox_inches="tight")
    style.close(figure)
