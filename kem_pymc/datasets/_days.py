"""What the loaders of HeartSteps V1 share: filters of user-days, and what is left after each."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from kem_pymc.datasets._home import find
from kem_pymc.datasets._study import Folder, Seed, Study, check_numbers, enough, read_csv, study

SOURCE = "https://github.com/klasnja/HeartStepsV1"


class DayCounts(NamedTuple):
    """User-days left after each filter."""

    original: int
    nonzero: int
    complete: int
    kept: int


#: What the paper counts. It dropped no day but those without active minutes, and doesn't say how
#: gaps in features were filled.
PAPER_DAYS = DayCounts(1658, 1535, 1535, 1535)

type Tell = Callable[[DayCounts], object] | None


def read_days(
    name: str, data_home: Folder, columns: Sequence[str], numbers: Sequence[str]
) -> pd.DataFrame:
    """Read columns of a file of the folder ``heartsteps``; `numbers` are those without text."""
    file = find(f"heartsteps/{name}", data_home, source=SOURCE)
    table = read_csv(file, columns, SOURCE)
    check_numbers(file, table, numbers)
    return table


def filtered(
    days: pd.DataFrame,
    features: Sequence[str],
    target: str,
    context: Sequence[str],
    *,
    batch: int,
    minimum: int,
    seed: Seed,
    tell: Tell,
) -> Study:
    """Fill context from the user's past, drop days and users; days has columns user and day."""
    days = days.sort_values(["user", "day"]).reset_index(drop=True)
    days[list(context)] = days.groupby("user")[list(context)].ffill()
    days = days[days[target].notna()]
    nonzero = days[days[target] > 0]
    complete = nonzero[nonzero[list(features)].notna().all(axis=1)]
    kept = enough(complete, "user", minimum)
    if tell is not None:
        tell(DayCounts(len(days), len(nonzero), len(complete), len(kept)))
    return study(
        kept,
        user="user",
        features=features,
        target=target,
        batch=batch,
        minimum=minimum,
        rng=np.random.default_rng(seed),
    )
