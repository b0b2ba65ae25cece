"""``kem effects``."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from tests.cli.conftest import fine, refused, run
from tests.population.conftest import trial_posterior  # noqa: F401
from tests.population.trial import trial

COLUMNS = ("--user", "user", "--time", "week", "--target", "y")


@pytest.fixture
def visits(tmp_path):
    """A trial's table, with a user who came once."""
    once = pd.DataFrame([("once", 2.0, "low", 50.0, 25.0)], columns=trial().columns)
    path = tmp_path / "visits.csv"
    pd.concat([trial(), once]).to_csv(path, index=False)
    return path


def test_the_answers_of_the_model_are_written_and_said(visits, tmp_path, trial_posterior):  # noqa: F811
    out = tmp_path / "effects"
    said = fine("effects", "--data", visits, *COLUMNS, "--by", "arm", "--out", out)
    pairs = pd.read_csv(out / "comparisons.csv")
    first = ["variable", "contrast", "by", "group", "estimate", "sd", "low_95", "high_95"]
    assert list(pairs)[:8] == first
    assert list(pairs["contrast"]) == ["low - high", "placebo - high", "placebo - low"]
    # One more visit of 68 changes little.
    assert pairs["estimate"].to_numpy() == pytest.approx(
        trial_posterior.comparisons("arm")["estimate"].to_numpy(), abs=0.5
    )
    assert (
        f"with arm placebo minus that with high is {pairs['estimate'][1]:#.3g} (95 % interval "
        in said
    )
    slopes = (
        pd.read_csv(out / "slopes.csv").query("variable == 'week'").set_index("group")["estimate"]
    )
    assert f"y changes with arm high by {slopes['high']:#.3g} (95 % interval " in said
    assert "y changes by " in said  # per unit of base, a number
    assert "Users' levels, at the mean of week, and lines in week have a correlation of " in said
    curves = pd.read_csv(out / "curves.csv")
    assert list(curves)[:6] == ["by", "group", "week", "mean", "low_95", "high_95"]
    assert len(curves) == 3 * 6
    assert pd.read_csv(out / "shares.csv")["share"].sum() == pytest.approx(1)
    assert set(pd.read_csv(out / "users.csv")["user"]) == {*trial()["user"], "once"}
    assert {"curves.png", "users.png", "shares.png"} < {path.name for path in out.iterdir()}
    assert "isn't empty" in refused(run("effects", "--data", visits, *COLUMNS, "--out", out))
    # Logs, without groups, in the place of these results.
    table = trial().drop(columns=["arm"]).assign(y=trial()["y"].clip(lower=1))
    table.to_csv(visits, index=False)
    options = ("--transform", "log", "--out", out, "--overwrite")
    said = fine("effects", "--data", visits, *COLUMNS, *options)
    assert "The mean curve of log(y) changes by" in said
    assert pd.read_csv(out / "comparisons.csv").empty
    assert set(pd.read_csv(out / "curves.csv")["group"]) == {"all"}


@pytest.mark.parametrize(
    ("by", "message"),
    [("base", "has numbers"), ("dose", "no feature 'dose'")],
)
def test_groups_that_cannot_be_compared_are_refused(visits, tmp_path, by, message):
    command = ("effects", "--data", visits, *COLUMNS, "--by", by, "--out", tmp_path / "new")
    assert message in refused(run(*command))
    assert not (tmp_path / "new").exists()


def test_every_group_feature_has_its_rows_and_its_panel(visits, tmp_path):
    """Fails where levels lack the name of their feature, or only the first feature is drawn."""
    table = pd.read_csv(visits)
    table["sex"] = table["user"].map(dict(zip(table["user"].unique(), "fm" * 7, strict=False)))
    table.to_csv(visits, index=False)
    fine("effects", "--data", visits, *COLUMNS, "--out", tmp_path / "two")
    found = {
        name: pd.read_csv(tmp_path / "two" / f"{name}.csv", keep_default_na=False)
        for name in ("comparisons", "curves", "slopes")
    }
    arms = [("arm", "high"), ("arm", "low"), ("arm", "placebo")]
    groups = [*arms, ("sex", "f"), ("sex", "m")]
    rows = {name: list(zip(t["by"], t["group"], strict=True)) for name, t in found.items()}
    assert rows["slopes"] == 2 * [("", "all"), *groups]
    assert list(found["slopes"]["variable"]) == ["week"] * 6 + ["base"] * 6
    assert list(dict.fromkeys(rows["curves"])) == groups
    assert set(rows["comparisons"]) == {("", "all")}
    assert list(found["comparisons"]["variable"]) == ["arm"] * 3 + ["sex"]
    height, width = imread(tmp_path / "two" / "curves.png").shape[:2]
    assert height > width  # of one panel .6 times the width


def test_without_the_time_nothing_is_said_of_it(visits, tmp_path):
    """Least squares of users' means is the reference, as all have three visits here.

    Fails where what is said or written needs the time.
    """
    table = trial().groupby("user").head(3)
    table.to_csv(visits, index=False)
    out = tmp_path / "effects"
    said = fine("effects", "--data", visits, *COLUMNS, "--features", "arm,base", "--out", out)
    tables = ("comparisons.csv", "slopes.csv", "users.csv", "shares.csv")
    names = *tables, "users.png", "shares.png"
    assert {path.name for path in out.iterdir()} == {*names}
    means = table.groupby("user").agg({"y": "mean", "arm": "first", "base": "first"})
    design = [means["arm"] == arm for arm in ("high", "low", "placebo")]
    high, low, placebo, _ = np.linalg.lstsq(np.column_stack([*design, means["base"]]), means["y"])[
        0
    ]
    found = pd.read_csv(out / "comparisons.csv")["estimate"]
    assert found.to_numpy() == pytest.approx([low - high, placebo - high, placebo - low], abs=1e-4)
    users = pd.read_csv(out / "users.csv")
    assert list(users)[:5] == ["user", "level", "level_low_95", "level_high_95", "unusual"]
    parts = pd.read_csv(out / "shares.csv")["component"]
    assert list(parts) == ["arm", "base", "personal level", "noise"]
    sentences = said.split("Features: ")[1].splitlines()[1:]
    assert [line.split(" is ")[0] for line in sentences[:3]] == [
        "y with arm low minus that with high",
        "y with arm placebo minus that with high",
        "y with arm placebo minus that with low",
    ]
    assert sentences[3].startswith("y changes by ")
    assert "per unit of base" in sentences[3]
    assert sentences[4].startswith("Of the variance of y that the model expects over all users: ")
    assert "week" not in said


def test_results_are_written_whether_anyone_reads_the_screen(visits, tmp_path):
    """Into pipes whose readers are gone: at once for messages, and for errors and progress."""
    out = tmp_path / "effects"
    program = [sys.executable, "-c", "from kem_pymc.cli.main import main; main()"]
    program += ["effects", "--data", visits, *COLUMNS]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*map(str, program), "--out", str(out)], stdout=writing, stderr=writing)
    os.close(writing)
    assert done.returncode == 0
    assert (out / "shares.csv").is_file()
