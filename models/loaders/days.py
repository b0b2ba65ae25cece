"""Functions for the loaders of HeartSteps V1, which read files, and filter and count user-days."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pandas as pd

from kem_pymc.data.datasets import Split
from kem_pymc.data.datasets.files import Folder, read_csv

from .split import Seed, split_table

SOURCE = "https://github.com/klasnja/HeartStepsV1"


class DayCounts(NamedTuple):
    """Numbers of user-days left after each filter."""

    original: int
    nonzero: int
    complete: int
    kept: int


#: The paper's counts. It dropped only days without active minutes, and doesn't state how missing
#: features were imputed.
PAPER_DAYS = DayCounts(1658, 1535, 1535, 1535)

type Callback = Callable[[DayCounts], object] | None


def read_days(
    name: str, data_home: Folder, columns: Sequence[str], numbers: Sequence[str]
) -> pd.DataFrame:
    """Read columns of a file in the folder ``heartsteps`` of the data home.

    Parameters
    ----------
    name : str
        Name of the file.
    data_home : path, optional
        Folder of the data files, see :func:`kem_pymc.data.datasets.data_home`.
    columns : sequence of str
        Columns to read.
    numbers : sequence of str
        Those of the columns that must hold numbers.

    Raises
    ------
    DataFileNotFoundError
        If the file isn't there.
    InputError
        If it isn't a CSV file, lacks a column, or has text or an infinite value among numbers.
    """
    file = f"heartsteps/{name}"
    return read_csv(file, data_home, source=SOURCE, columns=columns, numbers=numbers)


def filtered(
    days: pd.DataFrame,
    features: Sequence[str],
    target: str,
    context: Sequence[str],
    *,
    batch: int,
    minimum: int,
    seed: Seed,
    callback: Callback,
) -> Split:
    """Fill gaps in the context, drop days and users, and split the rest into a study.

    Parameters
    ----------
    days : DataFrame
        One row per user and day, with columns user and day, the features and the target.
    features : sequence of column names
    target : column name
        Days with a missing target are dropped, then those where it is zero.
    context : sequence of column names
        Features whose missing values are replaced by the user's last known ones.
    batch : int
        Days per time step.
    minimum : int
        Number of days that a user needs.
    seed : int or Generator
        Seed of the random choice of pilot users.
    callback : callable, optional
        Called with the :class:`DayCounts`.
    """
    days = days.sort_values(["user", "day"]).reset_index(drop=True)
    days[list(context)] = days.groupby("user")[list(context)].ffill()
    days = days[days[target].notna()]
    nonzero = days[days[target] > 0]
    complete = nonzero[nonzero[list(features)].notna().all(axis=1)]
    kept = complete[complete.groupby("user")["user"].transform("size") >= minimum]
    if callback is not None:
        callback(DayCounts(len(days), len(nonzero), len(complete), len(kept)))
    options = {"batch": batch, "minimum": minimum, "seed": seed}
    return split_table(kept, user="user", features=features, target=target, **options)
