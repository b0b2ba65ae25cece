"""Studies made from tables of points: a pilot cohort to learn from, and a test cohort."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from kem_pymc import Cohort
from kem_pymc.data.datasets import Split
from kem_pymc.errors import InputError

type Seed = int | np.random.Generator


def split_table(
    table: pd.DataFrame,
    *,
    user: str,
    features: Sequence[str],
    target: str,
    batch: int,
    minimum: int,
    seed: Seed,
) -> Split:
    """Divide each user's rows into time steps, and split the users at random into two halves.

    Parameters
    ----------
    table : DataFrame
        One row per point, in order of arrival within each user.
    user, target : column names
    features : sequence of column names
    batch : int
        Number of points per time step; a user's last time step may have fewer.
    minimum : int
        Users with fewer points are left out.
    seed : int or Generator
        Seed of the random choice of pilot users.

    Raises
    ------
    InputError
        If fewer than 2 users are left, or `batch` is less than 1.
    """
    if batch < 1:
        raise InputError("{batch} isn't a valid number of points. Give 1 or more.", batch=batch)
    groups = {u: rows for u, rows in table.groupby(user) if len(rows) >= minimum}
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
    return cohort.split(np.random.default_rng(seed))
