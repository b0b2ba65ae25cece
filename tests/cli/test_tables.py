"""Tables from files: columns, dates, rows to come, and files that are none."""

import numpy as np
import pandas as pd
import pytest

from kem_pymc.cli.tables import Table
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.datasets import data_home
from kem_pymc.data.feature_distribution import FeatureDistribution
from kem_pymc.errors import DataWarning
from tests.cli.conftest import COLUMNS, refused, run, table
from tests.data_home import needs
from tests.refusals import refused as refused_call


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


DAYS = pd.date_range("2024-03-01", periods=9).astype(str)


def dated(dates=DAYS, **columns):
    """A table of two users with a row per date: nothing but dates and steps."""
    steps = np.random.default_rng(0).normal(size=2 * len(dates))
    return pd.DataFrame(
        {"id": np.repeat([1, 2], len(dates)), "date": [*dates] * 2, "steps": steps} | columns
    )


def read(frame, tmp_path, features=None, scope="pilot"):
    frame.to_csv(tmp_path / "dated.csv", index=False)
    names = {"user": "id", "time": "date", "target": "steps", "features": features}
    table = Table(data=tmp_path / "dated.csv", **names)
    return table.cohort({} if scope == "new" else None)


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
    names = {"user": "id", "time": "date", "target": "steps", "features": ["date"]}
    found = Table(data=tmp_path / "t.csv", **names).future(tmp_path / "tomorrow.csv", {})
    assert {label: x.tolist() for label, x in found.items()} == {1: [[14]], 2: [[5], [27]]}
    # Also of users whose labels are written otherwise, after rows with missing values are dropped.
    text = (tmp_path / "t.csv").read_text().replace("03-03,7", "03-03,NA").replace("1,", "1 ,")
    (tmp_path / "t.csv").write_text(text)
    again = Table(data=tmp_path / "t.csv", **names, missing="drop")
    found = again.future(tmp_path / "tomorrow.csv", {})
    assert {label: x.tolist() for label, x in found.items()} == {"1": [[14]], "2": [[5], [27]]}


def test_an_empty_cell_to_come_is_named_by_its_line(tmp_path):
    """Of the file, also where other users' rows come before it."""
    names = {"user": "id", "time": "day", "target": "steps", "features": ["day", "mood"]}
    data = {"id": [1, 1, 2, 2], "day": [0, 1, 0, 1], "mood": [0.1, 0.2, 0.3, 0.5], "steps": 5.0}
    pd.DataFrame(data).to_csv(tmp_path / "t.csv", index=False)
    coming = pd.DataFrame({"id": [2, 1, 2], "day": [2, 2, 3], "mood": [0.4, 0.4, None]})
    coming.to_csv(tmp_path / "tomorrow.csv", index=False)
    own = Table(data=tmp_path / "t.csv", **names)
    refused_call(
        lambda: own.future(tmp_path / "tomorrow.csv", {}),
        "missing value in line 4 of tomorrow.csv",
        "kem fit",
    )
    learned = FeatureDistribution.learn(own.cohort({}))
    found = own.future(tmp_path / "tomorrow.csv", {}, learned)
    assert np.isnan(found[2]).tolist() == [[False, False], [False, True]]


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
    unused = "arm (the same in every row), temperature (94 % of its values are missing)"
    shown = f"Features: date (time).\nNot used: {unused}.\nAs a feature, date is the number of"
    assert capsys.readouterr().out.startswith(shown)
    read(frame.assign(sleep=frame["steps"]), tmp_path, ["sleep"])
    assert capsys.readouterr().out == "Features: sleep (numbers).\n"
    read(frame.assign(stage=np.arange(18) % 4), tmp_path, ["stage"], scope="new")
    assert not capsys.readouterr().out
    read(frame.assign(stage=np.arange(18) % 4), tmp_path, None)
    assert "stage has 4 different whole numbers. If these are" in capsys.readouterr().out


def test_rows_are_counted_where_lines_are_not(tmp_path):
    text = dated().to_csv(index=False).replace("1,2024-03-02", "\n\n1,2024-03-02", 1)
    text = text.replace("2024-03-04,", "2024-03-04,x", 1)
    (tmp_path / "gaps.csv").write_text(text)
    columns = ("--user", "id", "--time", "date", "--target", "steps")
    data = ("--data", tmp_path / "gaps.csv", *columns, "--out", tmp_path / "r")
    assert "in data row 4, where" in refused(run("fit", *data))


def test_labels_keep_leading_zeros(tmp_path):
    frame = dated()
    assert read(frame, tmp_path).users == (1, 2)
    assert read(frame.assign(id=frame["id"].map("{:03d}".format)), tmp_path).users == ("001", "002")


def test_words_that_look_missing(tmp_path, capsys):
    """Fails where an arm called None is deleted, or files and frames are read unlike."""
    words = ["None", "Exercise", "NA", "null", "nan", "n/a"]
    frame = pd.DataFrame(
        {
            "id": np.repeat([*words, "7"], 3),
            "week": np.tile(["0", "1", "2"], 7),
            "arm": np.repeat([*words, "None"], 3),
            "dose": ["1", "NA", ".", "2", "3", "", *"456789012345678"],
            "steps": np.random.default_rng(0).normal(size=21).round(3),
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    names = {"user": "id", "time": "week", "target": "steps"}
    read = {
        "csv": Table(data=tmp_path / "t.csv", missing="drop", **names).cohort,
        "parquet": Table(data=tmp_path / "t.parquet", missing="drop", **names).cohort,
        "frame": lambda: Cohort.from_frame(frame, missing="drop", **names),
    }
    found, said = {}, {}
    for door, call in read.items():
        with pytest.warns(DataWarning) as caught:
            found[door] = call()
        said[door] = [str(w.message) for w in caught]
    assert "arm (categories, the same" in capsys.readouterr().out
    assert len({(cohort.digest(), *said[door]) for door, cohort in found.items()}) == 1
    assert found["csv"].users == ("Exercise", "NA", "null", "nan", "n/a", "7")
    assert found["csv"].levels == {"arm": ("Exercise", "NA", "None", "n/a", "nan", "null")}
    assert "3 of 21 rows with missing values: dose in 3 ('NA': 1, '.': 1)" in said["csv"][0]
    assert "also left out: None." in said["csv"][0]
    assert any("'arm' has 'NA' in 3 rows, 'null' in 3 rows" in m for m in said["csv"])
    kept = Table(data=tmp_path / "t.csv", **names)
    with pytest.warns(DataWarning):
        refused_call(kept.cohort, "3 of 21 rows", "dose in 3 ('NA': 1, '.': 1)", "(user 'None')")


def test_parquet_dates_features_and_batches(tmp_path):
    frame = table(weeks=4).rename(columns={"week": "day"})
    frame["day"] = pd.to_datetime("2024-01-01") + pd.to_timedelta(7 * frame["day"], unit="D")
    frame.to_parquet(tmp_path / "trial.parquet")
    names = {"user": "id", "time": "day", "target": "steps", "features": "sleep", "batch": 4}
    cohort = Table(data=tmp_path / "trial.parquet", **names).cohort()
    assert repr(cohort) == "Cohort(3 users, 2 time steps, 24 points: sleep -> steps)"


@needs("longitudinal")
def test_a_registry_is_read_with_the_options_of_its_first_refusal():
    """Irregular days, missing values and users with one row: all is said in one run."""
    path = data_home() / "longitudinal" / "pbcseq.csv"
    names = {"user": "id", "time": "day", "target": "bili"}
    message = refused_call(Table(data=path, **names).cohort, "832 of 1945 rows", "chol in 821")
    assert [line.split()[0] for line in message.splitlines()] == ["832", "Users"]
    with pytest.warns(DataWarning):
        cohort = Table(data=path, **names, missing="drop", drop_short=True).cohort()
    complete = pd.read_csv(path).dropna()
    kept = complete[complete["id"].duplicated(keep=False)]
    assert cohort.users == tuple(kept["id"].unique())
    assert cohort.n_points == len(kept)
