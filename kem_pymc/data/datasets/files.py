"""Data files, which the package neither contains nor downloads: their folder, and reading them."""

import os
import zlib
from collections.abc import Sequence
from gzip import BadGzipFile
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from kem_pymc._system.options import checked
from kem_pymc.errors import InputError

type Folder = str | os.PathLike[str] | None

#: Exceptions that pandas raises for a file that isn't a CSV file, or is a damaged gzip file.
UNREADABLE = (ValueError, BadGzipFile, EOFError, zlib.error)


class DataFileNotFoundError(FileNotFoundError, InputError):
    """A data file isn't in the data home."""


@checked
def data_home(path: Folder = None) -> Path:
    """Return the folder of data files.

    It is `path` if given, else the environment variable ``KEM_DATA``, else ``~/kem_data``. It
    need not exist.
    """
    return Path(path or os.environ.get("KEM_DATA") or "~/kem_data").expanduser()


@checked
def find_file(name: str, path: Folder = None, *, source: str) -> Path:
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
    if not os.path.isfile(file):
        raise DataFileNotFoundError(
            f"There is no file {file}. "
            f"Get it from {source}, and point to its folder with data_home= or KEM_DATA."
        )
    return file


@checked
def read_csv(
    name: str,
    path: Folder = None,
    *,
    source: str,
    columns: Sequence[str],
    numbers: Sequence[str] = (),
    complete: bool = False,
) -> pd.DataFrame:
    """Read columns of a data file in CSV, which may be compressed.

    Parameters
    ----------
    name, path, source
        As for :func:`find_file`.
    columns : sequence of str
        Columns to read, all of which must exist; others aren't read.
    numbers : sequence of str
        Those of the columns that must hold finite numbers or missing values.
    complete : bool
        Whether no value may be missing.

    Raises
    ------
    DataFileNotFoundError
        If there is no such file.
    InputError
        If it isn't a CSV file, lacks a column, has text or an infinite value among numbers, or a
        missing value in a complete table.
    """
    file, wanted = find_file(name, path, source=source), set(columns)
    try:
        table = pd.read_csv(file, usecols=lambda column: column in wanted, low_memory=False)
    except UNREADABLE as error:
        raise not_csv(file) from error
    check_header(file, columns, table.columns, source)
    for column in numbers:
        values = table[column]
        # A column without any value may be read as text.
        if values.isna().all():
            continue
        if not is_numeric_dtype(values) or np.isinf(values).any():
            raise InputError(
                f"Column {column} of {file.name} has values that aren't finite numbers. "
                "Give a file with numbers or empty cells in this column."
            )
    gaps = table.columns[table.isna().any()]
    if complete and len(gaps):
        raise InputError(
            f"Column {gaps[0]} of {file.name} has missing values. Give the complete file."
        )
    return table


def check_header(file: Path, columns: Sequence[str], header: Sequence[str], source: str) -> None:
    """Check that the header of a file has the expected columns.

    Raises
    ------
    InputError
        If a column is missing; the message says that the file is from `source`.
    """
    missing = [column for column in columns if column not in header]
    if missing:
        raise InputError(
            f"{file.name} has no column {', '.join(missing)}. "
            f"Give the file from {source} with the columns that the loader's docstring lists."
        )


def not_csv(file: Path | str) -> InputError:
    """Return the error to raise for a file that can't be read as CSV."""
    return InputError(f"{Path(file).name} isn't a CSV file. Convert it to CSV, with a header.")
