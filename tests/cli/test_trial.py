"""``kem trial``: its commands do what docs/trial.md says, from rows to a replay."""

import sys

import pandas as pd
import pytest
from sqlalchemy import create_engine, text

from kem_pymc.trial import Trial
from tests.cli.conftest import fine, refused, run
from tests.trial.conftest import evolutions, learned, rows  # noqa: F401


@pytest.fixture
def db(tmp_path, evolutions):  # noqa: F811
    """The URL of a trial, whose evolutions are in a file."""
    evolutions.save(tmp_path / "evolutions.json")
    url = f"sqlite:///{tmp_path}/trial.db"
    said = fine(
        *("trial", "init", "--db", url, "--evolutions", tmp_path / "evolutions.json"),
        *("--user", "id", "--time", "week"),
    )
    assert "columns id, week, steps" in said
    return url


def test_a_trial_from_rows_to_a_replay(db, rows, tmp_path):  # noqa: F811
    file, coming = tmp_path / "monday.csv", tmp_path / "coming.csv"
    odd = pd.DataFrame(
        [{"id": "ann", "week": 9, "steps": 1e6}, {"id": "dan", "week": 0, "steps": 1}]
    )
    pd.concat([rows[:5], odd]).to_csv(file, index=False)
    for label in ("ann", "eve"):
        fine("trial", "register", label, "--db", db)
    said = fine("trial", "add", file, "--db", db, "--key", "monday")
    assert "Upload 1: 5 accepted, 1 quarantined, 1 unknown." in said
    assert "Check that its unit is the same" in " ".join(said.split())
    assert "as when it came first" in fine("trial", "add", file, "--db", db, "--key", "monday")
    assert "2 rows wait" in fine("trial", "waiting", "--db", db)
    assert "0 selections" in fine("trial", "update", "--db", db, "--budget", "0")
    assert "5 selections (5 green)" in fine("trial", "update", "--db", db)
    fine("trial", "release", "6", "--db", db)
    fine("trial", "withdraw", "ann", "9", "--db", db)
    pd.DataFrame({"id": ["ann"], "week": [5]}).to_csv(coming, index=False)
    said = fine("trial", "predict", "ann", coming, "--db", db, "--out", tmp_path / "out.csv")
    assert "Selection 5: selected (green)" in said
    with Trial.open(db) as trial:
        expected = trial.predict("ann", [[5.0]]).prediction
    found = pd.read_csv(tmp_path / "out.csv")
    assert found["mean"][0] == pytest.approx(expected.mean[0])
    assert found["low_95"][0] == pytest.approx(expected.quantile(0.025)[0])
    assert f"{expected.mean[0]:.4g}" in fine("trial", "predict", "ann", coming, "--db", db)
    assert "Withdrawn. Observation at 9" in fine("trial", "history", "ann", "--db", db)
    assert "as they were made" in fine("trial", "replay", "--db", db)
    fine("trial", "remove", "eve", "--db", db)
    engine = create_engine(db)
    with engine.begin() as connection:
        connection.execute(text("UPDATE selections SET hash = 'x' WHERE id = 3"))
    engine.dispose()
    result = run("trial", "replay", "--db", db)
    assert result.exit_code == 1
    assert "selection 3, time step 2 was changed" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("update", "--db", "sqlite:///none.db"), "no trial in"),
        (("update", "--db", "trial.db"), "URL of a database"),
        (("history", "p99"), "isn't registered"),
        (("release", "7"), "isn't in quarantine"),
        (("withdraw", "p99", "3"), "isn't registered"),
        (("add", "none.csv"), "no file none.csv"),
    ],
)
def test_wrong_input_is_refused_in_words(db, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = words if "--db" in words else (*words, "--db", db)
    assert said in refused(run("trial", *words))
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("words", [("update",), ("init", "--user", "id", "--time", "week")])
def test_without_its_packages_the_extra_is_named(db, words, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "kem_pymc.trial", None)
    more = ("--evolutions", tmp_path / "evolutions.json") if words[0] == "init" else ()
    assert "kem-pymc[trial]" in refused(run("trial", *words, *more, "--db", db))
