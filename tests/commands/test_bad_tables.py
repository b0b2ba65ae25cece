"""Each fault of a table that a user may bring, at the command line."""

import numpy as np
import pytest
import xarray as xr

from tests.commands.conftest import COLUMNS, SMALL, fine, refused, run, table


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
        (changed("steps", 3, np.nan), "'steps' has a missing or infinite value in row 3"),
        (changed("sleep", 4, np.inf), "'sleep' has a missing or infinite value in row 4"),
        (changed("week", 4, np.nan), "'week' has a missing or infinite value in row 4"),
        (changed("steps", 3, "many"), "'steps' has type"),
        (changed("week", 3, "monday"), "'week' has type"),
        (table().drop(index=range(1, 6)), "User 0 has one point"),
        (table().assign(steps=1.0), "'steps' is constant"),
        (table().assign(mood=1.0), "'mood' is constant"),
        (table().iloc[::-1], "is earlier than the one before"),
        (table().query("week != 1"), "no data at time 1"),
    ],
)
def test_refused(frame, complaint, tmp_path):
    assert complaint in refused(fit(frame, tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"trial.csv"}


def test_text_as_a_feature(tmp_path):
    frame = table().assign(mood="good")
    assert "'mood' has type" in refused(fit(frame, tmp_path, "--features", "sleep,mood"))


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
        (("--candidates", "LIN0, SE7"), "Use dimensions 0 to 1"),
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
    assert "holds no table" in message("empty.csv", b"")
    assert "holds no table" in message("image.csv", b"\x89PNG\xff\xfe")
    assert "holds no table" in message("image.parquet", b"\x89PNG\xff\xfe")
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
