"""What tests of runs share: processes that are killed at a given moment, and how draws compare."""

import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from kem_pymc._system.executors import Executor
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.model.step import EvolutionStep
from kem_pymc.runs.folder import Plan
from kem_pymc.runs.sampling import RunResult, carry_out, new_run
from kem_pymc.sampler.moves.sweep import CUT

QUICK = CUT._replace(seating=1, n_mh=3, split_merge=2)

#: A short run: 20 draws a chain in 5 files, the first 2 of which hold draws to settle.
SHORT = {"draws": 12, "tune": 8, "chains": 2, "random_seed": 11, "chunk": 4}
PLAN = Plan(**SHORT)

#: How much was computed depends on which fits were remembered from earlier draws; draws don't.
WORK = "factorisations"


def same_draws(idata: xr.DataTree, other: xr.DataTree) -> None:
    """Check that two posteriors hold the same draws, to the last bit."""
    for group in ("posterior", "sample_stats"):
        mine, theirs = idata[group].dataset, other[group].dataset
        assert set(mine) == set(theirs)
        for name in set(mine) - {WORK}:
            assert mine[name].dtype == theirs[name].dtype
            np.testing.assert_array_equal(mine[name], theirs[name], strict=True)


class Counting(EvolutionStep):
    """A step that counts the draws of every chain in a folder, because steps have no memory.

    Attributes
    ----------
    folder : Path
    made : int
        Number of draws of the present chain, those that are made again included.
    """

    folder: Path | None = None
    made = 0

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        super().setup_chain(rng, tune, draws)
        assert self.folder is not None
        self.folder.mkdir(exist_ok=True)
        self.file = self.folder / str(rng.bit_generator.state["state"]["inc"])
        self.made = self.file.stat().st_size if self.file.exists() else 0

    def step(self, point: Any) -> Any:
        result = super().step(point)
        if self.folder is not None and hasattr(self, "file"):
            self.made += 1
            with self.file.open("ab") as file:
                file.write(b".")
        return result


class Moments:
    """Counts what a run does: steps, and what happens while a file is written.

    Parameters
    ----------
    last : int, optional
        At this moment the process is killed, as by a power cut or a job scheduler.
    """

    def __init__(self, patch: pytest.MonkeyPatch, last: int | None = None) -> None:
        self.names: list[str] = []
        self.last = last
        for owner, name in ((EvolutionStep, "step"), (os, "fsync"), (Path, "replace")):
            patch.setattr(owner, name, self._counting(name, getattr(owner, name)))

    def _counting(self, name: str, function: Callable) -> Callable:
        def counted(*arguments: Any) -> Any:
            self._count(f"before {name}")
            result = function(*arguments)
            self._count(f"after {name}")
            return result

        return counted

    def _count(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) - 1 == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def begin(
    model: EvolutionModel, step: EvolutionStep, folder: Path, executor: Executor
) -> RunResult:
    """Sample the short run in a new folder."""
    return carry_out(model, step, new_run(model, step, PLAN, folder), executor, False)


def in_child(function: Callable[[], Any], kill_after: float | None = None) -> int | None:
    """Call a function in a copy of this process, maybe killed after a while; return its code."""
    process = multiprocessing.get_context("fork").Process(target=function)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This process .* is multi-threaded")
        process.start()
    process.join(kill_after)
    if process.is_alive():
        process.kill()
    process.join(60)
    return process.exitcode


def killed_at(moment: int, function: Callable[[], Any]) -> None:
    """Call a function in a copy of this process that is killed at a moment."""

    def doomed() -> None:
        with pytest.MonkeyPatch.context() as patch:
            Moments(patch, moment)
            function()

    assert in_child(doomed) == -signal.SIGKILL
