"""``kem trial``: its commands do what docs/tutorials/trial.md says, from rows to a replay."""

import shutil
import sys

import pandas as pd
import pytest
from sqlalchemy import create_engine, text

from kem_pymc.trial import Trial, relearning
from tests.cli.conftest import SMALL, fine, fitted, refused, run, table  # noqa: F401
from tests.trial.conftest import evolutions, insert, learned, other, rows  # noqa: F401


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
    assert "Rows that wait for a decision: 2." in fine("trial", "waiting", "--db", db)
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


def test_participants_are_moved_to_artefacts(db, rows, other, tmp_path):  # noqa: F811
    rows.to_csv(tmp_path / "rows.csv", index=False)
    fine("trial", "add", tmp_path / "rows.csv", "--db", db, "--register")
    fine("trial", "update", "--db", db)
    with Trial.open(db) as trial:
        insert(trial, other)
    assert "0 participants. Learned from 8 pilot" in fine("trial", "artefacts", "--db", db)
    assert "0 gained, 0 lost, 0 changed" in fine("trial", "artefacts", "2", "--db", db)
    assert "Moved 1 participant to" in fine("trial", "move", "2", "ann", "--db", db)
    assert "Moved 2 participants to" in fine("trial", "move", "2", "--db", db)
    fine("trial", "adopt", "2", "--db", db)
    assert "3 participants, and those who register" in fine("trial", "artefacts", "--db", db)
    assert "From artefact 1 to 2" in fine("trial", "history", "ann", "--db", db)
    assert "as they were made" in fine("trial", "replay", "--db", db)
    assert "no artefact 3" in refused(run("trial", "move", "3", "--db", db))


def interrupted(*_):
    raise KeyboardInterrupt


@pytest.mark.slow  # what it calls is tested in tests/trial
def test_evolutions_are_learned_anew(fitted, tmp_path, monkeypatch):  # noqa: F811
    results, db = tmp_path / "results", f"sqlite:///{tmp_path}/trial.db"
    shutil.copytree(fitted, results)
    fine(
        *("trial", "init", "--db", db, "--evolutions", results / "evolutions.json"),
        *("--user", "id", "--time", "week"),
    )
    table(users=2, seed=1).to_csv(tmp_path / "rows.csv", index=False)
    fine("trial", "add", tmp_path / "rows.csv", "--db", db, "--register")
    fine("trial", "update", "--db", db)
    command = ("trial", "relearn", results, "--db", db, *SMALL)
    with monkeypatch.context() as patch:
        patch.setattr(relearning, "differences", interrupted)  # once all draws are there
        result = run(*command)
    assert result.exit_code == 130
    assert "no new artefact" in " ".join(result.output.split())
    said = fine(*command)
    assert "Resuming the run" in said
    assert "Artefact 2: Learned from 3 pilot users and 2 participants (6 rows)." in said
    assert not (tmp_path / "results.relearn.run").exists()
    assert "2 participants, and those" in fine("trial", "artefacts", "--db", db)
    assert "can't be read" in refused(run("trial", "relearn", tmp_path, "--db", db, *SMALL))


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
