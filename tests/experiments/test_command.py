"""The command: figures as files, resumed where they are, refused where they can't be."""

import pandas as pd
import pytest
from typer.testing import CliRunner

from experiments import papers
from experiments.__main__ import app
from experiments.settings import default
from kem_pymc.cli.folders import LOCK, locked
from tests.cli.conftest import refused
from tests.runs.runs import in_child

QUICK = ("--quick", "--cores", "1")


def reproduce(*arguments):
    """Run ``python -m experiments`` in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def reproduced(*arguments):
    """Run it, which must succeed, and return what it printed."""
    result = reproduce(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def tiny_figures(tiny, monkeypatch):
    """The command's figures of KEM are those of the tiny experiment."""
    monkeypatch.setattr(papers.trials, "settings", lambda: tiny)


@pytest.mark.integration
@pytest.mark.usefixtures("tiny_figures")
def test_files_of_a_figure(tmp_path, monkeypatch):
    """They are there, and what was run isn't run again."""
    out = tmp_path / "out"
    text = reproduced("kem-fig5", "--out", out, *QUICK)
    assert {"kem-fig5.csv", "kem-fig5.png", "kem-fig5.md", "runs", LOCK} == {
        p.name for p in out.iterdir()
    }
    assert "The paper's claims about KEM" in text
    assert "Number of tasks: 2." in text
    page = (out / "kem-fig5.md").read_text("utf-8")
    assert "Trials: Tiny 1." in page
    assert "Quick: too few trials" in page
    values = pd.read_csv(out / "kem-fig5.csv")
    monkeypatch.setattr(papers.trials.KEMTask, "run", None)
    text = reproduced("kem-fig5", "--out", out, *QUICK)
    assert "Number of tasks" not in text
    pd.testing.assert_frame_equal(pd.read_csv(out / "kem-fig5.csv"), values)


def test_an_unknown_figure(tmp_path):
    message = refused(reproduce("kem-fig99", "--out", tmp_path / "out"))
    assert "kem-fig4" in message
    assert reproduced("list").split() == list(papers.names())


def test_somebody_elses_folder(tmp_path):
    (tmp_path / "thesis.tex").touch()
    assert "doesn't contain results" in refused(reproduce("kem-fig4", "--out", tmp_path))
    assert "is a file" in refused(reproduce("kem-fig4", "--out", tmp_path / "thesis.tex"))


def test_one_command_at_a_time(tmp_path):
    """For `kem compare` too, which keeps its results in the same way."""
    pytest.importorskip("fcntl")

    def other():
        assert "is using the folder" in refused(reproduce("kem-fig5", "--out", tmp_path / "out"))

    with locked(tmp_path / "out"):
        assert in_child(other) == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {LOCK}


def test_other_figures_have_no_limit_of_time(tmp_path):
    message = refused(reproduce("boms-fig2", "--seconds", 5, "--out", tmp_path))
    assert "boms-fig2 has no limit of time" in message


@pytest.mark.parametrize("figure", ["evocov-table7", "boms-fig2", "kem-fig7"])
def test_without_any_data_nothing_is_made(tmp_path, figure, monkeypatch):
    monkeypatch.setenv("KEM_DATA", str(tmp_path))
    result = reproduce(figure, "--out", tmp_path / "out", "--cores", 1)
    assert result.exit_code == 2, result.output
    assert "There is no file" in result.stderr
    assert not (tmp_path / "out" / f"{figure}.csv").exists()


@pytest.mark.integration
def test_table_of_evolved_kernels(tmp_path, monkeypatch):
    """Two series, two kernels each."""
    known = default()
    changes = {"data": ["mornings", "announcements"], "quick_kernels": 2}
    table = known.extrapolations["evocov-table8"].model_copy(update=changes)
    changed = known.model_copy(update={"extrapolations": {"evocov-table8": table}})
    monkeypatch.setattr(papers, "default", lambda: changed)
    out = tmp_path / "out"
    text = reproduced("evocov-table8", "--out", out, *QUICK)
    assert "Number of tasks: 6." in text
    assert {"evocov-table8.csv", "evocov-table8.png"} < {path.name for path in out.iterdir()}
    assert "Trials: 1. Each search ends after 2 kernels." in (out / "evocov-table8.md").read_text()


@pytest.mark.integration
def test_games_without_data_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("KEM_DATA", str(tmp_path))
    result = reproduce("dgpucb-fig2", *QUICK, "--out", tmp_path / "out", "--trials", 1)
    assert result.exit_code == 0, result.output
    assert "influenza is left out" in result.stderr
    problems = set(pd.read_csv(tmp_path / "out" / "dgpucb-fig2.csv")["problem"])
    assert problems == {"se", "matern", "rq"}
