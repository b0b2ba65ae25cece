"""The four UCI studies: table 1 of the paper, rows that stay whole, and files that are refused."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from kem_pymc.data.datasets import DataFileNotFoundError, Split
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from models.loaders import concrete, energy, fires, housing
from models.loaders.uci import CONCRETE, ENERGY, FIRES, HOUSING
from tests.data_home import needs


class Case(NamedTuple):
    """What table 1 says of a study, the size of its file, and the range of its targets."""

    loader: Callable[..., Split]
    file: str
    features: tuple[str, ...]
    target: str
    rows: int
    users: int
    pilot: int
    points: int
    low: float
    high: float


CASES = [
    Case(energy, "energy_efficiency.csv", ENERGY, "heating_load", 768, 15, 7, 50, 6, 44),
    Case(housing, "boston_housing.csv", HOUSING, "MEDV", 506, 10, 5, 50, 5, 50),
    Case(concrete, "concrete.csv", CONCRETE, "strength_mpa", 1030, 20, 10, 50, 2, 83),
    Case(fires, "algerian_forest_fires.csv", FIRES, "index", 244, 8, 4, 30, 0, 68),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.loader.__name__)


def fake(case):
    """A table shaped like the real one; every cell of a row tells the row's number."""
    number = np.arange(case.rows, dtype=float)
    table = pd.DataFrame({feature: number + i / 100 for i, feature in enumerate(case.features)})
    if case.target == "index":
        table.insert(0, "region", np.repeat(["Bejaia", "Sidi-Bel Abbes"], case.rows // 2))
        return table.assign(year=2012, ISI=number + 0.5, BUI=number + 0.25, Classes="fire")
    return table.assign(**{case.target: number + 0.5, "cooling_load": 0.0})


@pytest.fixture
def home(tmp_path):
    (tmp_path / "uci").mkdir()
    for case in CASES:
        fake(case).to_csv(tmp_path / "uci" / case.file, index=False)
    return tmp_path


def row_numbers(cohort):
    return [x[:, 0].astype(int).tolist() for x in cohort.inputs]


@each_case
class TestEachStudy:
    def test_has_the_papers_shape_and_rows_stay_whole(self, home, case):
        study = case.loader(home)
        assert (len(study.pilot), len(study.test)) == (case.pilot, case.users - case.pilot)
        for cohort in study:
            assert (cohort.features, cohort.target) == (case.features, case.target)
            assert all(len(y) == case.points for y in cohort.targets)
            assert all(e.tolist() == [*range(5, case.points + 1, 5)] for e in cohort.ends)
        used = [n for cohort in study for user in row_numbers(cohort) for n in user]
        assert len(set(used)) == len(used) == case.users * case.points
        for cohort in study:
            for x, y in zip(cohort.inputs, cohort.targets, strict=True):
                expected = x[:, :1] + np.arange(len(case.features)) / 100
                np.testing.assert_allclose(x, expected)
                bejaia = np.isin(x[:, 0], np.arange(case.rows // 2)) & (case.target == "index")
                np.testing.assert_allclose(y - x[:, 0], np.where(bejaia, 0.25, 0.5))
        for numbers in row_numbers(study.pilot):  # in random order
            assert 0.2 < np.mean(np.diff(numbers) > 0) < 0.8
            assert max(numbers) - min(numbers) > case.points

    def test_the_seed_and_the_batch_decide(self, home, case):
        one, same = case.loader(home, 1), case.loader(home, np.random.default_rng(1))
        assert one.pilot.users == same.pilot.users
        assert row_numbers(one.test) == row_numbers(same.test)
        assert row_numbers(one.pilot) != row_numbers(case.loader(home, 2).pilot)
        assert len({case.loader(home, seed).pilot.users for seed in range(6)}) > 1
        ends = case.loader(home, batch=7).test.ends[0].tolist()
        assert ends == [*range(7, case.points, 7), case.points]
        with pytest.raises(InputError, match="batch=0"):
            case.loader(home, batch=0)

    def test_wrong_and_missing_files_are_refused(self, home, case):
        table, name, file = fake(case), case.features[2], home / "uci" / case.file
        for wrong, message in (
            (table.drop(columns=name), "has no column"),
            (table.assign(**{name: "?"}), "aren't finite"),
            (table.assign(**{name: table[name].where(table.index != 3)}), "missing values"),
            (table.iloc[-(case.rows // 2 + 20) :], "Give the complete file"),
        ):
            wrong.to_csv(file, index=False)
            with pytest.raises(InputError, match=message):
                case.loader(home)
        file.unlink()
        with pytest.raises(DataFileNotFoundError, match=case.file):
            case.loader(home)

    @needs("uci")
    def test_real_file(self, case):
        study = case.loader()
        assert (len(study.pilot), len(study.test)) == (case.pilot, case.users - case.pilot)
        for cohort in study:
            Scaling.unit(study.pilot).apply(cohort)
        y = np.concatenate([y for cohort in study for y in cohort.targets])
        margin = 0.1 * (case.high - case.low)
        assert case.low <= y.min() < case.low + margin
        assert case.high - margin < y.max() <= case.high


class TestFires:
    def test_each_region_gives_half_of_the_pilot_and_of_the_test_users(self, home):
        for cohort in (cohort for seed in range(4) for cohort in fires(home, seed)):
            assert [user.startswith("Bejaia") for user in cohort.users] == [True] * 2 + [False] * 2
            for user, numbers in zip(cohort.users, row_numbers(cohort), strict=True):
                assert {n < 122 for n in numbers} == {user.startswith("Bejaia")}

    def test_targets_are_no_features(self):
        assert not {"ISI", "BUI", "FWI", "Classes", "year", "region"} & set(FIRES)

    def test_other_regions_are_refused(self, home):
        path = home / "uci" / "algerian_forest_fires.csv"
        fake(CASES[-1]).replace("Bejaia", "Béjaïa").to_csv(path, index=False)
        with pytest.raises(InputError, match="Béjaïa"):
            fires(home)
