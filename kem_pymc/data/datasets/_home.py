"""Location of the data files of the papers, which the package neither contains nor downloads."""

import os
from pathlib import Path

from kem_pymc.errors import InputError


class DataFileNotFoundError(FileNotFoundError, InputError):
    """A data file isn't in the data home."""


def data_home(path: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of data files.

    It is `path` if given, else the environment variable ``KEM_DATA``, else ``~/kem_data``. It
    need not exist.
    """
    return Path(path or os.environ.get("KEM_DATA") or "~/kem_data").expanduser()


def find(name: str, path: str | os.PathLike[str] | None = None, *, source: str) -> Path:
    """Return the path of a data file.

    Parameters
    ----------
    name : str
        Path inside the data home, such as ``"uci/concrete.csv"``.
    path : path, optional
        The data home, see :func:`data_home`.
    source : str
        Where to obtain the file; part of the error message if it is missing.

    Raises
    ------
    DataFileNotFoundError
        If there is no such file.
    """
    file = data_home(path) / name
    if not file.is_file():
        raise DataFileNotFoundError(
            f"There is no file {file}. "
            f"Get it from {source}, and point to its folder with data_home= or KEM_DATA."
        )
    return file
