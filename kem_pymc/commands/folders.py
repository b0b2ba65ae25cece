"""Results appear whole or not at all: a folder or file is written beside its place, then moved."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kem_pymc.errors import InputError

#: What a folder holds that a command wrote.
EVOLUTIONS = "evolutions.json"

#: The setting of evolutions that says in what the chains disagree that they were learned from.
DISAGREE = "chains_disagree"


@contextmanager
def results(
    path: Path, overwrite: bool = False, draft: Path | None = None, marker: str = EVOLUTIONS
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

    Raises
    ------
    InputError
        If the folder can't be used.
    """
    path = path.resolve()
    check(path, overwrite, marker)
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
        if path.exists():
            shutil.rmtree(path)
        draft.rename(path)
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
        If the file exists and may not be overwritten, or its folder can't be written to.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder. Choose a file with --out.")
    if path.exists() and not overwrite:
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
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
