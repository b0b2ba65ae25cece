import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from signal import SIGINT

import pandas as pd
import pytest
import xarray as xr

from kem_pymc import Evolutions, calibrate, priors
from kem_pymc.evolutions.from_posterior import read_cohort
from kem_pymc.model.cluster_model import to_explain
from tests.cli.conftest import COLUMNS, FITTED, SMALL, fine, refused, run


def test_posterior_opens_with_xarray_and_has_a_summary(fitted):
    with xr.open_datatree(fitted / "posterior.zarr", engine="zarr") as idata:
        assert idata["posterior"].sizes["draw"] == 8
        assert idata["posterior"].sizes["chain"] == 2
        assert list(idata["posterior"].coords["user"].values) == [0, 1, 2]
        assert "n_clusters" in idata["sample_stats"]
        ends = {name: xr.open_datatree(fitted / f"{name}.zarr") for name in ("final", "unshared")}
        learned = Evolutions.from_posterior(idata, **ends)
        kept = calibrate(learned, idata, **ends)
        assert kept == Evolutions.load(fitted / "evolutions.json")
        # Six points of three users in three time steps each, of which the first isn't predicted.
        assert [one[:3] for one in kept.held_out] == [(u, t, 2) for u in range(3) for t in (1, 2)]
        assert learned.shared is not None
        assert learned.features == ("sleep", "mood")
        # In units of all that there is to explain.
        unexplained = to_explain(learned.scaling.apply(read_cohort(idata)))
        whole = priors.default(learned.pool, unexplained).without_parent()
        assert learned.unshared.priors == whole.to_dict()
    summary = pd.read_csv(fitted / "summary.csv", index_col="quantity")
    assert {"n_clusters", "log_joint", "noise[2, 2]"} <= set(summary.index)
    assert summary["mean"].notna().all()


def test_settings_are_readable(fitted):
    settings = json.loads((fitted / "settings.json").read_text())
    assert settings["pool"] == ["LIN0", "SE0", "SE1"]
    # In units of what is left to explain.
    left = settings["shared"]["unexplained"]["total"]
    assert settings["priors"]["amplitude"] == f"LogNormal({-0.7 + math.log(left):.4g}, 1.5)"
    assert settings["scaling"]["feature_low"][0] > 3
    assert settings["sampler"]["draws"] == 8
    assert settings["interrupted"] is False


def test_says_what_it_learns_from_and_what_it_learned(fitted):
    text = (fitted.parent / "printed.txt").read_text("utf-8")
    assert "Features: sleep (numbers), mood (numbers).\n" in text
    assert "3 users, 3 time steps, 18 points: sleep, mood -> steps" in text
    assert "0 sleep, 1 mood" in text
    assert "Candidates  LIN(sleep), SE(sleep), SE(mood)" in text
    assert "noise only" in text
    assert "WHITE" not in text
    assert text.index("Which parts matter") < text.index("Learned evolutions")
    assert re.search(r"noise only, without any part, has probability 0\.\d\d\.", text)
    assert "whether chains agree" in text


@pytest.mark.slow
def test_a_seed_decides_on_the_evolutions(fitted, trial, tmp_path):
    def learned(seed):
        options = ("--seed", seed, "--out", tmp_path / str(seed))
        fine("fit", "--data", trial, *COLUMNS, *FITTED, *SMALL, *options)
        return Evolutions.load(tmp_path / str(seed) / "evolutions.json")

    first = Evolutions.load(fitted / "evolutions.json")
    assert learned(0) == first
    assert learned(2) != first


@pytest.mark.slow  # tests/runs/test_chains.py has the same of chains
@pytest.mark.cluster
def test_chains_on_a_cluster(trial, address, tmp_path):
    def learned(name, *where):
        arguments = ("--data", trial, *COLUMNS, *SMALL[:-2], "--base", "LIN")
        fine("fit", *arguments, *where, "--out", tmp_path / name)
        return (tmp_path / name / "evolutions.json").read_text()

    assert learned("here", "--cores", "1") == learned("there", "--cluster", address)


def test_a_cluster_that_does_not_answer_leaves_nothing(trial, tmp_path, monkeypatch):
    monkeypatch.setattr("kem_pymc._system.executors.PATIENCE_SECONDS", 0.3)
    arguments = ("--data", trial, *COLUMNS, *SMALL[:-2], "--out", tmp_path / "r")
    refused(run("fit", *arguments, "--cluster", "tcp://127.0.0.1:9"))
    assert not list(tmp_path.glob("r*"))


def interrupt(study: Path, *options: str) -> subprocess.CompletedProcess:
    """Run ``kem fit`` as at a terminal, and press Ctrl-C when two files of draws are written."""
    # Jobs that a shell runs in the background inherit that Ctrl-C is ignored; terminals' don't.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = [sys.executable, "-c", f"{heed}; from kem_pymc.cli.main import main; main()"]
    arguments = ["fit", str(study), "--out", str(study.parent / "r"), *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    run = study.parent / "r.run"
    with subprocess.Popen([*program, *arguments], **pipes, process_group=0) as running:
        while running.poll() is None and len(list(run.glob("chain-*/draws-*"))) < 2:
            time.sleep(0.1)
        os.killpg(running.pid, SIGINT)  # a terminal sends it to all processes of the group
        try:
            out, err = running.communicate(timeout=400)
        finally:
            running.kill()
    return subprocess.CompletedProcess(arguments, running.returncode, out, err)


@pytest.mark.parametrize("cores", [pytest.param("1", marks=pytest.mark.slow), "2"])
@pytest.mark.faults
def test_ctrl_c_leaves_what_was_drawn(study, cores):
    options = ("--draws", "100000", "--tune", "0", "--chains", "2", "--cores", cores)
    done = interrupt(study, *options)
    assert done.returncode == 130, done.stderr
    assert "interrupted" in done.stderr
    results = study.parent / "r"
    with xr.open_datatree(results / "posterior.zarr", engine="zarr") as idata:
        assert 1 <= idata["posterior"].sizes["draw"] < 100000
    assert Evolutions.load(results / "evolutions.json").children("WHITE")
    settings = json.loads((results / "settings.json").read_text())
    assert settings["interrupted"] is True
    assert settings["command"].startswith(f"kem fit {study} --out")


@pytest.mark.integration
def test_ctrl_c_while_settling_leaves_a_run_to_go_on_with(study):
    options = ("--draws", "10", "--tune", "100000", "--chains", "2", "--cores", "1")
    done = interrupt(study, *options)
    assert done.returncode == 130, done.stderr
    assert "before there were results" in done.stderr
    run = study.parent / "r.run"
    assert f"kem fit --resume {run}" in done.stderr
    assert "Traceback" not in done.stderr
    left = {path.name for path in study.parent.iterdir()} - {"__pycache__"}
    assert left == {"study.py", "r.run"}
    assert list((run / "chain-0").glob("draws-*.npz"))
