"""What kem select leaves: files, their columns, and names in them."""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from kem_pymc import Evolutions, KEMSelector
from kem_pymc.reports.gather import Material
from tests.cli.conftest import fine, refused, run, table

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


@pytest.mark.integration
def test_the_document_has_every_column(evolutions, new, tmp_path):
    select(evolutions, new, tmp_path, "--predictions", tmp_path / "p.csv")
    _, selections, predictions = DOCUMENT.read_text("utf-8").split("\n## ", 3)[:3]
    for text, file in ((selections, "selections.csv"), (predictions, "p.csv")):
        rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
        columns = re.findall(r"`(\w+)`", " ".join(rows))
        there = [name for name in pd.read_csv(tmp_path / file) if name not in ("sleep", "mood")]
        assert columns == there


@pytest.mark.integration
def test_draws_of_the_evolutions(evolutions, new, tmp_path):
    learned = Evolutions.load(evolutions)
    frame = pd.read_csv(new).query("id == '-b'")
    x, y = frame[["sleep", "mood"]].to_numpy(), frame["steps"].to_numpy()
    ways = {
        ("--average", 3): (KEMSelector(learned, average=3), "3 draws, averaged"),
        ("--draw", 5): (KEMSelector(learned.single_draw(5)), "draw 5"),
        ("--graph",): (KEMSelector(learned.most_probable()), "most probable graph, "),
        (): (KEMSelector(learned), "all draws"),
    }
    for k, (options, (selector, words)) in enumerate(ways.items()):
        (tmp_path / str(k)).mkdir()
        select(evolutions, new, tmp_path / str(k), *options)
        row = pd.read_csv(tmp_path / str(k) / "selections.csv").query('user == "\'-b"').iloc[0]
        shown = selector.select(x[:2], y[:2])
        assert json.loads(row["considered"])[shown.label()] == pytest.approx(
            {"bic": shown.considered[0].bic, "score": max(c.score for c in shown.considered)}
        )
        assert row["noise"] == pytest.approx(shown.noise)
        assert json.loads(row["settings"])["evolutions"].startswith(words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--average", 3, "--graph"), "--average and --graph are different ways"),
        (("--draw", 99), "no draw 99. Give 0 to 15"),
    ],
)
def test_draws_that_are_refused(evolutions, new, tmp_path, options, words):
    arguments = ("--data", new, "--user", "id", "--time", "week", "--out", tmp_path / "s.csv")
    assert words in refused(run("select", "--evolutions", evolutions, *arguments, *options))


def test_a_horizon_needs_features_that_stay(evolutions, new, tmp_path):
    arguments = ("--data", new, "--user", "id", "--time", "week", "--out", tmp_path / "s.csv")
    message = refused(run("select", "--evolutions", evolutions, *arguments, "--horizon", 2))
    assert "isn't a feature" in message
    assert "--future" in message
    assert not (tmp_path / "s.csv").exists()
