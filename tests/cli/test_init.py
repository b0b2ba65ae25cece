"""The study file that is written to start from."""

import pytest

from tests.cli.conftest import SMALL, fine, refused, run, table


@pytest.mark.integration
def test_init_writes_a_study_that_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table().to_csv("trial.csv", index=False)
    assert "kem fit mine.py" in fine("init", "mine.py")
    text = fine("fit", "mine.py", *SMALL, "--out", "results")
    assert "CONST, LIN(sleep), LIN(mood), SE(sleep), SE(mood), " in text


def test_init_does_not_overwrite(tmp_path):
    path = tmp_path / "study.py"
    path.write_text("mine")
    assert "exists" in refused(run("init", path))
    assert path.read_text() == "mine"


def test_init_names(tmp_path):
    assert "End it with .py" in refused(run("init", tmp_path / "study"))
    assert "can't be written" in refused(run("init", tmp_path / "nowhere" / "study.py"))
