import re

import numpy as np
import pandas as pd
import pytest

from kem_pymc.data.datasets import (
    PAPER_DAYS,
    DataFileNotFoundError,
    DayCounts,
    data_home,
    heartsteps,
)
from kem_pymc.data.datasets.heartsteps import HEARTSTEPS
from kem_pymc.errors import InputError

real_data = pytest.mark.skipif(
    not (data_home() / "heartsteps").is_dir(),
    reason="no folder heartsteps in the data home: set KEM_DATA to the folder that has it",
)

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


def two_sentences(caught):
    return len(re.findall(r"[.!?](?=\s|$)", str(caught.value))) == 2


class TestOfficialFiles:
    def test_counts_after_each_filter(self, home):
        study, counts = load(home)
        assert counts == COUNTS
        assert {*study.pilot.users, *study.test.users} == {1, 2}
        assert study.pilot.features == HEARTSTEPS
        assert study.pilot.target == "root_active_minutes"
        found = by_user(study)
        assert found.loc[1, "root_active_minutes"].tolist() == [2, 3, 4, 5]
        assert found.loc[2, "root_active_minutes"].tolist() == [2, 3]
        assert found.loc[1, "time_step"].tolist() == [0, 0, 1, 1]

    def test_the_papers_counts_are_at_hand(self):
        assert PAPER_DAYS[:2] == (1658, 1535)

    def test_days(self, home):
        found = by_user(load(home)[0])
        assert found.loc[1, "study_day"].tolist() == [0, 1, 2, 3]
        assert found.loc[1, "day_of_week"].tolist() == [4, 5, 6, 0]
        assert found.loc[1, "weekend"].tolist() == [0, 1, 1, 0]
        assert found.loc[1, "travel"].tolist() == [0, 0, 1, 1]
        assert found.loc[2, "study_day"].tolist() == [2, 3]
        assert found.loc[2, "travel"].tolist() == [0, 0]

    def test_the_phones_steps_are_of_the_local_day(self, home):
        found = by_user(load(home)[0])
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

    def test_the_seed_decides(self, home):
        assert len({load(home, seed=seed)[0].pilot.users for seed in range(8)}) == 2
        one, same = load(home, seed=3)[0], load(home, seed=np.random.default_rng(3))[0]
        assert one.pilot.users == same.pilot.users

    def test_too_few_users_are_refused(self, home):
        with pytest.raises(InputError, match="more: 0") as caught:
            heartsteps(home)
        assert two_sentences(caught)

    @pytest.mark.parametrize("name", ["jbsteps", "gfsteps", "users", "suggestions"])
    def test_missing_files_are_reported(self, home, name):
        (home / "heartsteps" / f"{name}.csv").unlink()
        with pytest.raises(DataFileNotFoundError, match=name):
            heartsteps(home)

    @pytest.mark.parametrize(
        ("name", "column"),
        [
            ("jbsteps", "steps.utime.local"),
            ("gfsteps", "steps"),
            ("users", "travel.end"),
            *(("suggestions", column) for column in DECISION),
        ],
    )
    def test_missing_columns_are_refused(self, home, name, column):
        found = tables()
        found[name] = found[name].drop(columns=column)
        write(home, found)
        with pytest.raises(InputError, match=f"{name}.csv has no column {column}") as caught:
            heartsteps(home)
        assert two_sentences(caught)

    @pytest.mark.parametrize(
        ("name", "column"),
        [("jbsteps", "steps"), ("jbsteps", "steps.utime.local"), ("suggestions", "dec.snow")],
    )
    def test_wrong_values_are_refused(self, home, name, column):
        found = tables()
        found[name][column] = "many"
        write(home, found)
        with pytest.raises(InputError, match=f"{column} of {name}") as caught:
            heartsteps(home)
        assert two_sentences(caught)
