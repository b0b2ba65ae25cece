import datetime
import re
from dataclasses import FrozenInstanceError, replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from kem_pymc.data.cohort import Cohort
from kem_pymc.data.columns import feature_columns
from kem_pymc.errors import DataWarning
from tests.cohorts import (
    ROLES,
    Recorder,
    assert_same,
    cohort,
    frame,
    numbered,
    refused_frame,
)
from tests.refusals import refused


class TestFromFrame:
    def test_users_keep_first_appearance_and_order_of_arrival(self):
        got = Cohort.from_frame(frame(), **ROLES)
        assert got.users == ("b", "a")
        assert got.features == ("week", "x", "z")
        assert (got.target, got.time) == ("y", "week")
        np.testing.assert_array_equal(got.inputs[0], [[0, 0.5, 6], [1, 2.5, 4], [2, 5.5, 0]])
        np.testing.assert_array_equal(got.targets[1], [2, 5, 8])
        # Each distinct time of a user is a time step.
        assert [e.tolist() for e in got.ends] == [[1, 2, 3], [2, 3]]

    @pytest.mark.parametrize(("batch", "ends"), [(1, [1, 2, 3]), (2, [2, 3]), (3, [3]), (9, [3])])
    def test_batches_cut_rows(self, batch, ends):
        got = Cohort.from_frame(frame(), **ROLES, batch=batch)
        assert [e.tolist() for e in got.ends] == [ends, ends]

    def test_noise_and_sizes_are_of_rows_and_no_features(self):
        df = frame(x=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], n=range(1, 7))
        got = Cohort.from_frame(df, **ROLES, noise="x", size="n")
        assert got.features == ("week", "z")
        rows = [df[ROLES["user"]] == user for user in got.users]
        for values, name in ((got.noise, "x"), (got.sizes, "n")):
            for found, mask in zip(values, rows, strict=True):
                np.testing.assert_array_equal(found, df[name][mask])
        np.testing.assert_array_equal(got.subset(["a"]).noise[0], got.noise[1])
        assert [len(sds) for sds in got.truncate(1).noise] == [
            len(y) for y in got.truncate(1).targets
        ]
        options = {"user": "user", "time": "time_step", "target": "y", "features": got.features}
        back = Cohort.from_frame(got.to_frame(), **options, noise="noise", size="sizes")
        assert_same(back, got)
        np.testing.assert_array_equal(back.noise[0], got.noise[0])
        assert back.digest() != replace(back, noise=None).digest()

    def test_features_may_be_named_ordered_and_hold_the_time(self):
        got = Cohort.from_frame(frame(), **ROLES, features=["z", "week"])
        assert got.features == ("z", "week")
        np.testing.assert_array_equal(got.inputs[1], [[5, 1], [3, 1], [2, 2]])
        # A single one may be named bare.
        assert Cohort.from_frame(frame(), **ROLES, features="z").features == ("z",)

    def test_without_another_column_the_time_is_the_feature(self):
        df = frame(x="text", z=pd.to_timedelta(range(6), unit="D"))
        assert Cohort.from_frame(df, **ROLES).features == ("week",)

    def test_truth_values_are_0_and_1_and_nullable_numbers_numbers(self):
        flags = [True, False, True, False, True, True]
        df = frame(x=pd.array([1, 2, 3, 4, 5, 7], dtype="Int64"), z=flags)
        got = Cohort.from_frame(df, **ROLES, features=["x", "z"])
        np.testing.assert_array_equal(got.inputs[1], [[2, 0], [4, 0], [5, 1]])
        assert got.levels == {"z": ("False", "True")}

    def test_objects_that_are_numbers_are_numbers(self):
        """Fails where a column from a database vanishes without a word."""
        objects = {n: [*map(Decimal, frame()[n].map(str))] for n in ("x", "y")}
        objects |= {"week": [*map(str, frame()["week"])], "z": [6, 5.0, "4", "3.0", 2, Decimal(0)]}
        assert_same(
            Cohort.from_frame(frame(**objects), **ROLES), Cohort.from_frame(frame(), **ROLES)
        )
        refused_frame(frame(x=[Decimal("sNaN"), *range(5)]), "'x' has 'sNaN' in row 0")

    def test_labels_that_are_written_alike_are_one(self):
        """Fails where a blank or a decimal point makes another user or level, or goes unsaid."""
        df = frame(id=["b", "a", "b ", "a", "a", "b"], x=["1", "p", " p", "1.0", "1", "p"])
        with pytest.warns(DataWarning) as caught:
            got = Cohort.from_frame(df, **ROLES)
        assert [str(w.message).split(". ")[0] for w in caught] == [
            "Column 'id' has 'b' and 'b '",
            "Column 'x' has '1' and '1.0', 'p' and ' p'",
        ]
        assert (got.users, got.levels) == (("b", "a"), {"x": ("1", "p")})
        assert [x[:, 1].tolist() for x in got.inputs] == [[0, 1, 1], [1, 0, 0]]
        with pytest.warns(DataWarning, match=r"'1' and 1\. They are read as one user"):
            same = Cohort.from_frame(frame(id=["1", 2, 1, 2, 2, 1]), **ROLES)
        assert same.users == ("1", 2)
        blank = frame(id=["b", " ", "b", "a", "a", "b"])
        refused_frame(blank, "no user in row 1")

    @pytest.mark.parametrize("zone", [None, "UTC"])
    def test_time_may_be_a_date_and_then_has_no_gaps(self, zone):
        days = pd.to_datetime(["2026-01-01", "2026-01-02", "2026-03-01"] * 2).sort_values()
        for week in (days.tz_localize(zone), days.astype(str)):
            got = Cohort.from_frame(frame(week=week), **ROLES)
            assert [e.tolist() for e in got.ends] == [[1, 2, 3], [1, 2, 3]]
            assert got.inputs[0][-1, 0] == 59
        refused_frame(frame(x=days.astype(str)), "'x' has dates", features=["x"])

    @pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
    def test_dates_as_a_feature_are_days_since_the_users_first_row(self, zone):
        times = pd.to_datetime(["2026-01-01 06:00", "2026-02-10 00:00"] * 3)
        times += pd.to_timedelta([0, 0, 1, 2, 3, 36], unit="D")
        df = frame(week=times.tz_localize(zone), id=list("bababa"))
        got = Cohort.from_frame(df[["id", "week", "y"]], **ROLES)
        assert got.features == ("week",)
        np.testing.assert_allclose(np.concatenate(got.inputs)[:, 0], [0, 1, 3, 0, 2, 36])
        named = Cohort.from_frame(df, **ROLES, features=["x", "week"], batch=2)
        np.testing.assert_array_equal(named.inputs[1][:, 1], got.inputs[1][:, 0])
        # New users count from their own first row, too.
        new = Cohort.from_frame(df.iloc[[2, 4]], **ROLES, features=["week"], scope="new")
        np.testing.assert_allclose(new.inputs[0][:, 0], [0, 2])

    @pytest.mark.parametrize(
        ("times", "days"),
        [
            ([datetime.date(2026, 1, day) for day in (1, 2, 4, 5, 7, 9)], [0, 3, 8]),
            (pd.Series(pd.date_range("2026", periods=6).to_pydatetime(), dtype=object), [0, 2, 5]),
            (pd.to_timedelta(range(24, 36, 2), unit="h"), [1, 28 / 24, 34 / 24]),
            ([3, 1, 4, 2, 3, 5], [3, 4, 5]),
        ],
    )
    def test_dates_and_durations_as_a_feature_are_days_and_numbers_stay(self, times, days):
        got = Cohort.from_frame(frame(week=times), **ROLES, features=["week"])
        np.testing.assert_allclose(got.inputs[0][:, 0], days)

    @pytest.mark.parametrize(
        ("times", "form", "days"),
        [
            ([20240131, 20240201, 20240229, 20240301, 20240401, 20240501], "%Y%m%d", [0, 29, 91]),
            ([202401, 202401, 202402, 202402, 202403, 202404], "%Y%m", [0, 31, 91]),
            ([202401312359, *(202402010000 + 10000 * np.arange(5))], "%Y%m%d%H%M", [0, 1, 4]),
        ],
    )
    def test_whole_numbers_that_look_like_dates_are_asked_about(self, times, form, days):
        """Fails where a month is 8,870 days or 100 of something."""
        asked = f"numbers such as {times[0]}, which may be dates. Read them with date_format='%Y"
        for own in (times, [*map(str, times)], np.array(times, dtype=float)):
            df = frame(week=own)
            refused_frame(df, asked, f"{form!r}")
            got = Cohort.from_frame(df, **ROLES, features=["week"], date_format=form)
            np.testing.assert_allclose(got.inputs[0][:, 0], days, atol=1e-3)
            assert got.time_kind == "dates"
            as_numbers = {"features": ["week"], "date_format": "numbers", "gaps": "skip"}
            got = Cohort.from_frame(df, **ROLES, **as_numbers)
            assert (got.inputs[0][0, 0], got.time_kind) == (times[0], "numbers")
            left_out = dict(feature_columns(frame(x=own), **ROLES).left_out)
            assert left_out == {"x": "numbers that look like dates"}
            with pytest.warns(DataWarning, match="'x' has numbers such as 20240.*may be dates"):
                Cohort.from_frame(frame(x=own), **ROLES, features=["x"])
        # Numbers that only some of the time could be dates are numbers.
        assert Cohort.from_frame(frame(week=[*times[:5], times[5] + 80]), **ROLES, gaps="skip")

    def test_dates_in_another_format(self):
        dates = pd.date_range("2024-01-31", periods=6, freq="30D")
        df = frame(week=dates.strftime("%d.%m.%Y"))
        refused_frame(df, "Write dates as 2024-03-01", "give their format with date_format=")
        assert_same(
            Cohort.from_frame(df, **ROLES, date_format="%d.%m.%Y"),
            Cohort.from_frame(frame(week=dates), **ROLES),
        )
        df.loc[4, "week"] = "30.02.2024"
        refused_frame(df, "'30.02.2024' in row 4", "'%d.%m.%Y' says", date_format="%d.%m.%Y")
        refused_frame(df, "'31.01.2024' in row 0", date_format="%Y%m%d")
        refused_frame(df, "isn't a format of dates", date_format="%Q")

    @pytest.mark.parametrize(
        ("times", "gaps"),
        [([0.5, 1, 7, 8, 9, 20], "error"), (1_700_000_000_000_000_000 + np.arange(6), "skip")],
    )
    def test_fractional_times_have_no_gaps_and_large_ones_are_distinguished(self, times, gaps):
        got = Cohort.from_frame(frame(week=times), **ROLES, features=["x"], gaps=gaps)
        assert got.steps.tolist() == [3, 3]

    def test_other_columns_than_text_may_label_users(self):
        got = Cohort.from_frame(frame(id=[7, 3, 7, 3, 3, 7]), **ROLES)
        assert got.users == (7, 3)
        assert all(type(label) is int for label in got.users)

    def test_rows_index_is_irrelevant_and_the_table_is_left_alone(self):
        df = frame().set_index(pd.Index([4, 4, 4, 2, 2, 2]))
        before = df.copy()
        assert_same(Cohort.from_frame(df, **ROLES, features=["x", "z"]), cohort())
        pd.testing.assert_frame_equal(df, before)


IMAGINARY = [1j, 2, 3, 4, 5, 6]
DATES = pd.date_range("2026-01-01", periods=6)
GAP = [0, 1, 1, 1, 4, 2]


class TestRefusedTables:
    @pytest.mark.parametrize(
        ("df", "options", "words"),
        [
            ({"id": [1]}, {}, ("dict", "DataFrame")),
            (frame().iloc[:0], {}, ("no rows",)),
            *((frame().drop(columns=name), {}, (repr(name),)) for name in ("id", "week", "y")),
            (frame().rename(columns={"z": "x"}), {}, ("'x'",)),
            (frame(), {"target": "week"}, ("different",)),
            *((frame(), {"features": n}, ("features",)) for n in (["x", "x"], ["y"], ["id"], [])),
            (frame(), {"features": ["x", "w"]}, ("'w'",)),
            (frame(x=pd.array([1, 2, None, 4, 5, 6], dtype="Int64")), {}, ("'x'", "row 2")),
            (frame(week=DATES.where(DATES.day < 5)), {}, ("'week'", "row 4")),
            (frame(id=["b", "a", None, "a", "a", "b"]), {}, ("'id'", "row 2")),
            *((frame(**{n: IMAGINARY}), {}, (repr(n), "numbers")) for n in ("week", "y")),
            (frame(x=["1", "n/a?", "3", "4", "-", "6"]), {}, ("'n/a?' in row 1",)),
            (frame(x=DATES), {"features": ["x"]}, ("'x'", "dates", "use the column as the time")),
            (frame(id=list("bababc")), {}, ("User 'c' has one point",)),
            (frame(id=list("bbabdc")), {}, ("Users ", "have one point")),
            (frame(x=0.1), {"features": ["x"]}, ("'x'", "constant", "features=")),
            (frame(y=0.1), {}, ("'y'", "constant", "Choose another target")),
            (frame(week=[0, 1, 2, 1, 2, 1]), {}, ("Row 5", "'b'", "Sort the table")),
            (frame(week=[0, 1, 2, 1, 2, 1]), {"batch": 2}, ("Row 5",)),
            (frame(week=GAP), {}, ("'a'", "time 2", "gaps='skip'")),
            (frame(week=np.array(GAP, dtype=float)), {}, ("'a'", "time 2")),
            *((frame(), {"batch": batch}, ("batch",)) for batch in (0, -1, 2.5, "5")),
            *((frame(), {option: "maybe"}, (option,)) for option in ("gaps", "scope")),
        ],
    )
    def test_what_is_wrong_and_where(self, df, options, words):
        refused_frame(df, *words, **options)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("column", ["x", "y", "week"])
    def test_missing_or_infinite(self, column, value):
        df = frame().astype({"week": float})
        df.loc[[3, 5], column] = value
        refused_frame(df, repr(column), "row 3")

    @pytest.mark.parametrize("column", ["x", "y"])
    def test_huge(self, column):
        df = frame()
        df.loc[2, column] = 1e12
        assert Cohort.from_frame(df, **ROLES).n_points == 6
        df.loc[2, column] = -1.1e12
        refused_frame(df, repr(column), "row 2", "Rescale")

    def test_how_many_values_are_missing_and_whose(self):
        df = frame(x=[1, 2, np.nan, 4, 5, 6], z=[1, 2, 3, 4, np.inf, 6])
        refused_frame(df, "2 of 6 rows", "'x' in row 2 (user 'b')")
        refused_frame(df, "'z'", "in row 4 (user 'a')", features=["z"])

    def test_rows_of_a_file_are_lines(self):
        df = frame(x=[1, 2, np.nan, 4, 5, 6])
        refused_frame(df.set_index(pd.RangeIndex(2, 8, name="line")), "in line 4 (user 'b')")
        refused_frame(df.set_index(pd.RangeIndex(6, name="week of trial")), "in row 2")

    def test_a_gap_is_a_time_of_others(self):
        every_other = frame(week=[0, 2, 2, 4, 6, 4])
        assert Cohort.from_frame(every_other, **ROLES).steps.tolist() == [3, 3]
        refused_frame(frame(week=[0, 2, 2, 4, 7, 3]), "'a'", "time 3", "other users")

    def test_only_planned_times_have_gaps(self):
        """Fails where a day that one of ten users has is missing for all others."""
        rng = np.random.default_rng(0)
        days = [
            np.sort(np.append(0, rng.choice(range(1, 900), 6, replace=False))) for _ in "1" * 10
        ]
        weeks = [np.arange(7)] * 9 + [np.array([0, 1, 2, 4, 5, 6])]
        extra = [np.array([0, 1, 2, 3, 3.0, 5, 6]), *[np.array([0, 1, 3, 5, 6])] * 9]

        def read(times):
            users = np.repeat(np.arange(len(times)), [*map(len, times)])
            y = rng.normal(size=len(users))
            df = pd.DataFrame({"id": users, "week": np.concatenate(times), "y": y})
            return Cohort.from_frame(df, **ROLES)

        assert read(days).n_points == 70
        assert read(extra).n_points == 52  # one user had a visit more
        refused(lambda: read(weeks), "User 9 has no data at time 3")

    def test_problems_come_together(self):
        """Catches a table that has to be mended and read once for every problem."""
        words = frame(x=["1", "2,5", "3", "4", "5", "6"], y=IMAGINARY, z=["?", *"23456"])
        named = ["x", "z"]
        refused_frame(words, "'2,5' in row 1", "'?' in row 0", "Column 'y'", features=named)
        late = frame(id=list("bababc"), week=[0, 0, 1, 2, 3, 0])
        late.loc[0, "z"] = 1e13
        refused_frame(late, "'b' has no data at time 2", "'z' has a value", "'c' has one point")


class TestAllowedTables:
    @pytest.mark.parametrize("option", [{"gaps": "skip"}, {"batch": 3}])
    def test_gaps_on_request(self, option):
        got = Cohort.from_frame(frame(week=[0, 1, 1, 1, 4, 2]), **ROLES, **option)
        assert [len(y) for y in got.targets] == [3, 3]

    def test_new_users_may_have_one_point_and_constants(self):
        got = Cohort.from_frame(frame(x=1.0, y=2.0).iloc[:1], **ROLES, scope="new")
        assert got.n_points == 1
        refused_frame(frame(x=[*range(5), np.nan]), "'x'", scope="new")

    def test_identical_rows_warn_once_with_their_number(self):
        df = frame(week=1, x=1.0, z=[1, 1, 1, 1, 1, 2], y=[3, 4, 3, 4, 4, 4])
        with pytest.warns(
            DataWarning, match=r"^The user, time, inputs and target of 3 rows "
        ) as caught:
            got = Cohort.from_frame(df, **ROLES, features=["z"])
        assert len(caught) == 1
        assert len(re.findall(r"[.!?](?=\s|$)", str(caught[0].message))) == 2
        assert got.n_points == 6
        # Repeated inputs with other targets are noise.
        df = frame(week=1, x=1.0, z=[1, 1, 1, 1, 1, 2])
        assert Cohort.from_frame(df, **ROLES, features=["z"]).n_points == 6


def read_back(table, one, time="time_step"):
    return Cohort.from_frame(table, user="user", time=time, target="y", features=one.features)


class TestToFrame:
    def test_is_tidy(self):
        got = cohort().to_frame()
        assert list(got.columns) == ["user", "time_step", "x", "z", "y"]
        assert got["user"].tolist() == ["b", "b", "b", "a", "a", "a"]
        assert got["time_step"].tolist() == [0, 1, 2, 0, 0, 1]

    @pytest.mark.parametrize("users", [("b", "a"), (2, 1), (1, "a"), ((0, 1), (0, 2))])
    def test_round_trip(self, users):
        one = cohort(users=users)
        table = one.to_frame()
        assert_same(read_back(table, one), one)

    @pytest.mark.parametrize("role", ["x", "y"])
    def test_names_that_cannot_be_written_are_escaped(self, role):
        df = frame()
        names = ["\ud800" if name == role else name for name in df.columns]
        df.columns = pd.Index(names, dtype=object)
        roles = ROLES | ({"target": "\ud800"} if role == "y" else {})
        one = Cohort.from_frame(df, **roles)
        assert "\\ud800" in (*one.features, one.target)
        assert "\\ud800" in one.to_frame().to_csv()
        refused(lambda: one.to_frame("\udfff"), "can't name a column")

    def test_round_trip_of_many_users_interleaved(self):
        rng = np.random.default_rng(0)
        sizes = rng.integers(2, 40, size=30)
        one = Cohort(
            users=tuple(range(30)),
            inputs=tuple(rng.normal(size=(n, 2)) for n in sizes),
            targets=tuple(rng.normal(size=n) for n in sizes),
            ends=tuple(np.append(np.arange(1, n, 3), n) for n in sizes),
            features=("x", "z"),
        )
        table = one.to_frame()
        places = np.argsort(rng.permutation(len(table)), kind="stable")
        for own in table.groupby("user").indices.values():
            places[own] = np.sort(places[own])  # any interleaving that keeps each user's order
        mixed = table.iloc[np.argsort(places)]
        got = read_back(mixed, one)
        assert got.users == tuple(mixed["user"].unique())
        assert got.users != one.users
        assert_same(got.subset(range(30)), one)

    def test_round_trip_when_the_feature_is_called_like_the_time(self):
        one = cohort(features=("time_step", "z"))
        refused(one.to_frame, "'time_step'", "another name")
        table = one.to_frame(time="step")
        assert_same(read_back(table, one, time="step"), one)


class TestConstruction:
    def test_arrays_are_private_read_only_float64(self):
        x, y = np.arange(3)[:, None], np.arange(3)
        one = Cohort(("u",), (x,), (y,), ([1, 3],), ("x",))
        x[0], y[0] = 9, 9
        assert one.inputs[0][0, 0] == one.targets[0][0] == 0
        assert one.inputs[0].dtype == one.targets[0].dtype == np.float64
        assert one.ends[0].dtype == np.int64
        for array in (one.inputs[0], one.targets[0], one.ends[0]):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
        with pytest.raises(FrozenInstanceError):
            one.users = ()

    @pytest.mark.parametrize(
        ("changes", "word"),
        [
            ({"users": ()}, "lengths"),
            ({"users": ("a",)}, "lengths"),
            ({"users": ("a", "a")}, "label"),
            ({"features": ("x", "x")}, "distinct"),
            ({"features": ("x", "y")}, "distinct"),
            ({"features": ()}, "distinct"),
            ({"features": ("x",)}, "shape"),
            ({"inputs": (np.zeros((2, 2)), np.zeros((3, 2)))}, "shape"),
            ({"targets": (np.zeros(3), np.full(3, np.nan))}, "infinite"),
            ({"ends": ([3], [2])}, "[2]"),
            ({"ends": ([3], [3, 3])}, "[3, 3]"),
            ({"ends": ([3], [0, 3])}, "[0, 3]"),
            ({"ends": ([3], [4, 3])}, "[4, 3]"),
            ({"ends": ([3], [])}, "[]"),
            ({"ends": ([3], [3.0])}, "[3.0]"),
            ({"ends": ([3], [[1, 2], [3]])}, "None"),
            ({"users": None}, "users are a NoneType"),
            ({"users": ([1], "a")}, "label"),
            ({"users": ("a\ud800", "b")}, "written to files"),
            ({"features": ("x", ["z"])}, "as text"),
            ({"target": None}, "as text"),
            ({"time": ["x"]}, "aren't features"),
            ({"levels": {"x": [1, 2]}}, "no list of different levels"),
            ({"noise": (np.ones(3), np.ones(2))}, "one value of noise for every target"),
            ({"noise": (np.ones(3), -np.ones(3))}, "noise isn't zero or positive"),
            ({"sizes": (np.ones(3), np.zeros(3))}, "sizes isn't positive"),
        ],
    )
    def test_parts_must_fit(self, changes, word):
        refused(lambda: cohort(**changes), word)


class TestParts:
    def test_counts_and_repr(self):
        one = cohort()
        assert (len(one), one.n_users, one.dimension) == (2, 2, 2)
        assert (one.n_points, one.n_datasets, one.max_steps) == (6, 5, 3)
        assert one.steps.tolist() == [3, 2]
        assert one.steps.dtype == np.int64
        assert repr(one) == "Cohort(2 users, 2 to 3 time steps, 6 points: x, z -> y)"
        assert "3 time steps" in repr(cohort().subset(["b"]))

    def test_subset_takes_data_and_truth_along(self):
        got = numbered(5).subset([3, 1])
        assert got.users == (3, 1)
        assert [y[0] for y in got.targets] == [3, 1]
        assert got.truth.indices == [3, 1]
        refused(lambda: numbered(3).subset([0, 7]), "7")
        refused(lambda: numbered(3).subset([[0]]), "[0]")
        refused(lambda: numbered(3).subset([0, 0]), "label")
        refused(lambda: numbered(3).subset([]), "lengths")

    @pytest.mark.parametrize(
        ("n", "fraction", "pilot"), [(15, 0.5, 7), (10, 0.5, 5), (100, 0.29, 29), (2, 0.9, 1)]
    )
    def test_split_is_a_partition(self, n, fraction, pilot):
        one, other = numbered(n).split(np.random.default_rng(1), fraction)
        assert (len(one), len(one) + len(other)) == (pilot, n)
        assert sorted(one.users + other.users) == list(range(n))
        assert one.truth.indices == list(one.users)
        assert [y[0] for y in other.targets] == list(other.users)

    def test_split_is_random_and_reproducible(self):
        pilots = {numbered(12).split(seed)[0].users for seed in range(5)}
        assert len(pilots) == 5
        again = numbered(12).split(np.random.default_rng(3))[0].users
        assert again == numbered(12).split(3)[0].users

    def test_each_user_is_equally_likely_a_pilot(self):
        rng, trials = np.random.default_rng(2), 1000
        pilots = [numbered(6).split(rng).pilot.users for _ in range(trials)]
        shares = np.bincount(np.ravel(pilots)) / trials
        assert np.all(np.abs(shares - 0.5) < 4.5 * 0.5 / np.sqrt(trials))

    @pytest.mark.parametrize("fraction", [0, 0.3, 1, np.nan, np.inf, "half", None])
    def test_split_refuses_an_empty_part(self, fraction):
        refused(lambda: numbered(3).split(0, fraction), str(fraction))

    @pytest.mark.parametrize(("steps", "ends"), [(1, [[1], [2]]), (2, [[1, 2], [2, 3]])])
    def test_truncate(self, steps, ends):
        one = cohort(truth=Recorder("kept"))
        got = one.truncate(steps)
        assert [e.tolist() for e in got.ends] == ends
        for u in range(2):
            np.testing.assert_array_equal(got.inputs[u], one.inputs[u][: ends[u][-1]])
            np.testing.assert_array_equal(got.targets[u], one.targets[u][: ends[u][-1]])
        assert got.truth.indices == "kept"
        assert_same(cohort().truncate(99), cohort())
        refused(lambda: cohort().truncate(0), "0")
        refused(lambda: cohort().truncate(1.5), "1.5")

    @pytest.mark.parametrize(
        ("step", "users", "ends"), [(0, 2, [1, 2]), (1, 2, [2, 3]), (2, 1, [3]), (-1, 2, [3, 3])]
    )
    def test_at(self, step, users, ends):
        one = cohort(truth=Recorder("all"))
        got = one.at(step)
        assert got.n_users == users
        assert [e.tolist() for e in got.ends] == [[n] for n in ends]
        for u, n in enumerate(ends):
            np.testing.assert_array_equal(got.inputs[u], one.inputs[u][:n])
            np.testing.assert_array_equal(got.targets[u], one.targets[u][:n])
        refused(lambda: one.at(3), "3")
        refused(lambda: one.at(-2), "-2")


def test_padded_arrays():
    one = cohort().truncate(2)
    x, y, _, steps = one.padded()
    assert x.shape == (2, 2, 3)
    assert x.flags.c_contiguous
    np.testing.assert_array_equal(x[0], [[0.5, 2.5, 0], [6, 4, 0]])
    np.testing.assert_array_equal(x[1], one.inputs[1].T)
    np.testing.assert_array_equal(y, [[1, 3, 0], [2, 5, 8]])
    np.testing.assert_array_equal(steps, [2, 2])
    ends = cohort().padded().ends
    np.testing.assert_array_equal(ends, [[1, 2, 3], [2, 3, 0]])
    assert ends.dtype == steps.dtype == np.int64
