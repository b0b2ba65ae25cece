"""A study: users to learn from and users to select kernels for, out of a table of points."""

import zlib
from collections.abc import Sequence
from gzip import BadGzipFile
from os import PathLike
from typing import NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from kem_pymc.cohort import Cohort
from kem_pymc.errors import InputError

type Folder = str | PathLike[str] | None
type Seed = int | np.random.Generator

#: What pandas raises for a file that is no CSV file, or a damaged gzip of one.
UNREADABLE = (ValueError, BadGzipFile, EOFError, zlib.error)


class Study(NamedTuple):
    """A cohort to learn from and one to select kernels for; no user is in both."""

    pilot: Cohort
    test: Cohort


def read_csv(file: PathLike[str], columns: Sequence[str], source: str) -> pd.DataFrame:
    """Read columns of a CSV file, packed or not.

    Parameters
    ----------
    file : path
    columns : sequence of str
        All of them must be there; others aren't read.
    source : str
        Where a person gets the file; told when a column is missing.

    Raises
    ------
    InputError
        If it is no CSV file or lacks a column.
    """
    wanted = set(columns)
    try:
        table = pd.read_csv(file, usecols=lambda name: name in wanted, low_memory=False)
    except UNREADABLE as error:
        raise not_csv(file) from error
    check_header(file, columns, table.columns, source)
    return table


def check_header(
    file: PathLike[str], columns: Sequence[str], found: Sequence[str], source: str
) -> None:
    """Check that a file has these columns.

    Raises
    ------
    InputError
        If one is missing.
    """
    missing = [column for column in columns if column not in found]
    if missing:
        raise InputError(
            f"{_name(file)} has no column {', '.join(missing)}. "
            f"Give the file from {source} with the columns that the loader's help names."
        )


def check_numbers(file: PathLike[str], table: pd.DataFrame, columns: Sequence[str]) -> None:
    """Check that columns hold numbers; gaps are let through.

    Raises
    ------
    InputError
        If one has text or an infinite value.
    """
    for column in columns:
        values = table[column]
        # A column without any value is read as text.
        if values.isna().all():
            continue
        if not is_numeric_dtype(values) or np.isinf(values).any():
            raise InputError(
                f"Column {column} of {_name(file)} isn't all numbers. "
                "Give a file without text in its place."
            )


def not_csv(file: PathLike[str]) -> InputError:
    """Return the refusal of a file that can't be read as CSV."""
    return InputError(f"{_name(file)} is no CSV file. Convert it, with a header.")


def enough(table: pd.DataFrame, user: str, minimum: int) -> pd.DataFrame:
    """Return the rows of users who have at least `minimum` of them."""
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
) -> Study:
    """Cut each user's rows, in their order, into time steps; half of the users are pilot users.

    Parameters
    ----------
    table : DataFrame
        One row per point. Users with fewer than `minimum` rows are left out already.
    user, target : column names
    features : sequence of column names
    batch : int
        Points per time step; a user's last time step may have fewer.
    minimum : int
        Told when too few users are left.
    rng : Generator
        Decides who is a pilot user.

    Raises
    ------
    InputError
        If fewer than 2 users are left, or the batch is no number of points.
    """
    if batch < 1:
        raise InputError(f"batch={batch} is no number of points. Give 1 or more.")
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
    return Study(*cohort.split(rng))


def _name(file: PathLike[str]) -> str:
    return str(file).rpartition("/")[2]
