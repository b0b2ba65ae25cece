"""HeartSteps daily steps: counts, values and files that are refused."""

import numpy as np
import pandas as pd
import pytest

from kem_pymc.data.datasets import (
    DataFileNotFoundError,
    DayCounts,
    candidates,
    heartsteps_daily,
)
from kem_pymc.data.datasets.heartsteps import HEARTSTEPS
from kem_pymc.data.datasets.heartsteps_daily import HEARTSTEPS_DAILY, HEARTSTEPS_FORECAST
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.kernels.pool import CandidatePool
from tests.data.datasets.test_heartsteps import by_user, real_data, two_sentences


def daily(home):
    """Write 3 users of 12 days; user 3 has no phone."""
    table = pd.DataFrame({"user": np.repeat([1, 2, 3], 12), "study_day": np.tile(range(12), 3)})
    table["dow"] = table["study_day"] % 7
    table["weekday"] = (table["dow"] < 5).astype(int)
    table["jb_steps_agg"] = (table["study_day"] + 1.0) ** 2
    table["gf_steps"] = np.where(table["user"] < 3, 100.0, np.nan)
    table["travel"] = (table["study_day"] == 5).astype(int)
    columns = ("app_sessions", "mean_dosage", "frac_home", "frac_work", "temperature_c")
    for column in (*columns, "windspeed", "precip_chance"):
        table[column] = table["study_day"] * 1.0
    table["n_avail"], table["n_sent"] = 5.0, 3.0
    table["location"], table["weather"], table["planning_today"] = "home", "clear", "structured"
    one = table["user"] == 1
    day = table["study_day"]
    table.loc[one & (day == 0), "jb_steps_agg"] = np.nan
    table.loc[one & (day == 1), "jb_steps_agg"] = 0
    table.loc[one & (day == 2), ["n_avail", "n_sent", "frac_home"]] = np.nan
    table.loc[one & (day == 3), ["location", "weather"]] = [np.nan, "unknown"]
    table.loc[one & (day == 4), ["location", "weather"]] = ["other", "cloudy"]
    table.loc[~one & (day == 0), "temperature_c"] = np.nan
    (home / "heartsteps").mkdir()
    table.to_csv(home / "heartsteps" / "daily_users_01_20.csv", index=False)
    return table


class TestDailySteps:
    def test_counts_and_values(self, tmp_path):
        daily(tmp_path)
        counts = []
        study = heartsteps_daily(tmp_path, callback=counts.append)
        assert counts == [DayCounts(original=35, nonzero=34, complete=21, kept=21)]
        assert study.pilot.target == "root_steps"
        assert study.pilot.features == HEARTSTEPS_DAILY
        found = by_user(study)
        first = found.loc[1]
        assert first["root_steps"].tolist() == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
        assert first["available"].tolist()[:2] == [0, 5]
        assert first["suggestions"].tolist()[:2] == [0, 3]
        assert first["share_home"].tolist()[:2] == [1, 3]
        assert first["evening_home"].tolist()[:4] == [1, 1, 0, 1]
        assert first["clear"].tolist()[:4] == [1, 1, 0, 1]
        assert first["weekend"].tolist()[:6] == [0, 0, 0, 1, 1, 0]
        assert found.loc[2, "study_day"].tolist() == [*range(1, 12)]
        assert found.loc[2, "time_step"].max() == 2

    def test_a_forecast_has_no_steps_of_the_phone(self, tmp_path):
        """Fails where users without a phone are dropped for a feature that isn't used."""
        daily(tmp_path)
        study = heartsteps_daily(tmp_path, forecast=True)
        assert study.pilot.features == HEARTSTEPS_FORECAST
        assert {*HEARTSTEPS_DAILY} - {*HEARTSTEPS_FORECAST} == {"google_fit_steps"}
        assert {*study.pilot.users, *study.test.users} == {1, 2, 3}

    def test_users_with_few_days_are_dropped(self, tmp_path):
        daily(tmp_path)
        with pytest.raises(InputError, match="11 points or more: 1") as caught:
            heartsteps_daily(tmp_path, minimum=11)
        assert two_sentences(caught)

    @pytest.mark.parametrize("fault", ["column", "text"])
    def test_a_wrong_file_is_refused(self, tmp_path, fault):
        table = daily(tmp_path)
        table = table.drop(columns="n_sent") if fault == "column" else table.assign(n_sent="many")
        table.to_csv(tmp_path / "heartsteps" / "daily_users_01_20.csv", index=False)
        with pytest.raises(InputError, match="n_sent") as caught:
            heartsteps_daily(tmp_path)
        assert two_sentences(caught)

    def test_a_missing_file_is_reported(self, tmp_path):
        with pytest.raises(DataFileNotFoundError, match="daily_users_01_20"):
            heartsteps_daily(tmp_path)

    def test_nothing_of_the_wristband_is_a_feature(self):
        assert not [f for f in (*HEARTSTEPS, *HEARTSTEPS_DAILY) if "jb" in f or "active_min" in f]

    @real_data
    def test_real_table(self):
        counts = []
        study = heartsteps_daily(callback=counts.append)
        assert counts[0].original == counts[0].nonzero == 868
        assert (len(study.pilot), len(study.test)) == (9, 9)
        assert not {6, 20} & {*study.pilot.users, *study.test.users}
        for cohort in study:
            assert min(len(y) for y in cohort.targets) >= 10
            Scaling.unit(study.pilot).apply(cohort)
        assert len(CandidatePool(candidates("heartsteps_daily"), study.pilot.dimension)) == 73
        forecast = heartsteps_daily(forecast=True)
        assert len(forecast.pilot) + len(forecast.test) == 20
