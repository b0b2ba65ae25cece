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
