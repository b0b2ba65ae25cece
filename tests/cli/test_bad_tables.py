"""Each fault of a table that a user may bring, at the command line."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from kem_pymc.cli.job import pool_of
from kem_pymc.cli.tables import read_cohort, read_future
from kem_pymc.data.cohort import Cohort
from tests.cli.conftest import COLUMNS, SMALL, fine, refused, run, table
from tests.refusals import refused as refused_call


def fit(frame, tmp_path, *options):
    frame.to_csv(tmp_path / "trial.csv", index=False)
    arguments = ("--data", tmp_path / "trial.csv", *COLUMNS, *SMALL, *options)
    return run("fit", *arguments, "--base", "LIN", "--out", tmp_path / "results")


def changed(column, row, value):
    frame = table().astype({"week": object, "steps": object, "sleep": object})
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (table().drop(columns="steps"), "no column 'steps'"),
        (table().drop(columns="id"), "no column 'id'"),
        (table().head(0), "no rows"),
        (changed("steps", 3, np.nan), "'steps' has a missing or infinite value in line 5 (user 0)"),
        (changed("sleep", 4, np.inf), "'sleep' has a missing or infinite value in line 6 (user 0)"),
        (changed("week", 9, np.nan), "'week' has a missing or infinite value in line 11 (user 1)"),
        (changed("sleep", [3, 9], np.nan), "2 of 18 rows have missing or infinite values"),
        (changed("steps", 3, "many"), "'steps' has 'many' in line 5, where numbers belong"),
        (changed("week", 3, "monday"), "'monday' in line 5. Write dates as 2024-03-01"),
        (table().drop(index=range(1, 6)), "User 0 has one point"),
        (table().assign(steps=1.0), "'steps' is constant"),
        (table().iloc[::-1], "is earlier than the one before"),
        (table().query("week != 1 or id != 0"), "User 0 has no data at time 1"),
        (table().query("week != 1 or id != 0"), "--skip-gaps"),
    ],
)
def test_refused(frame, complaint, tmp_path):
    assert complaint in refused(fit(frame, tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"trial.csv"}


def test_text_as_a_feature(tmp_path):
    frame = table().assign(mood="good")
    message = refused(fit(frame, tmp_path, "--features", "sleep,mood"))
    assert "'mood' is constant" in message
    assert "--features" in message
    frame = changed("sleep", 1, "deep")
    message = refused(fit(frame, tmp_path, "--features", "sleep,mood"))
    assert "'sleep' has 'deep' in line 3, where numbers belong" in message


def test_gaps_may_be_skipped(tmp_path):
    result = fit(table().query("week != 1"), tmp_path, "--skip-gaps")
    assert result.exit_code == 0
    assert "3 users, 2 time steps" in result.output


def test_identical_rows_are_warned_of(tmp_path):
    frame = table()
    frame.loc[1] = frame.loc[0]
    result = fit(frame, tmp_path)
    assert result.exit_code == 0
    assert result.stderr.startswith("Warning 1 rows repeat an earlier row's")
    assert ".py:" not in result.stderr


def test_equal_inputs_with_different_targets_are_noise(tmp_path):
    frame = table()
    frame.loc[1] = frame.loc[0].replace(frame.loc[0, "steps"], 17.0)
    result = fit(frame, tmp_path)
    assert result.exit_code == 0
    assert not result.stderr


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--candidates", "LIN0, COS0"), "'COS0' is not a base kernel"),
        (("--candidates", "LIN0, SE7"), "Use dimensions 0 to 2"),
        (("--candidates", "LIN0, LIN0"), "given twice"),
        (("--candidates", ""), "not a base kernel"),
        (("--base", "COS"), "COS"),
        (("--candidates", "LIN0", "--interactions"), "given twice"),
        (("--features", "sleep,rest"), "no column 'rest'"),
    ],
)
def test_candidates_and_features(options, complaint, trial, tmp_path):
    out = ("--out", tmp_path / "results")
    assert complaint in refused(run("fit", "--data", trial, *COLUMNS, *options, *out))


def test_columns_must_be_named(trial):
    assert "Add --user, --time and --target" in refused(run("fit", "--data", trial, "--user", "id"))


def test_files(tmp_path):
    def message(name, text=None):
        if text is not None:
            (tmp_path / name).write_bytes(text)
        data = ("--data", tmp_path / name, *COLUMNS, "--out", tmp_path / "results")
        return refused(run("fit", *data))

    assert "There is no file" in message("missing.csv")
    assert "doesn't contain a table" in message("empty.csv", b"")
    assert "isn't text in UTF-8" in message("image.csv", b"\x89PNG\xff\xfe")
    assert "isn't text in UTF-8" in message(
        "latin.csv", "id,week,steps\nJosé,1,2\n".encode("latin1")
    )
    rows = b"id;week;steps;sleep\n1;1;2,5;3,5\n"
    assert "separated by semicolons" in message("german.csv", rows)
    assert "separated by tabs" in message("tabs.csv", rows.replace(b";", b"\t"))
    assert "more cells than its header" in message("long.csv", b"id,week,steps\n1,1,2,3\n")
    assert "doesn't contain a table" in message("image.parquet", b"\x89PNG\xff\xfe")
    assert "neither .csv nor .parquet" in message("table.xlsx", b"")


def test_labels_keep_leading_zeros(tmp_path):
    frame = table()
    frame["id"] = frame["id"].map("{:03d}".format)
    result = fit(frame, tmp_path)
    assert result.exit_code == 0
    with xr.open_datatree(tmp_path / "results" / "posterior.zarr", engine="zarr") as idata:
        assert list(idata["posterior"].coords["user"].values) == ["000", "001", "002"]


def test_numbers_as_options(trial):
    result = run("fit", "--data", trial, *COLUMNS, "--draws", 0)
    assert result.exit_code == 2
    assert "--draws" in result.stderr


def test_commas_in_candidates_may_have_spaces(trial, tmp_path):
    options = ("--candidates", "LIN0,  LIN0 x SE1", "--out", tmp_path / "results")
    assert "LIN0, LIN0 x SE1" in fine("fit", "--data", trial, *COLUMNS, *SMALL, *options)


DAYS = pd.date_range("2024-03-01", periods=9).astype(str)


def dated(dates=DAYS, **columns):
    """A table of two users with a row per date: nothing but dates and steps."""
    steps = np.random.default_rng(0).normal(size=2 * len(dates))
    return pd.DataFrame(
        {"id": np.repeat([1, 2], len(dates)), "date": [*dates] * 2, "steps": steps} | columns
    )


def read(frame, tmp_path, features=None, scope="pilot"):
    frame.to_csv(tmp_path / "dated.csv", index=False)
    return read_cohort(
        tmp_path / "dated.csv",
        user="id",
        time="date",
        target="steps",
        features=features,
        batch=None,
        skip_gaps=False,
        scope=scope,
    )


def test_dates_are_days_since_the_users_first_row(tmp_path, capsys):
    cohort = read(dated(), tmp_path)
    assert cohort.features == ("date",)
    for x in cohort.inputs:
        np.testing.assert_array_equal(x[:, 0], np.arange(9))
    assert "date is the number of days since the user's first row" in capsys.readouterr().out
    # New users by their own first row; a table whose dates aren't the time can't be read so.
    new = read(dated(["2025-05-02", "2025-05-05"]), tmp_path, ["date"], "new")
    np.testing.assert_array_equal(new.inputs[0][:, 0], [0, 3])
    frame = dated().rename(columns={"date": "start"}).assign(date=[*range(9)] * 2)
    refused_call(lambda: read(frame, tmp_path, ["start"], "new"), "'start' has dates", "the time")


def test_days_to_come_count_from_a_users_first_row(tmp_path):
    pd.DataFrame(
        {"id": [1, 1, 2, 2], "date": ["2024-03-01", "2024-03-03", "2024-03-05", "2024-03-06"]}
    ).assign(steps=[5, 7, 6, 8]).to_csv(tmp_path / "t.csv", index=False)
    pd.DataFrame({"id": [2, 1, 2], "date": ["2024-03-10", "2024-03-15", "2024-04-01"]}).to_csv(
        tmp_path / "tomorrow.csv", index=False
    )
    columns = {"user": "id", "time": "date", "target": "steps", "features": ["date"], "levels": {}}
    found = read_future(tmp_path / "tomorrow.csv", tmp_path / "t.csv", **columns)
    assert {label: x.tolist() for label, x in found.items()} == {1: [[14]], 2: [[5], [27]]}


@pytest.mark.parametrize(
    ("dates", "words"),
    [
        (["01.03.2024", "02.03.2024"], "'01.03.2024' in line 2. Write dates as 2024-03-01"),
        (["03/01/2024", "03/02/2024"], "'03/01/2024' in line 2. Write dates as 2024-03-01"),
        (["2024-02-29", "2024-02-30"], "'2024-02-30' in line 3. Write dates as 2024-03-01"),
        (["2024-03-01", "5", "2024-03-03"], "'5' in line 3. Write dates as 2024-03-01"),
        (["2024-03-01T10:00Z", "2024-03-01"], "as in line 3, don't. Write all of them"),
    ],
)
def test_dates_that_are_refused(dates, words, tmp_path):
    refused_call(lambda: read(dated(dates), tmp_path), "'date'", words)


def test_several_utc_offsets_are_read_as_utc(tmp_path):
    times = ["2024-03-30T12:00:00+01:00", "2024-03-31T12:00:00+02:00", "2024-04-01T12:00:00+02:00"]
    cohort = read(dated(times), tmp_path)
    np.testing.assert_allclose(cohort.inputs[1][:, 0], [0, 23 / 24, 47 / 24])


def test_columns_that_are_not_used_are_named(tmp_path, capsys):
    frame = dated(arm="control", temperature=["21.5", *[None] * 17])
    cohort = read(frame, tmp_path)
    assert cohort.features == ("date",)
    unused = "arm (the same in every row), temperature (94% of its values are missing)"
    shown = f"Features: date (time).\nNot used: {unused}.\nAs a feature, date is the number of"
    assert capsys.readouterr().out.startswith(shown)
    read(frame.assign(sleep=frame["steps"]), tmp_path, ["sleep"])
    assert capsys.readouterr().out == "Features: sleep (numbers).\n"
    read(frame.assign(stage=np.arange(18) % 4), tmp_path, ["stage"], scope="new")
    assert not capsys.readouterr().out
    read(frame.assign(stage=np.arange(18) % 4), tmp_path, None)
    assert "stage has 4 different whole numbers. If these are" in capsys.readouterr().out


def test_row_numbers_are_no_feature(tmp_path, capsys):
    dated().reset_index(drop=True).to_csv(tmp_path / "t.csv")
    options = {"user": "id", "time": "date", "target": "steps", "batch": None, "skip_gaps": False}
    cohort = read_cohort(tmp_path / "t.csv", features=None, scope="pilot", **options)
    assert cohort.features == ("date",)
    assert "Not used: Unnamed: 0 (it has no name in the file).\n" in capsys.readouterr().out
    table = pd.read_csv(tmp_path / "t.csv", parse_dates=["date"])
    assert Cohort.from_frame(table, user="id", time="date", target="steps").features == ("date",)
    named = read_cohort(tmp_path / "t.csv", features=["Unnamed: 0"], scope="pilot", **options)
    assert named.features == ("Unnamed: 0",)


def test_rows_are_counted_where_lines_are_not(tmp_path):
    text = dated().to_csv(index=False).replace("1,2024-03-02", "\n\n1,2024-03-02", 1)
    text = text.replace("2024-03-04,", "2024-03-04,x", 1)
    (tmp_path / "gaps.csv").write_text(text)
    columns = ("--user", "id", "--time", "date", "--target", "steps")
    data = ("--data", tmp_path / "gaps.csv", *columns, "--out", tmp_path / "r")
    assert "in data row 4, where" in refused(run("fit", *data))


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, "CONST LIN0 PER0 SE0 LIN1 ARD"),
        ({"base": ["SE"]}, "SE0 SE1 ARD"),
        ({"candidates": ["PER1"]}, "PER1"),
        (
            {"interactions": True},
            "CONST LIN0 PER0 SE0 LIN1 LIN0xLIN0 LIN0xPER0 LIN0xSE0 LIN0xLIN1 PER0xPER0 PER0xSE0 "
            "LIN1xPER0 LIN1xSE0 ARD",
        ),
    ],
)
def test_features_with_two_values_have_lin_alone_by_default(options, names):
    frame = table().assign(mood=np.arange(18) % 2)
    columns = {"user": "id", "time": "week", "target": "steps", "features": ["sleep", "mood"]}
    cohort = Cohort.from_frame(frame, **columns)
    asked = {"candidates": None, "base": None, "interactions": False} | options
    found = [name.replace(" ", "") for name in pool_of(cohort, **asked).names]
    assert sorted(found) == sorted(names.split())


def test_by_default_one_feature_with_two_values_has_lin_alone():
    frame = table().assign(mood=np.arange(18) % 2)
    cohort = Cohort.from_frame(frame, user="id", time="week", target="steps", features="mood")
    assert pool_of(cohort, None, None, False).names == ["CONST", "LIN0"]
