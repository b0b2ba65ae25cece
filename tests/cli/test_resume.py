"""``kem fit`` goes on after it was killed, interrupted, or lost a chain."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from kem_pymc import Evolutions
from kem_pymc.cli import folders
from kem_pymc.model.step import EvolutionStep
from kem_pymc.runs import models
from tests.cli.conftest import COLUMNS, FITTED, SMALL, fine, refused, run, table
from tests.runs.runs import in_child, same_draws


@pytest.fixture(autouse=True)
def small_files(monkeypatch):
    monkeypatch.setattr(models, "CHUNK", 3)


@pytest.fixture
def command(trial, tmp_path):
    """The command that gave the results of the fixture `fitted`."""
    return ("fit", "--data", trial, *COLUMNS, *FITTED, *SMALL, "--out", tmp_path / "r")


def same_results(
    folder: Path, expected: Path, own: tuple[str, ...] = ("command", "seconds")
) -> None:
    """Check that results are those of a run that nothing happened to, but for its own settings."""
    assert {path.name for path in folder.iterdir()} == {path.name for path in expected.iterdir()}
    with (
        xr.open_datatree(folder / "posterior.zarr", engine="zarr") as mine,
        xr.open_datatree(expected / "posterior.zarr", engine="zarr") as theirs,
    ):
        same_draws(mine, theirs)
        for group in ("observed_data", "constant_data"):
            xr.testing.assert_equal(mine[group].dataset, theirs[group].dataset)
    for name in ("evolutions.json", "summary.csv"):
        assert (folder / name).read_bytes() == (expected / name).read_bytes()
    settings, wanted = (json.loads((f / "settings.json").read_text()) for f in (folder, expected))
    assert {k: v for k, v in settings.items() if k not in own} == {
        k: v for k, v in wanted.items() if k not in own
    }


#: Number of the first step that is sampled, after one to compile.
FIRST = 2


@pytest.mark.faults
@pytest.mark.parametrize(
    ("fails", "words"),
    [
        pytest.param(
            lambda n: n == FIRST + 13,
            "chain 1 failed at draw 3 (ZeroDivisionError: of a kernel)",
            id="one chain",
        ),
        pytest.param(
            lambda n: n >= FIRST, "No chain was completed", id="all chains", marks=pytest.mark.slow
        ),
    ],
)
def test_chains_that_failed_are_tried_again(command, fitted, tmp_path, monkeypatch, fails, words):
    sweep, seen = EvolutionStep.step, []

    def step(self, point):
        seen.append(1)
        if fails(len(seen)):
            raise ZeroDivisionError("of a kernel")
        return sweep(self, point)

    with monkeypatch.context() as patch:
        patch.setattr(EvolutionStep, "step", step)
        result = run(*command)
    assert result.exit_code == 1
    assert words in result.stderr
    assert "--resume" in result.stderr
    assert "failed unexpectedly" not in result.stderr  # it isn't a fault of ours
    if "chain 1" in words:
        with xr.open_datatree(tmp_path / "r" / "posterior.zarr", engine="zarr") as idata:
            assert list(idata["posterior"]["chain"]) == [0]
        assert Evolutions.load(tmp_path / "r" / "evolutions.json")
    fine("fit", "--resume", tmp_path / "r.run")
    same_results(tmp_path / "r", fitted)


# Other people's files.


@pytest.mark.integration
def test_what_a_run_did_not_write_stays(unfinished, fitted, tmp_path):
    (unfinished / "notes.txt").write_text("mine")
    result = run("fit", "--resume", unfinished)
    assert result.exit_code == 0
    assert "didn't write are still in" in result.stderr
    assert [path.name for path in unfinished.iterdir()] == ["notes.txt"]
    same_results(tmp_path / "r", fitted)


@pytest.mark.integration
def test_results_of_another_command_stay(unfinished, fitted, tmp_path):
    shutil.copytree(fitted, tmp_path / "r")
    settings = json.loads((fitted / "settings.json").read_text())
    (tmp_path / "r" / "settings.json").write_text(json.dumps(settings | {"command": "another"}))
    assert "isn't empty" in refused(run("fit", "--resume", unfinished))
    (tmp_path / "r" / "settings.json").write_text(json.dumps(settings))
    fine("fit", "--resume", unfinished)
    same_results(tmp_path / "r", fitted)


@pytest.mark.integration
def test_a_run_at_work_is_left_alone(unfinished, command):
    pytest.importorskip("fcntl")

    def other():
        for arguments in (("fit", "--resume", unfinished), (*command, "--overwrite")):
            assert "Another command is using" in refused(run(*arguments))

    with folders.locked(unfinished):
        assert in_child(other) == 0
    assert (unfinished / "run.json").is_file()


# Runs that can't go on.


@pytest.fixture
def unfinished(command, tmp_path, monkeypatch):
    """A run whose results are still to be written, since the disk was full."""

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(xr.DataTree, "to_zarr", full)
        message = refused(run(*command))
    assert "No space left on device" in message
    assert f"kem fit --resume {tmp_path / 'r.run'}" in message
    return tmp_path / "r.run"


@pytest.mark.integration
def test_changes_are_refused(unfinished, trial):
    table(seed=1).to_csv(trial, index=False)
    message = refused(run("fit", "--resume", unfinished))
    assert "because of a change in data, " in message
    assert all(part in message for part in ("priors", "scaling (", "what users share"))
    table().to_csv(trial, index=False)
    about = json.loads((unfinished / "run.json").read_text())
    about["model"]["versions"]["numpy"] = "1"
    (unfinished / "run.json").write_text(json.dumps(about))
    message = refused(run("fit", "--resume", unfinished))
    assert f"versions (numpy was 1, is {np.__version__})" in message


@pytest.mark.integration
def test_an_unfinished_run_is_in_the_way(unfinished, command):
    assert f"Resume it with --resume {unfinished}" in refused(run(*command))
    fine(*command, "--overwrite")
    assert not unfinished.exists()
