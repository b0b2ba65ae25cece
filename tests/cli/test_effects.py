"""``kem effects``."""

import pandas as pd
import pytest

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
    first = ["variable", "contrast", "estimate", "sd", "low_95", "high_95"]
    assert list(pairs)[:6] == first
    assert list(pairs["contrast"]) == ["low - high", "placebo - high", "placebo - low"]
    # One more visit of 68 changes little.
    assert pairs["estimate"].to_numpy() == pytest.approx(
        trial_posterior.comparisons("arm")["estimate"].to_numpy(), abs=0.5
    )
    assert f"placebo - high is {pairs['estimate'][1]:.3g} (95 % interval " in said
    curves = pd.read_csv(out / "curves.csv")
    assert list(curves)[:5] == ["group", "week", "mean", "low_95", "high_95"]
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
    assert "On average, log(y) changes by" in said
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
