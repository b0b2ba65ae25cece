"""Sampling that can be resumed, with bitwise identical draws.

Chains write their draws to files while they run, and continue from these files.
"""

import os
import warnings
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import xarray as xr

from kem_pymc._system.executors import Executor, Workers, make_executor
from kem_pymc._system.options import checked
from kem_pymc._system.progress import Progress
from kem_pymc.errors import InputError, SamplingError, SamplingWarning
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.model.step import EvolutionStep, point_names
from kem_pymc.runs.chains import Failure, run_chains
from kem_pymc.runs.datatree import to_datatree
from kem_pymc.runs.fingerprint import fingerprint
from kem_pymc.runs.folder import Plan, Run
from kem_pymc.runs.interruption import noticing_interruption


@checked
def sample(
    model: EvolutionModel,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    cores: int | None = None,
    cluster: Workers | None = None,
    random_seed: int | None = None,
    folder: str | os.PathLike | None = None,
    progress: bool = True,
    chunk: int = 100,
) -> xr.DataTree:
    """Sample a model with the same draws as ``pm.sample``, and write them to files during sampling.

    A run that was killed or interrupted is continued by :func:`resume`, which gives the draws
    that the uninterrupted run would have given. If a chain fails, the others continue.

    Parameters
    ----------
    model : EvolutionModel
    draws, tune : int
        Posterior draws per chain, and tuning draws before them, which aren't returned.
    chains : int
    cores : int, optional
        Number of processes that sample; with 1, this process does, one chain after the other. By
        default, one per core, but no more than chains.
    cluster : str or concurrent.futures.Executor, optional
        Address of a Dask scheduler, like ``tcp://10.0.0.1:8786``, or an executor, whose workers
        sample instead.
        They need not share files with this machine. If a worker dies, its draws are made again.
    random_seed : int, optional
        The same seed gives the same draws, for any `cores`, `cluster` and `chunk`.
    folder : path, optional
        Folder that the draws are written to; it may not contain a run. By default, draws are kept
        in a temporary folder until they are returned.
    progress : bool
        Whether to report progress: as bars on a terminal, otherwise as lines of text.
    chunk : int
        Maximum number of draws per file; files have fewer draws if these take long.

    Returns
    -------
    idata : DataTree
        Posterior, in the format of ``pm.sample``. After Ctrl-C, or if a chain failed, it has fewer
        draws or chains.

    Raises
    ------
    InputError
        If an argument is out of range, the model has unobserved variables besides evolutions, the
        folder contains a run or can't be written to, or no scheduler responds at the cluster's
        address.
    SamplingError
        If chains failed and no other chain has a posterior draw.
    KeyboardInterrupt
        If Ctrl-C was pressed before the first posterior draw.

    Warns
    -----
    SamplingWarning
        If the run was interrupted, or a chain failed.
    """
    seed = fresh_seed() if random_seed is None else random_seed
    plan = Plan(draws, tune, chains, seed, chunk)
    with ExitStack() as stack:
        path = stack.enter_context(TemporaryDirectory()) if folder is None else folder
        executor = stack.enter_context(closing(make_executor(cores, cluster, chains)))
        step = ready_step(model, executor)
        run = new_run(model, step, plan, Path(path))
        outcome = carry_out(model, step, run, executor, progress)
    return _with_warnings(outcome, folder)


@checked
def resume(
    folder: str | os.PathLike,
    model: EvolutionModel,
    *,
    cores: int | None = None,
    cluster: Workers | None = None,
    progress: bool = True,
) -> xr.DataTree:
    """Continue a run of :func:`sample` from its files, up to the planned number of draws.

    Chains that failed are tried again from their last draw. If the run is complete, its draws are
    only read.

    Parameters
    ----------
    folder : path
        Folder of the run.
    model : EvolutionModel
        The same model as before.
    cores, cluster, progress
        As for :func:`sample`.

    Returns
    -------
    idata : DataTree
        The same as from a run that was never interrupted.

    Raises
    ------
    InputError
        If there is no run in the folder, it was made with another model, other data or another
        version (the message states which), a file can't be read, or another process is running it.
    SamplingError, KeyboardInterrupt
        As for :func:`sample`.
    """
    run = Run.open(Path(folder))
    with closing(make_executor(cores, cluster, run.plan.chains)) as executor:
        outcome = carry_out(model, ready_step(model, executor), run, executor, progress)
    return _with_warnings(outcome, folder)


def fresh_seed() -> int:
    """Return a seed from the system's entropy."""
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])


@dataclass(frozen=True)
class RunResult:
    """Result of a run.

    Attributes
    ----------
    idata : DataTree
        Posterior, in the format of ``pm.sample``.
    interrupted : bool
        Whether Ctrl-C ended the run before it was complete.
    failures : tuple of Failure
        Failures of the chains that `idata` lacks.
    """

    idata: xr.DataTree
    interrupted: bool
    failures: tuple[Failure, ...]

    @property
    def complete(self) -> bool:
        """Return whether every chain has all its draws."""
        return not (self.interrupted or self.failures)


def new_run(model: EvolutionModel, step: EvolutionStep, plan: Plan, path: Path) -> Run:
    """Create the run of a plan in a folder, with a step from :func:`ready_step`."""
    hyperparameters = {str(c): [h.name for h in c.hyperparameters] for c in model.pool}
    return Run.create(path, plan, fingerprint(model, step.y), hyperparameters)


def ready_step(model: EvolutionModel, executor: Executor | None = None) -> EvolutionStep:
    """Return the compiled step of a model.

    Parameters
    ----------
    model : EvolutionModel
    executor : Executor, optional
        Executor of the compilation; by default, one process per core. Workers of a cluster don't
        compile, because the code would stay on their machines.

    Raises
    ------
    InputError
        If the model has unobserved variables besides evolutions.
    """
    others = sorted({value.name for value in model.value_vars} - set(point_names(model.engine)))
    if others:
        raise InputError(
            f"The model has unobserved variables {', '.join(others)} besides evolutions. "
            "Observe them, or use pm.sample."
        )
    step = EvolutionStep(model=model, rng=np.random.default_rng(0))
    if executor is None or not executor.local:
        with closing(make_executor()) as processes:
            step.compile(processes)
    else:
        step.compile(executor)
    return step


def carry_out(
    model: EvolutionModel, step: EvolutionStep, run: Run, executor: Executor, progress: bool
) -> RunResult:
    """Sample the missing draws of a run, and return its result.

    Parameters
    ----------
    model : EvolutionModel
        Model of the run; see :func:`resume` for what is checked.
    step : EvolutionStep
        Its step from :func:`ready_step`.
    run : Run
    executor : Executor
    progress : bool
        Whether to show progress bars.
    """
    run.check(fingerprint(model, step.y))
    plan = run.plan
    with run.locked():
        lengths = {chain: run.length(chain) for chain in range(plan.chains)}
        unfinished = [chain for chain, length in lengths.items() if length < plan.total]
        with noticing_interruption() as interruption, Progress("draws", progress) as bars:
            failures = run_chains(step, run, unfinished, executor, bars, interruption)
        lengths = {chain: run.length(chain) for chain in range(plan.chains)}
    failed = {failure.chain for failure in failures}
    sound = {chain: length for chain, length in lengths.items() if chain not in failed}
    kept, draws = _choose(sound, plan.tune)
    if not kept and failures:
        causes = ", ".join(str(failure) for failure in failures)
        raise SamplingError(
            f"No chain was completed: {causes}. Fix the cause, then resume or restart the run."
        )
    if not kept:
        raise KeyboardInterrupt
    files = {chain: run.chain(chain) for chain in kept}
    idata = to_datatree(model, step, files, plan.tune, draws, min(executor.cores, plan.chains))
    finished = all(length == plan.total for length in sound.values())
    return RunResult(idata, not finished, tuple(failures))


def _choose(lengths: Mapping[int, int], tune: int) -> tuple[list[int], int]:
    """Return the chains, and the number of draws of each, that give the most draws in total."""
    after = {chain: length - tune for chain, length in lengths.items()}
    total = {n: n * sum(length >= n for length in after.values()) for n in after.values()}
    draws = max((n for n in total if n > 0), key=lambda n: total[n], default=0)
    return [chain for chain, length in after.items() if draws and length >= draws], draws


def _with_warnings(outcome: RunResult, folder: str | os.PathLike | None) -> xr.DataTree:
    """Return the draws of a run, and warn if it was interrupted or chains failed."""
    how = "" if folder is None else f" Continue with kem_pymc.resume({str(folder)!r}, model)."
    for failure in outcome.failures:
        warnings.warn(f"The draws lack a chain: {failure}.{how}", SamplingWarning, stacklevel=3)
    if outcome.interrupted:
        warnings.warn(f"Sampling was interrupted.{how}", SamplingWarning, stacklevel=3)
    return outcome.idata
