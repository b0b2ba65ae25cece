"""Chains on workers: the draws of a run in one process, whatever happens to workers."""

import os
import signal

import pytest

import kem_pymc as kem
from kem_pymc._system.executors import DaskPool, Processes, Serial
from kem_pymc.errors import InputError, SamplingError
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.model.step import EvolutionStep
from kem_pymc.runs.folder import Plan, Run
from kem_pymc.runs.sampling import RunResult, begin, go_on, ready_step
from kem_pymc.runs.storage import ChainFiles
from kem_pymc.sampler.moves.sweep import CUT
from tests.runs.runs import Counting, same_draws

PLAN = Plan(draws=12, tune=8, chains=3, random_seed=11, chunk=4)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Segments end with a file, also where other tests take the time."""
    monkeypatch.setattr("kem_pymc.runs.chains.LONGEST", 600.0)


@pytest.fixture(scope="module")
def model(cohort, pool, table):
    return EvolutionModel(
        cohort, pool, table, schedule=CUT._replace(seating=1, n_mh=3, split_merge=2), shared=None
    )


@pytest.fixture(scope="module")
def step(model):
    return ready_step(model)


@pytest.fixture(scope="module")
def whole(model, step, tmp_path_factory):
    """The draws of chains that go on in this process, one after the other."""
    return begin(model, step, PLAN, tmp_path_factory.mktemp("whole"), Serial(), False).idata


def on(executor, model, step, folder) -> RunResult:
    return begin(model, step, PLAN, folder, executor, False)


@pytest.mark.integration
def test_the_same_draws_everywhere(executor, model, step, whole, tmp_path):
    outcome = on(executor, model, step, tmp_path)
    assert outcome.complete
    same_draws(outcome.idata, whole)
    files = sorted(path.name for path in (tmp_path / "chain-2").glob("draws-*"))
    assert files == [f"draws-{first:06}.npz" for first in range(0, 20, 4)]


@pytest.mark.cluster
def test_by_address(model, address, whole):
    settings = {"draws": 12, "tune": 8, "chains": 3, "random_seed": 11}
    same_draws(kem.sample(model, **settings, cluster=address, progress=False), whole)
    with pytest.raises(InputError, match="Give one of them"):
        kem.sample(model, **settings, cluster=address, cores=2)


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
    outcome = on(executor, model, strange(Deadly, model, tmp_path, flag), tmp_path / "run")
    assert flag.exists()
    assert outcome.complete
    same_draws(outcome.idata, whole)


@pytest.mark.faults
def test_workers_that_keep_dying_fail_their_chains(model, step, whole, tmp_path):
    with pytest.raises(SamplingError, match="died in a row"):
        on(Processes(2), model, strange(Deadly, model, tmp_path), tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert all(run.length(chain) in (0, 4, 8) for chain in range(3))
    outcome = go_on(model, step, run, Serial(), False)
    same_draws(outcome.idata, whole)


@pytest.mark.integration
def test_a_failing_chain_keeps_what_it_drew(executor, model, step, whole, tmp_path):
    with pytest.raises(SamplingError, match=r"chain 0 failed at draw 9 .*no room"):
        on(executor, model, strange(Strange, model, tmp_path), tmp_path / "run")
    error = tmp_path / "run" / "chain-1" / "error.txt"
    assert "no room for it" in error.read_text()
    outcome = go_on(model, step, Run.open(tmp_path / "run"), executor, False)
    assert not error.exists()
    same_draws(outcome.idata, whole)


def test_segments_end_in_time(model, step, whole, tmp_path, monkeypatch):
    monkeypatch.setattr("kem_pymc.runs.chains.LONGEST", 1e-9)
    outcome = on(Serial(), model, step, tmp_path)
    assert len(list((tmp_path / "chain-0").glob("draws-*"))) == 20
    same_draws(outcome.idata, whole)


@pytest.mark.usefixtures("at_a_terminal")
def test_ctrl_c_keeps_what_has_come(model, step, whole, tmp_path, monkeypatch):
    add, written = ChainFiles.add, []

    def interrupting(files, first, encoded):
        written.append(first)
        if len(written) == 6:  # chain 1 has begun
            signal.raise_signal(signal.SIGINT)
        return add(files, first, encoded)

    with monkeypatch.context() as patch:
        patch.setattr(ChainFiles, "add", interrupting)
        outcome = on(Serial(), model, step, tmp_path)
    assert outcome.interrupted
    assert written == [0, 4, 8, 12, 16, 0]
    same_draws(go_on(model, step, Run.open(tmp_path), Serial(), False).idata, whole)


@pytest.mark.cluster
def test_resume_by_address(model, address, whole, tmp_path):
    with pytest.raises(SamplingError):
        on(Serial(), model, strange(Strange, model, tmp_path), tmp_path / "run")
    same_draws(kem.resume(tmp_path / "run", model, cluster=address, progress=False), whole)
