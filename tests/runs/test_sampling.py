import errno
import json
import os
import re
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import kem_pymc as kem
from kem_pymc._system.executors import Processes, Serial, make_executor
from kem_pymc.errors import InputError, SamplingError, SamplingWarning
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.runs import chains, sampling
from kem_pymc.runs.folder import Run
from kem_pymc.runs.storage import ChainFiles
from kem_pymc.sampler.moves.sweep import JOINT
from tests.runs.runs import (
    PLAN,
    QUICK,
    SHORT,
    WORK,
    Counting,
    Moments,
    begin,
    in_child,
    killed_at,
    same_draws,
)


@pytest.fixture(scope="module")
def moments(model, tmp_path_factory):
    """What happens in such a run, in order."""
    with pytest.MonkeyPatch.context() as patch:
        counted = Moments(patch)
        kem.sample(model, **SHORT, cores=1, folder=tmp_path_factory.mktemp("moments"))
    return counted.names


def test_is_what_pm_sample_returns(model, whole):
    few = {name: SHORT[name] for name in ("draws", "tune", "chains", "random_seed")}
    options = {"progressbar": False, "compute_convergence_checks": False, "quiet": True}
    with model:
        theirs = pm.sample(**few, cores=1, **options)
    same_draws(whole, theirs)
    assert set(whole.groups) == set(theirs.groups)
    for group in set(theirs.groups) - {"/"}:
        mine, other = whole[group].dataset, theirs[group].dataset
        mine, other = (d.drop_vars(WORK, errors="ignore") for d in (mine, other))
        assert mine.drop_attrs().identical(other.drop_attrs())
        assert set(mine.attrs) == set(other.attrs)
        for name in set(other.attrs) - {"created_at", "sampling_time"}:
            assert mine.attrs[name] == other.attrs[name]


def test_serial_and_parallel_are_the_same_whatever_the_files(model, whole):
    parallel = kem.sample(model, **(SHORT | {"chunk": 1000}), cores=2, progress=False)
    same_draws(parallel, whole)


def test_other_seeds_give_other_draws(model, whole):
    other = kem.sample(model, **(SHORT | {"random_seed": 12}), cores=1)
    assert (other["posterior"]["noise"] != whole["posterior"]["noise"]).any()


@pytest.mark.usefixtures("whole")
def test_documented_way_of_reading(whole_folder, tmp_path, monkeypatch):
    (tmp_path / "energy.run").symlink_to(whole_folder)
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "reference" / "runs.md").read_text("utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names = {}
    exec(compile(block, "runs.md", "exec"), names)
    chunk = next(Run.open(whole_folder).chain(0).chunks())
    assert names["generator"] == chunk.generator
    assert len(names["noise"]) == 4
    for noise, drawn in zip(names["noise"], chunk.points["noise"], strict=True):
        assert set(noise) == set(drawn[np.isfinite(drawn)])


@pytest.mark.usefixtures("whole")
def test_files(whole_folder):
    about = json.loads((whole_folder / "run.json").read_text())
    assert about["schema_version"] == 1
    assert about["plan"] == SHORT
    assert {p.name for p in whole_folder.iterdir()} == {"run.json", ".lock", "chain-0", "chain-1"}
    names = [f"draws-{first:06}.npz" for first in range(0, 20, 4)]
    assert sorted(path.name for path in (whole_folder / "chain-1").iterdir()) == names


def test_a_complete_run_is_read(model, whole, whole_folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "draw_segment", lambda *_: pytest.fail("draws are made"))
        same_draws(kem.resume(whole_folder, model), whole)


# Killed.


def resumes(model, whole, folder, moment):
    """Check that a run killed at a moment goes on to the draws it would have given."""
    killed_at(moment, lambda: kem.sample(model, **SHORT, cores=1, folder=folder))
    same_draws(kem.resume(folder, model, cores=1), whole)
    assert not list(folder.rglob(".draws-*"))


@pytest.mark.parametrize(
    ("what", "which"),
    [("after step", 3), ("before replace", 2), ("after fsync", 7), ("after step", 17)],
    ids=["settling", "writing", "written", "sampling"],
)
def test_killed_runs_go_on(model, whole, moments, tmp_path, what, which):
    moment = [i for i, name in enumerate(moments) if name == what][which]
    resumes(model, whole, tmp_path / "run", moment)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_runs_killed_at_any_moment_go_on(model, whole, moments, tmp_path, number):
    # From where there is something to go on with: run.json in its place.
    first = moments.index("after replace")
    moment = np.random.default_rng(number).integers(first, len(moments))
    resumes(model, whole, tmp_path / "run", int(moment))


@pytest.mark.integration
def test_killed_twice(model, whole, moments, tmp_path):
    folder = tmp_path / "run"
    killed_at(len(moments) // 4, lambda: kem.sample(model, **SHORT, cores=1, folder=folder))
    killed_at(len(moments) // 4, lambda: kem.resume(folder, model, cores=1))
    same_draws(kem.resume(folder, model, cores=2, progress=False), whole)


class Killing(Counting):
    """A step that kills the process that waits for it, at the tenth draw of a chain."""

    def step(self, point):
        if self.made == 9:
            os.kill(os.getppid(), signal.SIGKILL)
        return super().step(point)


@pytest.mark.faults
def test_killed_with_chains_in_processes(model, whole, tmp_path):
    """Only the parent process is killed; its workers end."""
    step = Killing(model=model, rng=0)
    step.folder, folder = tmp_path / "counts", tmp_path / "run"
    doomed = partial(begin, model, step, folder, Processes(2))
    assert in_child(doomed) == -signal.SIGKILL
    same_draws(kem.resume(folder, model, cores=2), whole)


@pytest.mark.faults
def test_killed_with_joint_feedback(cohort, pool, table, tmp_path):
    schedule = JOINT._replace(n_mh=2, particles=3, split_merge=2)
    model = EvolutionModel(cohort, pool, table, feedback="joint", schedule=schedule, shared=None)
    few = SHORT | {"draws": 4, "tune": 8, "chains": 1, "chunk": 3}
    with pytest.MonkeyPatch.context() as patch:
        moments = Moments(patch)
        whole = kem.sample(model, **few, folder=tmp_path / "whole")
    folder = tmp_path / "run"
    steps = [i for i, name in enumerate(moments.names) if name == "after step"]
    moment = steps[9 + len(steps) - 12]  # the first one may be for compiling
    killed_at(moment, lambda: kem.sample(model, **few, folder=folder))
    same_draws(kem.resume(folder, model), whole)


# Interrupted.


def interrupt_after(monkeypatch, files):
    """Press Ctrl-C when some files have been written."""
    add, written = ChainFiles.add, []

    def interrupting(self, first, encoded):
        written.append(first)
        if len(written) == files:
            signal.raise_signal(signal.SIGINT)
        return add(self, first, encoded)

    monkeypatch.setattr(ChainFiles, "add", interrupting)
    return written


@pytest.mark.usefixtures("at_a_terminal")
@pytest.mark.parametrize("cores", [1, 2])
def test_ctrl_c_keeps_what_was_drawn(model, whole, tmp_path, monkeypatch, cores):
    with monkeypatch.context() as patch:
        written = interrupt_after(patch, 4 if cores == 1 else 7)
        with pytest.warns(SamplingWarning, match=r"interrupted. Continue with kem_pymc.resume"):
            idata = kem.sample(model, **SHORT, cores=cores, folder=tmp_path / "run")
    # One after the other, the second chain hasn't begun; side by side, what is drawn is waited for.
    draws = idata["posterior"].sizes["draw"]
    assert 1 <= draws <= 12
    if cores == 1:
        assert written == [0, 4, 8, 12]
        assert (idata["posterior"].sizes["chain"], draws) == (1, 8)
    else:
        assert len(written) in (7, 8)
    first = whole["posterior"]["noise"].sel(chain=idata["posterior"]["chain"])
    np.testing.assert_array_equal(idata["posterior"]["noise"], first[:, :draws])
    same_draws(kem.resume(tmp_path / "run", model, cores=1), whole)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("at_a_terminal")
def test_ctrl_c_while_tuning(model, whole, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_after(patch, 1)
        with pytest.raises(KeyboardInterrupt):
            kem.sample(model, **SHORT, cores=1, folder=tmp_path / "run")
    assert (tmp_path / "run" / "chain-0" / "draws-000000.npz").is_file()
    same_draws(kem.resume(tmp_path / "run", model, cores=1), whole)


# Chains that fail.


class Failing(Counting):
    """A step that fails at a draw of some chains, identified by their generators."""

    chains = (0,)
    draw = 14

    def setup_chain(self, rng, *lengths):
        super().setup_chain(rng, *lengths)
        streams = [g.bit_generator.state["state"]["inc"] for g in PLAN.generators()]
        self.chain = streams.index(rng.bit_generator.state["state"]["inc"])

    def step(self, point):
        if self.chain in self.chains and self.made == self.draw - 1:
            raise MemoryError("no room for it")
        return super().step(point)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.faults
def test_a_chain_that_fails_leaves_the_others(model, whole, tmp_path, cores):
    step = Failing(model=model, rng=0)
    step.folder = tmp_path / "counts"
    outcome = begin(model, step, tmp_path / "run", make_executor(cores))
    assert [str(failure) for failure in outcome.failures] == [
        "chain 0 failed at draw 13 (MemoryError: no room for it)"
    ]
    idata = outcome.idata
    assert list(idata["posterior"]["chain"]) == [1]
    assert list(idata["sample_stats"]["chain"]) == [1]
    np.testing.assert_array_equal(
        idata["posterior"]["noise"], whole["posterior"]["noise"].sel(chain=[1])
    )
    drawn = sum(len(chunk) for chunk in Run.open(tmp_path / "run").chain(0).chunks())
    assert drawn == 13
    error = tmp_path / "run" / "chain-0" / "error.txt"
    assert "in step" in error.read_text()
    same_draws(kem.resume(tmp_path / "run", model, cores=cores), whole)
    assert not error.exists()


def test_a_failure_is_a_warning(model, tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "EvolutionStep", Failing)
    monkeypatch.setattr(Failing, "compile", lambda *_: None)
    monkeypatch.setattr(Failing, "folder", tmp_path / "counts")
    with pytest.warns(SamplingWarning, match="chain 0 failed at draw 13 .*no room for it"):
        kem.sample(model, **SHORT, cores=1, folder=tmp_path / "run")


def test_all_chains_fail(model, whole, tmp_path):
    step = Failing(model=model, rng=0)
    step.folder, step.chains, step.draw = tmp_path / "counts", (0, 1), 10
    message = r"chain 0 failed at draw 9 \(MemoryError.*chain 1 failed at draw 9"
    with pytest.raises(SamplingError, match=message):
        begin(model, step, tmp_path / "run", Serial())
    same_draws(kem.resume(tmp_path / "run", model, cores=1), whole)


# Disks.


def test_full_disk(model, whole, tmp_path, monkeypatch):
    def full(_):
        if len(list(tmp_path.rglob("draws-*.npz"))) >= 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(SamplingError, match="No space left"):
            kem.sample(model, **SHORT, cores=1, folder=tmp_path / "run")
    assert not list(tmp_path.rglob(".draws-*"))
    assert Run.open(tmp_path / "run").length(0) == 16
    same_draws(kem.resume(tmp_path / "run", model, cores=1), whole)


def test_folder_that_cannot_be_made(model, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="can't be written to"):
        kem.sample(model, **SHORT, folder=tmp_path / "file" / "run")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_folder(model, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="Permission denied"):
        kem.sample(model, **SHORT, folder=tmp_path / "run")


# What is refused.


def test_another_model_is_refused(cohort, pool, table, whole, whole_folder):  # noqa: ARG001
    other = EvolutionModel(
        cohort, pool, table.replace(shift=pm.Normal.dist(0.5, 2)), 2.0, schedule=QUICK, shared=None
    )
    with pytest.raises(InputError, match=r"in priors, concentration \(was 1.0, is 2.0\)\. Undo"):
        kem.resume(whole_folder, other)


def test_a_folder_with_a_run_is_refused(model, whole, whole_folder):  # noqa: ARG001
    with pytest.raises(InputError, match="already contains a run"):
        kem.sample(model, **SHORT, folder=whole_folder)


def test_no_run(model, tmp_path):
    with pytest.raises(InputError, match="no run"):
        kem.resume(tmp_path, model)


@pytest.mark.parametrize(
    "wrong", [{"draws": 0}, {"tune": -1}, {"chains": 0}, {"chunk": 0}, {"random_seed": 0.5}]
)
def test_bad_numbers(model, wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        kem.sample(model, **(SHORT | wrong))


def test_bad_cores(model, tmp_path):
    with pytest.raises(InputError, match="cores is -1"):
        kem.sample(model, **SHORT, cores=-1, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_other_variables_are_refused(cohort, pool, table):
    model = EvolutionModel(cohort, pool, table, schedule=QUICK, shared=None)
    with model:
        pm.Normal("mu")
    with pytest.raises(InputError, match="variables mu"):
        kem.sample(model, **SHORT)
