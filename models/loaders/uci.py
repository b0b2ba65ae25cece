"""Loaders of the four UCI studies (table 1, section 10.2.2), whose users consist of random rows.

Each loader reads one CSV file from the folder ``uci`` of the data home, assigns random rows to
users in random order of arrival, and splits the users at random into pilot and test users. Values
are in raw units; :meth:`kem_pymc.data.scaling.Scaling.unit` of the pilot cohort scales them.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from kem_pymc import Cohort
from kem_pymc.data.datasets import Split
from kem_pymc.data.datasets.files import Folder, read_csv
from kem_pymc.errors import InputError

from .split import Seed, split_table

ENERGY = (
    "relative_compactness",
    "surface_area",
    "wall_area",
    "roof_area",
    "overall_height",
    "orientation",
    "glazing_area",
    "glazing_area_distribution",
)
HOUSING = (
    *("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE"),
    *("DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT"),
)
FIRES = ("day", "month", "Temperature", "RH", "Ws", "Rain", "FFMC", "DMC", "DC")
CONCRETE = (
    "cement",
    "blast_furnace_slag",
    "fly_ash",
    "water",
    "superplasticizer",
    "coarse_aggregate",
    "fine_aggregate",
    "age_days",
)
#: Target in each region of Algeria.
FIRE_INDEX = {"Bejaia": "BUI", "Sidi-Bel Abbes": "ISI"}


def energy(data_home: Folder = None, seed: Seed = 0, *, batch: int = 5) -> Split:
    """Load the energy efficiency study: 15 users of 50 buildings each, 7 of them pilot users.

    The target is ``heating_load`` (kWh/m^2), from 8 features of the building. File
    ``uci/energy_efficiency.csv``: UCI's X1 to X8 and Y1 under the names in ``ENERGY`` and
    ``heating_load``.

    Parameters
    ----------
    data_home : path, optional
        Folder of the data files, see :func:`kem_pymc.data.datasets.data_home`.
    seed : int or Generator
        Seed of the random assignment of rows to users, and of the choice of pilot users.
    batch : int
        Number of points per time step.

    Raises
    ------
    DataFileNotFoundError
        If the file isn't there.
    InputError
        If the file lacks columns or rows, has text or missing values, or `batch` is less than 1.
    """
    source = "https://archive.ics.uci.edu/dataset/242"
    columns = (*ENERGY, "heating_load")
    table = read_csv(
        "uci/energy_efficiency.csv",
        data_home,
        source=source,
        columns=columns,
        numbers=columns,
        complete=True,
    )
    options = {"users": range(15), "points": 50, "batch": batch, "seed": seed}
    return _study(table, ENERGY, "heating_load", **options)


def housing(data_home: Folder = None, seed: Seed = 0, *, batch: int = 5) -> Split:
    """Load the Boston housing study: 10 users of 50 tracts each, 5 of them pilot users.

    The target is ``MEDV`` (median price in 1000 USD), from 13 features. File
    ``uci/boston_housing.csv``: the published columns, CRIM to LSTAT and MEDV. Parameters and
    errors are those of :func:`energy`.
    """
    source = "http://lib.stat.cmu.edu/datasets/boston"
    columns = (*HOUSING, "MEDV")
    table = read_csv(
        "uci/boston_housing.csv",
        data_home,
        source=source,
        columns=columns,
        numbers=columns,
        complete=True,
    )
    options = {"users": range(10), "points": 50, "batch": batch, "seed": seed}
    return _study(table, HOUSING, "MEDV", **options)


def concrete(data_home: Folder = None, seed: Seed = 0, *, batch: int = 5) -> Split:
    """Load the concrete study: 20 users of 50 mixtures each, 10 of them pilot users.

    The target is ``strength_mpa`` (compressive strength, MPa), from 7 ingredients (kg/m^3) and the
    age in days. File ``uci/concrete.csv``: UCI's columns, in its order, under the names in
    ``CONCRETE`` and ``strength_mpa``. Parameters and errors are those of :func:`energy`.
    """
    source = "https://archive.ics.uci.edu/dataset/165"
    columns = (*CONCRETE, "strength_mpa")
    table = read_csv(
        "uci/concrete.csv",
        data_home,
        source=source,
        columns=columns,
        numbers=columns,
        complete=True,
    )
    options = {"users": range(20), "points": 50, "batch": batch, "seed": seed}
    return _study(table, CONCRETE, "strength_mpa", **options)


def fires(data_home: Folder = None, seed: Seed = 0, *, batch: int = 5) -> Split:
    """Load the Algerian forest fires study: 8 users of 30 days each, 4 of them pilot users.

    Four users come from each region, two of them pilot users. The target ``index`` is the one that
    the paper predicts in each region: the Build Up Index in Bejaia, the Initial Spread Index in
    Sidi-Bel Abbes.

    Of the file's 15 columns (table 1 counts them as features) 9 are used: day, month, Temperature,
    RH, Ws (wind speed), Rain, FFMC, DMC and DC. Region and year don't vary within a user; ISI and
    BUI are the targets, FWI is computed from both and Classes is derived from FWI. The 9 features
    still determine the targets almost completely (BUI by DMC and DC, ISI by FFMC and wind), as in
    the paper, which calls this a simple task of low noise.

    Table 1 has 10 time steps for 30 points, which corresponds to ``batch=3``. File
    ``uci/algerian_forest_fires.csv``: UCI's columns, with its two tables concatenated and
    distinguished by a first column ``region``. Parameters and errors are those of :func:`energy`.
    """
    source = "https://archive.ics.uci.edu/dataset/547"
    columns = (*FIRES, *FIRE_INDEX.values())
    table = read_csv(
        "uci/algerian_forest_fires.csv",
        data_home,
        source=source,
        columns=("region", *columns),
        numbers=columns,
        complete=True,
    )
    if set(table["region"]) != set(FIRE_INDEX):
        raise InputError(
            f"Column region of the forest fires has the values {sorted(set(table['region']))}. "
            f"Rename the regions to {' and '.join(FIRE_INDEX)}."
        )
    rng = np.random.default_rng(seed)
    halves = [
        _study(
            table[table["region"] == region].rename(columns={index: "index"}),
            FIRES,
            "index",
            users=[f"{region} {u}" for u in range(4)],
            points=30,
            batch=batch,
            seed=rng,
        )
        for region, index in FIRE_INDEX.items()
    ]
    return Split(*(_join(first, second) for first, second in zip(*halves, strict=True)))


def _study(
    table: pd.DataFrame,
    features: Sequence[str],
    target: str,
    *,
    users: Sequence[Hashable],
    points: int,
    batch: int,
    seed: Seed,
) -> Split:
    """Assign random rows to users; half of the users, rounded down, are pilot users."""
    needed = len(users) * points
    if len(table) < needed:
        raise InputError(
            f"There are {len(table)} rows for {len(users)} users of {points} points. "
            "Give the complete file."
        )
    rng = np.random.default_rng(seed)
    rows = table.iloc[rng.permutation(len(table))[:needed]].assign(user=np.repeat(users, points))
    options = {"batch": batch, "minimum": points, "seed": rng}
    return split_table(rows, user="user", features=features, target=target, **options)


def _join(first: Cohort, second: Cohort) -> Cohort:
    parts = ("users", "inputs", "targets", "ends")
    return replace(first, **{name: getattr(first, name) + getattr(second, name) for name in parts})
