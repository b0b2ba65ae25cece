"""HeartSteps, by minute and by day: counts, values and files that are refused."""

import numpy as np
import pandas as pd
import pytest

from kem_pymc.data.datasets import DataFileNotFoundError
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from models.loaders import DayCounts, heartsteps, heartsteps_daily
from models.loaders.heartsteps import HEARTSTEPS
from models.loaders.heartsteps_daily import HEARTSTEPS_DAILY, HEARTSTEPS_FORECAST
from tests.data_home import needs

#: Two decision points a day. In summer, local time is 4 hours behind.
DECISION = {
    "sugg.gmtoff": -14400,
    "connect": True,
    "avail": True,
    "send": False,
    "send.active": False,
    "recognized.activity": "STILL",
    "response": "",
    "dec.location.category": "home",
    "dec.weather.condition": "Mostly Cloudy",
    "dec.temperature": 20.0,
    "dec.windspeed": 3.0,
    "dec.precipitation.chance": 10.0,
    "dec.snow": 0.0,
}
UNKNOWN = dict.fromkeys(list(DECISION)[5:], None)
DAYS = pd.date_range("2015-07-24", periods=4)  # a Friday
COUNTS = DayCounts(original=9, nonzero=8, complete=7, kept=6)


def decisions():
    """Users 1 and 2 have four days, user 3 one."""
    rows = []
    for user, number in ((1, 4), (2, 4), (3, 1)):
        for day in DAYS[:number]:
            # The second decision point is on the next day in UTC.
            for hours in (13, 26):
                time = day + pd.Timedelta(hours=hours)
                rows.append({"user.index": user, "sugg.select.utime": str(time)} | DECISION)
    table = pd.DataFrame(rows).astype({"connect": object, "send": object, "send.active": object})
    first = table.index[table["user.index"] == 1]
    table.loc[first[0], ["send", "send.active", "response"]] = [True, True, "good"]
    table.loc[first[1], ["dec.location.category", "recognized.activity"]] = ["work", "IN_VEHICLE"]
    table.loc[first[1], ["dec.weather.condition", "dec.temperature"]] = ["Light Rain", 10.0]
    # Nothing is known all day: day 1 of user 1, the first day of user 2.
    table.loc[first[2:4], list(UNKNOWN)] = None
    table.loc[first[2:4], "connect"] = False
    table.loc[table.index[table["user.index"] == 2][:2], list(UNKNOWN)] = None
    # A decision point without a time belongs to no day.
    return pd.concat([table, table.iloc[:1].assign(**{"sugg.select.utime": None})])


def wristband():
    """User 1: 4, 9, 16, 25 active minutes a day; user 2: 1, 0, 4, 9; user 3: 1."""
    rows = []
    for user, minutes in ((1, (4, 9, 16, 25)), (2, (1, 0, 4, 9)), (3, (1,))):
        for day, active in zip(DAYS, minutes, strict=False):
            start = day + pd.Timedelta("23:00:00")
            rows += [(user, str(start + pd.Timedelta(minutes=i)), 10) for i in range(active)]
            rows.append((user, str(start + pd.Timedelta(minutes=50)), 0))
    rows.append(rows[0])
    table = pd.DataFrame(rows, columns=["user.index", "steps.utime.local", "steps"])
    return table.assign(**{"steps.utime": table["steps.utime.local"]})


def tables():
    phone = [(1, "2015-07-24 14:00:00", 30), (1, "2015-07-25 03:59:00", 12)]
    phone += [(1, "2015-07-25 04:00:00", 7), (3, "2015-07-24 14:00:00", 5)]
    return {
        "jbsteps": wristband(),
        "gfsteps": pd.DataFrame(phone, columns=["user.index", "steps.utime", "steps"]),
        "users": pd.DataFrame(
            {"user.index": [1, 2, 3], "travel.start": ["2015-07-26", None, None]}
        ).assign(**{"travel.end": ["2015-07-27", None, None], "age": 30}),
        "suggestions": decisions(),
    }


def write(home, found):
    (home / "heartsteps").mkdir(exist_ok=True)
    for name, table in found.items():
        table.to_csv(home / "heartsteps" / f"{name}.csv", index=False)


@pytest.fixture
def home(tmp_path):
    write(tmp_path, tables())
    return tmp_path


def load(home, **options):
    counts = []
    study = heartsteps(home, batch=2, minimum=2, callback=counts.append, **options)
    return study, counts[0]


def by_user(study):
    return pd.concat([cohort.to_frame() for cohort in study]).set_index("user")


class TestOfficialFiles:
    def test_counts_after_each_filter_and_days(self, home):
        study, counts = load(home)
        assert counts == COUNTS
        assert {*study.pilot.users, *study.test.users} == {1, 2}
        assert study.pilot.features == HEARTSTEPS
        assert study.pilot.target == "root_active_minutes"
        found = by_user(study)
        assert found.loc[1, "root_active_minutes"].tolist() == [2, 3, 4, 5]
        assert found.loc[2, "root_active_minutes"].tolist() == [2, 3]
        assert found.loc[1, "time_step"].tolist() == [0, 0, 1, 1]
        assert found.loc[1, "study_day"].tolist() == [0, 1, 2, 3]
        assert found.loc[1, "day_of_week"].tolist() == [4, 5, 6, 0]
        assert found.loc[1, "weekend"].tolist() == [0, 1, 1, 0]
        assert found.loc[1, "travel"].tolist() == [0, 0, 1, 1]
        assert found.loc[2, "study_day"].tolist() == [2, 3]
        assert found.loc[2, "travel"].tolist() == [0, 0]
        # The phone's steps are of the local day.
        assert found.loc[1, "google_fit_steps"].tolist() == [42, 7, 0, 0]
        assert found.loc[1, "google_fit_minutes"].tolist() == [2, 1, 0, 0]

    def test_context_is_summarised_and_held(self, home):
        first, second, third, _ = by_user(load(home)[0]).loc[1].to_dict("records")
        expected = {
            **{"connected": 2, "available": 2, "suggestions": 1, "walking_suggestions": 1},
            **{"share_home": 0.5, "share_work": 0.5, "share_still": 0.5, "temperature": 15},
            **{"windspeed": 3, "precipitation_chance": 10, "clear": 0, "rain": 1, "snow": 0},
            **{"in_vehicle": 1, "on_foot": 0, "liked": 1, "disliked": 0},
        }
        assert {name: first[name] for name in expected} == expected
        nothing = {"connected": 0, "suggestions": 0, "walking_suggestions": 0, "liked": 0}
        assert {name: second[name] for name in expected} == expected | nothing
        assert (third["temperature"], third["rain"], third["share_home"]) == (20, 0, 1)

    @pytest.mark.parametrize("name", ["jbsteps", "gfsteps", "users", "suggestions"])
    def test_missing_files_are_reported(self, home, name):
        (home / "heartsteps" / f"{name}.csv").unlink()
        with pytest.raises(DataFileNotFoundError, match=name):
            heartsteps(home)

    @pytest.mark.parametrize(
        ("name", "column"),
        [
            *(("jbsteps", "steps"), ("jbsteps", "steps.utime.local"), ("gfsteps", "steps")),
            *(("users", "travel.end"), ("suggestions", "dec.snow")),
        ],
    )
    def test_missing_columns_and_wrong_values_are_refused(self, home, name, column):
        found = tables()
        if (name, column) not in (("gfsteps", "steps"), ("users", "travel.end")):
            write(home, found | {name: found[name].assign(**{column: "many"})})
            with pytest.raises(InputError, match=f"{column} of {name}"):
                heartsteps(home)
        write(home, found | {name: found[name].drop(columns=column)})
        with pytest.raises(InputError, match=f"{name}.csv has no column {column}"):
            heartsteps(home)


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
        with pytest.raises(InputError, match="11 points or more: 1"):
            heartsteps_daily(tmp_path, minimum=11)
        study = heartsteps_daily(tmp_path, forecast=True)
        assert study.pilot.features == HEARTSTEPS_FORECAST
        assert {*HEARTSTEPS_DAILY} - {*HEARTSTEPS_FORECAST} == {"google_fit_steps"}
        assert {*study.pilot.users, *study.test.users} == {1, 2, 3}

    def test_wrong_and_missing_files_are_refused(self, tmp_path):
        with pytest.raises(DataFileNotFoundError, match="daily_users_01_20"):
            heartsteps_daily(tmp_path)
        table = daily(tmp_path)
        for wrong in (table.drop(columns="n_sent"), table.assign(n_sent="many")):
            wrong.to_csv(tmp_path / "heartsteps" / "daily_users_01_20.csv", index=False)
            with pytest.raises(InputError, match="n_sent"):
                heartsteps_daily(tmp_path)

    def test_nothing_of_the_wristband_is_a_feature(self):
        assert not [f for f in (*HEARTSTEPS, *HEARTSTEPS_DAILY) if "jb" in f or "active_min" in f]

    @needs("heartsteps")
    def test_real_table(self):
        counts = []
        study = heartsteps_daily(callback=counts.append)
        assert counts[0].original == counts[0].nonzero == 868
        assert (len(study.pilot), len(study.test)) == (9, 9)
        assert not {6, 20} & {*study.pilot.users, *study.test.users}
        for cohort in study:
            assert min(len(y) for y in cohort.targets) >= 10
            Scaling.unit(study.pilot).apply(cohort)
        forecast = heartsteps_daily(forecast=True)
        assert len(forecast.pilot) + len(forecast.test) == 20
