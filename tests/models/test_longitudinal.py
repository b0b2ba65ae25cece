"""R's longitudinal tables: rows in order of time, a time step each, and who is a pilot user."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from kem_pymc.data.datasets import DataFileNotFoundError, Split
from kem_pymc.errors import InputError
from models.loaders import (
    body_weight,
    chick_weight,
    orthodont,
    oxboys,
    pbcseq,
    sleepstudy,
    theoph,
)
from tests.data_home import needs


class Case(NamedTuple):
    """Columns of a table, and what its real file holds."""

    loader: Callable[..., Split]
    file: str
    columns: tuple[str, str, str]
    users: int
    rows: int
    unit: Callable[[float], float] = float


CASES = [
    Case(sleepstudy, "sleepstudy.csv", ("Subject", "Days", "Reaction"), 18, 180),
    Case(chick_weight, "ChickWeight.csv", ("Chick", "Time", "weight"), 50, 578),
    Case(orthodont, "Orthodont.csv", ("Subject", "age", "distance"), 27, 108),
    Case(theoph, "Theoph.csv", ("Subject", "Time", "conc"), 12, 132),
    Case(body_weight, "BodyWeight.csv", ("Rat", "Time", "weight"), 16, 176),
    Case(oxboys, "Oxboys.csv", ("Subject", "age", "height"), 26, 234),
    Case(pbcseq, "pbcseq.csv", ("id", "day", "bili"), 285, 1918, np.log),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.loader.__name__)


def fake(case):
    """Four users of three rows, a fifth of one; rows and users in no order."""
    user, time, target = case.columns
    table = pd.DataFrame({user: np.repeat([30, 20, 10, 40], 3), time: [2.0, 0.5, 0.0] * 4})
    table[target] = table[user] + table[time]
    table.loc[len(table)] = [50, 0.0, 50.0]
    return table.assign(rownames=range(13), Sex="Male")


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a table and loads it."""
    (tmp_path / "longitudinal").mkdir()

    def written(case, table, **options):
        table.to_csv(tmp_path / "longitudinal" / case.file, index=False)
        return case.loader(tmp_path, **options)

    return written


@each_case
def test_rows_are_time_steps_in_order_of_time(case, write):
    """Fails where rows stay as the file has them, or a user without a next row is kept."""
    study = write(case, fake(case))
    assert sorted(study.pilot.users + study.test.users) == [10, 20, 30, 40]
    assert len(study.pilot) == len(study.test) == 2
    for cohort in study:
        assert (*cohort.features, cohort.target) == case.columns[1:]
        for user, x, y, ends in zip(
            cohort.users, cohort.inputs, cohort.targets, cohort.ends, strict=True
        ):
            assert x[:, 0].tolist() == [0.0, 0.5, 2.0]
            assert y.tolist() == [case.unit(value) for value in (user, user + 0.5, user + 2.0)]
            assert ends.tolist() == [1, 2, 3]


def test_the_seed_decides_who_is_a_pilot_user(write):
    pilots = {write(CASES[0], fake(CASES[0]), seed=seed).pilot.users for seed in range(8)}
    assert len(pilots) > 1
    assert write(CASES[0], fake(CASES[0]), batch=2).pilot.ends[0].tolist() == [2, 3]


def test_wrong_files_are_refused(write, tmp_path):
    case, table = CASES[2], fake(CASES[2])
    with pytest.raises(DataFileNotFoundError, match=r"Orthodont\.csv"):
        case.loader(tmp_path)
    gap = table["distance"].where(table.index != 3)
    for wrong in (
        table.assign(distance=gap),
        table.assign(distance="far"),
        table.drop(columns="distance"),
    ):
        with pytest.raises(InputError, match="distance"):
            write(case, wrong)


@needs("longitudinal")
@each_case
def test_real_tables(case):
    study = case.loader()
    assert sum(len(cohort) for cohort in study) == case.users
    assert sum(cohort.n_points for cohort in study) == case.rows
