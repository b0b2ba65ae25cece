"""Chains on workers: the draws of a run in one process, whatever happens to workers."""

import os
import signal

import pytest

import kem_pymc as kem
from kem_pymc._system.executors import DaskPool, Processes, Serial
from kem_pymc.errors import InputError, SamplingError
from kem_pymc.model.step import EvolutionStep
from kem_pymc.runs.folder import Run
from kem_pymc.runs.sampling import carry_out, ready_step
from tests.runs.runs import SHORT, Counting, begin, same_draws


@pytest.fixture(scope="module")
def step(model):
    return ready_step(model)


@pytest.mark.integration
def test_the_same_draws_everywhere(executor, model, step, whole, tmp_path):
    outcome = begin(model, step, tmp_path, executor)
    assert outcome.complete
    same_draws(outcome.idata, whole)
    files = sorted(path.name for path in (tmp_path / "chain-1").glob("draws-*"))
    assert files == [f"draws-{first:06}.npz" for first in range(0, 20, 4)]


@pytest.mark.cluster
def test_by_address(model, address, whole):
    same_draws(kem.sample(model, **SHORT, cluster=address, progress=False), whole)
    with pytest.raises(InputError, match="Give one of them"):
        kem.sample(model, **SHORT, cluster=address, cores=2)


class Strange(Counting):
    """A step to which something happens at the tenth draw of a chain, once if there is a flag."""

    def happen(self) -> None:
        raise MemoryError("no room for it")

    flag = None

    def step(self, point):
        if self.made == 9 and not (self.flag and self.flag.exists()):
            if self.flag:
                self.flag.touch()
            self.happen()
        return super().step(point)


class Deadly(Strange):
    def happen(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def strange(kind, model, tmp_path, flag=None) -> EvolutionStep:
    step = kind(model=model, rng=0)
    step.folder, step.flag = tmp_path / "counts", flag
    return step


@pytest.mark.parametrize("kind", ["processes", pytest.param("cluster", marks=pytest.mark.cluster)])
@pytest.mark.faults
def test_a_worker_that_dies_costs_no_draw(kind, model, whole, tmp_path, request):
    executor = Processes(2) if kind == "processes" else DaskPool(request.getfixturevalue("address"))
    flag = tmp_path / "died"
    outcome = begin(model, strange(Deadly, model, tmp_path, flag), tmp_path / "run", executor)
    assert flag.exists()
    assert outcome.complete
    same_draws(outcome.idata, whole)


@pytest.mark.faults
def test_workers_that_keep_dying_fail_their_chains(model, step, whole, tmp_path):
    with pytest.raises(SamplingError, match="died in a row"):
        begin(model, strange(Deadly, model, tmp_path), tmp_path / "run", Processes(2))
    run = Run.open(tmp_path / "run")
    assert all(run.length(chain) in (0, 4, 8) for chain in range(2))
    outcome = carry_out(model, step, run, Serial(), False)
    same_draws(outcome.idata, whole)


@pytest.mark.integration
def test_a_failing_chain_keeps_what_it_drew(executor, model, step, whole, tmp_path):
    with pytest.raises(SamplingError, match=r"chain 0 failed at draw 9 .*no room"):
        begin(model, strange(Strange, model, tmp_path), tmp_path / "run", executor)
    error = tmp_path / "run" / "chain-1" / "error.txt"
    assert "no room for it" in error.read_text()
    outcome = carry_out(model, step, Run.open(tmp_path / "run"), executor, False)
    assert not error.exists()
    same_draws(outcome.idata, whole)


def test_segments_end_in_time(model, step, whole, tmp_path, monkeypatch):
    monkeypatch.setattr("kem_pymc.runs.chains.LONGEST", 1e-9)
    outcome = begin(model, step, tmp_path, Serial())
    assert len(list((tmp_path / "chain-0").glob("draws-*"))) == 20
    same_draws(outcome.idata, whole)


@pytest.mark.cluster
def test_resume_by_address(model, address, whole, tmp_path):
    with pytest.raises(SamplingError):
        begin(model, strange(Strange, model, tmp_path), tmp_path / "run", Serial())
    same_draws(kem.resume(tmp_path / "run", model, cluster=address, progress=False), whole)
