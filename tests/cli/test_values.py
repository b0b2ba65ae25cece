"""Missing values and skewed targets at the command line, from a table to predictions."""

import numpy as np
import pandas as pd
import pytest

from kem_pymc import Evolutions
from tests.cli.conftest import COLUMNS, SMALL, fine, refused, run, table


@pytest.mark.integration
def test_missing_values_and_a_logarithm(tmp_path):
    """Catches rows dropped without a word, and predictions left in logarithms."""
    df = table(users=4)
    df["steps"] = np.exp(df["steps"] / 500)
    df["steps"] *= 1000 / df["steps"].median()
    df.loc[[3, 8, 9], "sleep"] = np.nan
    path, out = tmp_path / "pilot.csv", tmp_path / "fit"
    df.to_csv(path, index=False)
    how = ("--base", "LIN", "--shared", "none", "--out", out)
    assert "--missing drop" in refused(run("fit", "--data", path, *COLUMNS, *SMALL, *how))
    dropped = ("--missing", "drop")
    shown = fine("fit", "--data", path, *COLUMNS, *SMALL, *how, *dropped, "--transform", "log")
    assert "3 of 24 rows with missing values: sleep in 3" in shown
    assert "0: 1, 1: 2" in shown
    assert ".py:" not in shown  # where Python's own warnings come from
    assert "The modelled quantity is log(steps)." in shown
    learned = Evolutions.load(out / "evolutions.json")
    logs = np.log(df.dropna()["steps"])
    assert learned.scaling.target_mean == logs.mean()
    assert learned.scaling.transform is not None

    files = ("--out", tmp_path / "selections.csv", "--predictions", tmp_path / "predictions.csv")
    new = ("--evolutions", out / "evolutions.json", "--data", path, *COLUMNS[:4])
    fine("select", *new, *dropped, *files, "--cores", "1")
    predictions = pd.read_csv(tmp_path / "predictions.csv")
    assert (predictions["mean"] > 0).all()
    assert predictions["mean"].max() < 50 * df["steps"].max()
    df.assign(steps=0.0).to_csv(path, index=False)
    zero = run("select", *new, *dropped, *files, "--overwrite").stderr
    assert "The target 0 of user 0 can't be transformed by log" in zero
    assert "log1p" in zero
    df.assign(steps=df["steps"].where(df["id"] > 0, 0.0)).to_csv(path, index=False)
    how = (*COLUMNS, *dropped, "--transform", "log", "--out", tmp_path / "compared")
    assert "The target 0 of user 0" in run("compare", "--data", path, *how).stderr


@pytest.mark.integration
def test_counts_with_exposures(tmp_path):
    """From a table of counts to predictions of counts; exposures without counts are refused."""
    df = table(users=4)
    df["hours"] = 1.0 + df.index % 3
    df["steps"] = np.random.default_rng(0).poisson(2 * df["hours"])
    path, out = tmp_path / "pilot.csv", tmp_path / "fit"
    df.to_csv(path, index=False)
    how = ("--base", "LIN", "--shared", "none", "--size", "hours", "--out", out)
    assert "without a family" in refused(run("fit", "--data", path, *COLUMNS, *SMALL, *how))
    binary = refused(run("fit", "--data", path, *COLUMNS, *SMALL, *how, "--family", "binary"))
    assert "targets of the family binary have none" in binary
    df.assign(steps=df["steps"].where(df["id"] < 2, -7)).to_csv(tmp_path / "below.csv", index=False)
    how = (*SMALL, *how, "--family", "count")
    below = refused(run("fit", "--data", tmp_path / "below.csv", *COLUMNS, *how))
    assert "The target -7 of user 2 can't belong to the family count" in below
    shown = fine("fit", "--data", path, *COLUMNS, *how)
    assert "Targets are of the family count; modelled is the log rate of steps." in shown
    assert "hours" not in Evolutions.load(out / "evolutions.json").features
    files = ("--out", tmp_path / "selections.csv", "--predictions", tmp_path / "predictions.csv")
    new = ("--evolutions", out / "evolutions.json", "--data", path, *COLUMNS[:4])
    fine("select", *new, "--size", "hours", *files, "--cores", "1")
    predictions = pd.read_csv(tmp_path / "predictions.csv")
    for name in ("median", "low_95", "high_95"):
        assert (predictions[name] == predictions[name].round()).all()
    assert (predictions["mean"] > 0).all()
    # Rates are those of an hour: where there are three, counts are larger.
    means = predictions.groupby(predictions["point"] % 3)["mean"].mean()
    assert means[2] > 1.5 * means[0]
