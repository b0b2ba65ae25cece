"""What kem select leaves: files, their columns, and names in them."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from kem_pymc.reports.gather import Material
from tests.commands.conftest import fine, refused, run, table

DOCUMENT = Path(__file__).parents[2] / "docs" / "selections.md"


@pytest.fixture
def new(tmp_path):
    """A table of new users, whose labels a spreadsheet takes for formulas."""
    path = tmp_path / "new.csv"
    frame = table(users=2, weeks=2, seed=1)
    frame.assign(id=frame["id"].map({0: "=1+1", 1: "-b"})).to_csv(path, index=False)
    return path


def select(evolutions, new, folder, *options):
    data = ("--data", new, "--user", "id", "--time", "week", "--out", folder / "selections.csv")
    return fine("select", "--evolutions", evolutions, *data, *options)


def test_files_beside_each_other_that_a_report_reads(evolutions, new, tmp_path):
    coming = tmp_path / "tomorrow.csv"
    table(users=1).head(1).assign(id="=1+1", week=5).to_csv(coming, index=False)
    text = select(evolutions, new, tmp_path, "--future", coming)
    assert f"Predictions are in {tmp_path / 'predictions.csv'}" in text
    for name in ("selections.csv", "predictions.csv"):
        assert set(pd.read_csv(tmp_path / name)["user"]) == {"'=1+1", "'-b"}
    shutil.copy(evolutions, tmp_path)
    material = Material.of_folder(tmp_path)
    assert set(material.selections["user"]) == {"=1+1", "-b"}
    assert material.predictions.groupby("user")["observed"].apply(
        lambda observed: observed.isna().sum()
    ).to_dict() == {"=1+1": 1, "-b": 0}


def test_the_document_has_every_column(evolutions, new, tmp_path):
    select(evolutions, new, tmp_path, "--predictions", tmp_path / "p.csv")
    _, selections, predictions = DOCUMENT.read_text("utf-8").split("\n## ", 3)[:3]
    for text, file in ((selections, "selections.csv"), (predictions, "p.csv")):
        rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
        columns = re.findall(r"`(\w+)`", " ".join(rows))
        there = [name for name in pd.read_csv(tmp_path / file) if name not in ("sleep", "mood")]
        assert columns == there


def test_a_horizon_needs_features_that_stay(evolutions, new, tmp_path):
    arguments = ("--data", new, "--user", "id", "--time", "week", "--out", tmp_path / "s.csv")
    message = refused(run("select", "--evolutions", evolutions, *arguments, "--horizon", 2))
    assert "isn't a feature" in message
    assert "--future" in message
    assert not (tmp_path / "s.csv").exists()
