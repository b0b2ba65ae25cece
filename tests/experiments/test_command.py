"""The command: figures as files, resumed where they are, refused where they can't be."""

from importlib import resources
from io import StringIO

import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from experiments.__main__ import app
from experiments.settings import default, read
from kem_pymc.cli import screen
from kem_pymc.cli.folders import LOCK, locked
from kem_pymc.comparison import runner
from tests.cli.conftest import refused
from tests.experiments.conftest import TINY
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
def settings(tmp_path):
    """The tiny experiment, and a figure whose data aren't there."""
    path = tmp_path / "tiny.toml"
    energy = '[studies.energy]\ntitle = "UCI: Energy"\ndata = "energy"\npool = "energy"\n'
    energy += 'judged = "next"\ntrials = 1\n\n[methods."KEM"]'
    text = TINY.replace('[methods."KEM"]', energy, 1)
    path.write_text(text.replace('studies = ["batches", "tiny"]', 'studies = ["tiny", "energy"]'))
    return path


@pytest.mark.integration
def test_files_of_a_figure(settings, tmp_path, monkeypatch):
    out = tmp_path / "out"
    text = reproduced("kem-fig5", "--settings", settings, "--out", out, *QUICK)
    assert {"kem-fig5.csv", "kem-fig5.png", "kem-fig5.md", "runs", LOCK} == {
        p.name for p in out.iterdir()
    }
    assert "The paper's claims about KEM" in text
    assert "Number of tasks: 2. In each task, a group of methods learns and selects." in text
    assert "1 of 2" not in text  # lines are half a minute apart
    assert "2 of 2: Tiny, trial 1: Final\n" in text
    page = (out / "kem-fig5.md").read_text("utf-8")
    assert "Trials: Tiny 1." in page
    assert "Quick: too few trials" in page

    def forbidden(_):
        raise AssertionError("run again")

    monkeypatch.setattr(runner, "run", forbidden)
    values = pd.read_csv(out / "kem-fig5.csv")
    text = reproduced("kem-fig5", "--settings", settings, "--out", out, *QUICK)
    assert "of 2: Tiny" not in text
    pd.testing.assert_frame_equal(pd.read_csv(out / "kem-fig5.csv"), values)


@pytest.mark.parametrize("width", [200, 80, 48])
def test_every_cell_is_on_the_screen(width, monkeypatch):
    steps = range(1, 10)
    rows = {
        (study, method): {t: f"-{size}.{t}{s} ± 0.{s}{t}" for t in steps}
        for s, study in enumerate(["First study", "Second study"])
        for size, method in enumerate(["KEM", "KEM, one noise prior"])
    }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis(["study", "method"])
    console = Console(file=StringIO(), width=width)
    monkeypatch.setattr(screen, "console", console)
    screen.tables({"Means": table})
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    means = {cell.split()[0] for row in rows.values() for cell in row.values()}
    assert means < set(text.split())
    if width > 48:  # there, labels are broken between words
        assert text.count("KEM, one noise prior") == {200: 2, 80: 10}[width]


@pytest.mark.integration
def test_studies_without_data_are_left_out(settings, tmp_path):
    out = tmp_path / "out"
    options = ("--settings", settings, "--out", out, "--data-home", tmp_path, *QUICK)
    result = reproduce("kem-fig6", *options)
    assert result.exit_code == 0, result.output
    assert "UCI: Energy is left out" in result.stderr
    assert "Left out: UCI: Energy" in (out / "kem-fig6.md").read_text("utf-8")
    assert set(pd.read_csv(out / "kem-fig6.csv")["study"]) == {"tiny"}


def test_an_unknown_figure(tmp_path):
    message = refused(reproduce("kem-fig99", "--out", tmp_path / "out"))
    assert "kem-fig4" in message
    assert "kem-all" in message


def test_a_figure_that_nothing_makes(settings, tmp_path):
    """It is refused before anything has run."""
    text = settings.read_text().replace("[figures.kem-fig9]", "[figures.kem-tea]")
    settings.write_text(text)
    out = tmp_path / "out"
    message = refused(reproduce("kem-tea", "--settings", settings, "--out", out))
    assert "no figure 'kem-tea'" in message
    assert not out.exists()


def test_somebody_elses_folder(tmp_path):
    (tmp_path / "thesis.tex").touch()
    assert "doesn't contain an experiment" in refused(reproduce("kem-fig4", "--out", tmp_path))
    assert "is a file" in refused(reproduce("kem-fig4", "--out", tmp_path / "thesis.tex"))


def test_one_command_at_a_time(settings, tmp_path):
    """For `kem compare` too, which keeps its experiment in the same way."""
    pytest.importorskip("fcntl")
    options = ("--settings", settings, "--out", tmp_path / "out", *QUICK)

    def other():
        assert "is using the folder" in refused(reproduce("kem-fig5", *options))

    with locked(tmp_path / "out"):
        assert in_child(other) == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {LOCK}


def test_settings_that_cannot_be_read(tmp_path):
    options = ("--settings", tmp_path / "none.toml", "--out", tmp_path / "out")
    assert "can't be read" in refused(reproduce("kem-fig4", *options))


def test_settings_that_are_not_given_are_the_packages(tmp_path):
    text = '[sequences.lbo-fig3.registry]\npath = "a.csv"\noutcome = "died"\nyear = "year"\n'
    found, own = read(text), default()
    assert found.sequences["lbo-fig3"].registry.outcome == "died"
    assert found.sequences["lbo-fig3"].overlaps == own.sequences["lbo-fig3"].overlaps
    assert found.figures == own.figures
    settings = tmp_path / "registry.toml"
    settings.write_text(text)
    options = ("--settings", settings, "--out", tmp_path / "out", "--repeats", 1)
    assert "a.csv can't be read" in refused(reproduce("lbo-fig3", *options))


@pytest.mark.integration
def test_table_of_evolved_kernels(tmp_path):
    text = (resources.files("experiments") / "settings.toml").read_text("utf-8")
    settings = tmp_path / "short.toml"
    settings.write_text(text.replace('data = "hourly"', 'data = ["mornings", "announcements"]'))
    out = tmp_path / "out"
    options = ("--settings", settings, "--out", out, "--trials", 1, "--budget", 2, "--cores", 1)
    text = reproduced("evocov-table8", *options)
    assert "6 of 6: announcements, trial 1: EvoCov SoPL" in text
    assert {"evocov-table8.csv", "evocov-table8.png", "evocov-table8.md"} < set(
        path.name for path in out.iterdir()
    )
    assert "Trials: 1. Each search ends after 2 kernels." in (out / "evocov-table8.md").read_text()
    text = reproduced("evocov-table8", *options)
    assert "of 6: " not in text


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("kem-fig4", "--budget", 5), "kem-fig4 has no budget"),
        (("kem-fig4", "--seconds", 5), "kem-fig4 has no limit of time"),
        (("boms-fig2", "--seconds", 5), "boms-fig2 has no limit of time"),
    ],
)
def test_limits_of_other_figures(tmp_path, options, complaint):
    assert complaint in refused(reproduce(*options, "--out", tmp_path))


@pytest.mark.parametrize("figure", ["evocov-table7", "boms-fig2", "kem-fig7"])
def test_without_any_data_nothing_is_made(tmp_path, figure):
    result = reproduce(figure, "--data-home", tmp_path, "--out", tmp_path / "out")
    assert result.exit_code == 2, result.output
    assert "There is no file" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.integration
def test_games_without_data_are_left_out(tmp_path):
    options = ("--quick", "--data-home", tmp_path, "--out", tmp_path / "out", "--cores", 1)
    result = reproduce("dgpucb-fig2", *options, "--trials", 1)
    assert result.exit_code == 0, result.output
    assert "influenza is left out" in result.stderr
    assert set(pd.read_csv(tmp_path / "out" / "dgpucb-fig2.csv")["problem"]) == {
        "se", "matern", "rq"
    }  # fmt: skip
