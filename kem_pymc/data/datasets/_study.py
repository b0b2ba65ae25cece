"""Studies made from tables of points: a pilot cohort to learn from, and a test cohort.

Also functions that read and check the CSV files of the loaders.
"""

import zlib
from collections.abc import Sequence
from gzip import BadGzipFile
from os import PathLike

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from kem_pymc.data.cohort import Cohort, Split
from kem_pymc.errors import InputError

type Folder = str | PathLike[str] | None
type Seed = int | np.random.Generator

#: Exceptions that pandas raises for a file that isn't a CSV file, or is a damaged gzip file.
UNREADABLE = (ValueError, BadGzipFile, EOFError, zlib.error)


def read_csv(file: PathLike[str], columns: Sequence[str], source: str) -> pd.DataFrame:
    """Read columns of a CSV file, which may be compressed.

    Parameters
    ----------
    file : path
    columns : sequence of str
        Columns to read, all of which must exist; others aren't read.
    source : str
        Where to obtain the file; part of the error message if a column is missing.

    Raises
    ------
    InputError
        If it isn't a CSV file or lacks a column.
    """
    wanted = set(columns)
    try:
        table = pd.read_csv(file, usecols=lambda name: name in wanted, low_memory=False)
    except UNREADABLE as error:
        raise not_csv(file) from error
    check_header(file, columns, table.columns, source)
    return table


def check_header(
    file: PathLike[str], columns: Sequence[str], header: Sequence[str], source: str
) -> None:
    """Check that a file has the expected columns.

    Parameters
    ----------
    file : path
    columns : sequence of str
        Expected columns.
    header : sequence of str
        Columns of the file.
    source : str
        Where to obtain the file, for the error message.

    Raises
    ------
    InputError
        If a column is missing.
    """
    missing = [column for column in columns if column not in header]
    if missing:
        raise InputError(
            f"{_name(file)} has no column {', '.join(missing)}. "
            f"Give the file from {source} with the columns that the loader's docstring lists."
        )


def check_numbers(file: PathLike[str], table: pd.DataFrame, columns: Sequence[str]) -> None:
    """Check that columns hold numbers or missing values.

    Raises
    ------
    InputError
        If a column has text or an infinite value.
    """
    for column in columns:
        values = table[column]
        # A column without any value may be read as text.
        if values.isna().all():
            continue
        if not is_numeric_dtype(values) or np.isinf(values).any():
            raise InputError(
                f"Column {column} of {_name(file)} has values that aren't finite numbers. "
                "Give a file with numbers or empty cells in this column."
            )


def not_csv(file: PathLike[str]) -> InputError:
    """Return the error to raise for a file that can't be read as CSV."""
    return InputError(f"{_name(file)} isn't a CSV file. Convert it to CSV, with a header.")


def enough(table: pd.DataFrame, user: str, minimum: int) -> pd.DataFrame:
    """Return the rows of users who have at least `minimum` rows."""
    return table[table.groupby(user)[user].transform("size") >= minimum]


def study(
    table: pd.DataFrame,
    *,
    user: str,
    features: Sequence[str],
    target: str,
    batch: int,
    minimum: int,
    rng: np.random.Generator,
) -> Split:
    """Divide each user's rows into time steps, and split the users at random into two halves.

    Parameters
    ----------
    table : DataFrame
        One row per point, in order of arrival within each user. Users with fewer than `minimum`
        rows must have been removed.
    user, target : column names
    features : sequence of column names
    batch : int
        Number of points per time step; a user's last time step may have fewer.
    minimum : int
        Number of points that a user needs, for the error message if too few users are left.
    rng : Generator
        Random number generator for the choice of pilot users.

    Raises
    ------
    InputError
        If fewer than 2 users are left, or `batch` is less than 1.
    """
    if batch < 1:
        raise InputError("{batch} isn't a valid number of points. Give 1 or more.", batch=batch)
    groups = {label: rows for label, rows in table.groupby(user, sort=True) if len(rows)}
    if len(groups) < 2:
        raise InputError(
            f"Users with {minimum} points or more: {len(groups)}, too few to split. "
            "Give more data, a smaller minimum=, or another grouping."
        )
    cohort = Cohort(
        users=tuple(np.array(list(groups)).tolist()),
        inputs=tuple(rows[list(features)].to_numpy(np.float64) for rows in groups.values()),
        targets=tuple(rows[target].to_numpy(np.float64) for rows in groups.values()),
        ends=tuple(
            np.append(np.arange(batch, len(rows), batch), len(rows)) for rows in groups.values()
        ),
        features=tuple(features),
        target=target,
    )
    return cohort.split(rng)


def _name(file: PathLike[str]) -> str:
    return str(file).rpartition("/")[2]
