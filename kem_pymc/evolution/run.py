"""Long runs that survive: chains write as they go, and go on from what they wrote, bit by bit."""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import xarray as xr

from kem_pymc.errors import InputError, SamplingError, SamplingWarning
from kem_pymc.evolution.chains import Failure, run_in_processes, run_serially
from kem_pymc.evolution.fingerprint import fingerprint
from kem_pymc.evolution.interruption import noticing_interruption
from kem_pymc.evolution.model import EvolutionModel
from kem_pymc.evolution.progress import Bars
from kem_pymc.evolution.run_folder import Plan, RunFolder
from kem_pymc.evolution.step import EvolutionStep, point_names
from kem_pymc.evolution.stretches import run_on_workers
from kem_pymc.evolution.traces import to_datatree
from kem_pymc.machine import usable_cores
from kem_pymc.workers import Workers, workers


def sample(
    model: EvolutionModel,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    cores: int | None = None,
    cluster: str | None = None,
    random_seed: int | None = None,
    folder: str | os.PathLike | None = None,
    progress: bool = True,
    chunk: int = 100,
) -> xr.DataTree:
    """Sample a model as ``pm.sample`` does, draw by draw the same, and write draws as they come.

    A run that is killed or interrupted goes on by :func:`resume`, with the draws that it would
    have given. A chain that fails leaves the others alone.

    Parameters
    ----------
    model : EvolutionModel
    draws, tune : int
        Posterior draws per chain, and draws to settle before, which aren't returned.
    chains : int
    cores : int, optional
        Chains that run at a time, each in a process of its own; with 1, all in this process. By
        default one per core.
    cluster : str, optional
        Address of a Dask scheduler, like ``tcp://10.0.0.1:8786``, whose workers draw instead. They
        need not share files with this machine. A worker that dies costs no draw.
    random_seed : int, optional
        The same seed gives the same draws, whatever `cores`, `cluster` and `chunk`.
    folder : path, optional
        Where draws are written; it holds no run yet. By default draws are in a temporary folder
        until they are returned.
    progress : bool
        Whether to show bars, if there is a terminal.
    chunk : int
        Draws per file, fewer where they take long: what a killed chain loses at most.

    Returns
    -------
    idata : DataTree
        As from ``pm.sample``. After Ctrl-C, or if a chain failed, it has fewer draws or chains.

    Raises
    ------
    InputError
        If an argument is out of range, the model has other variables than its own, the folder
        holds a run or can't be written to, or nobody answers at the cluster's address.
    SamplingError
        If no chain came to its end because all failed.
    KeyboardInterrupt
        If Ctrl-C came before the first posterior draw.

    Warns
    -----
    SamplingWarning
        If it ended early, or a chain failed.
    """
    seed = fresh_seed() if random_seed is None else random_seed
    plan = Plan(draws, tune, chains, seed, chunk)
    with ExitStack() as stack:
        path = stack.enter_context(TemporaryDirectory()) if folder is None else folder
        crew = stack.enter_context(where(cores, cluster))
        outcome = begin(model, ready_step(model, crew), plan, Path(path), crew, progress)
    return _told(outcome, folder)


def resume(
    folder: str | os.PathLike,
    model: EvolutionModel,
    *,
    cores: int | None = None,
    cluster: str | None = None,
    progress: bool = True,
) -> xr.DataTree:
    """Go on with a run of :func:`sample` from what it wrote, up to the number of draws it was for.

    Chains that failed are tried again from their last draw. Where nothing is left to do, this
    reads the draws.

    Parameters
    ----------
    folder : path
    model : EvolutionModel
        The same as before.
    cores : int, optional
    cluster : str, optional
    progress : bool

    Returns
    -------
    idata : DataTree
        As from a run that was never interrupted.

    Raises
    ------
    InputError
        If there is no run in the folder, it was made of another model, of other data or by
        another version (the message says which), a file can't be read, or it is still at work.
    SamplingError, KeyboardInterrupt
        As for :func:`sample`.
    """
    run = RunFolder.open(Path(folder))
    with where(cores, cluster) as crew:
        outcome = go_on(model, ready_step(model, crew), run, crew, progress)
    return _told(outcome, folder)


def fresh_seed() -> int:
    """Return a seed from the system's entropy."""
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes
    ----------
    idata : DataTree
    interrupted : bool
        Whether Ctrl-C ended it before its end.
    failures : tuple of Failure
        Of chains that aren't in it.
    """

    idata: xr.DataTree
    interrupted: bool
    failures: tuple[Failure, ...]

    @property
    def complete(self) -> bool:
        """Whether every chain has all its draws."""
        return not (self.interrupted or self.failures)


@contextmanager
def where(cores: int | None, cluster: str | None) -> Iterator[int | Workers]:
    """Give how many chains to draw at a time here, or the workers who draw instead.

    Raises
    ------
    InputError
        If there is no such number, both are given, or nobody answers at the address.
    """
    if cluster is not None:
        with closing(workers(cores, cluster)) as crew:
            yield crew
        return
    if cores is not None and cores < 1:
        raise InputError(f"cores={cores} is no number of chains to run at a time. Give 1 or more.")
    yield cores or usable_cores()


def begin(
    model: EvolutionModel,
    step: EvolutionStep,
    plan: Plan,
    path: Path,
    crew: int | Workers,
    progress: bool,
) -> Outcome:
    """Begin a run in a folder, by a step from :func:`ready_step`; see :func:`sample`.

    `crew` is from :func:`where`.
    """
    hyperparameters = {str(c): [h.name for h in c.hyperparameters] for c in model.pool}
    run = RunFolder.create(path, plan, fingerprint(model, step.y), hyperparameters)
    return _carry_out(model, step, run, crew, progress)


def go_on(
    model: EvolutionModel,
    step: EvolutionStep,
    run: RunFolder,
    crew: int | Workers,
    progress: bool,
) -> Outcome:
    """Go on with a run, by a step from :func:`ready_step`; see :func:`resume`."""
    run.check(fingerprint(model, step.y))
    return _carry_out(model, step, run, crew, progress)


def ready_step(model: EvolutionModel, crew: int | Workers | None = None) -> EvolutionStep:
    """Return the step of a model, compiled: processes that start as copies needn't do it again.

    Parameters
    ----------
    model : EvolutionModel
    crew : int or Workers, optional
        From :func:`where`. A number is also that of cores to compile on; by default all.

    Raises
    ------
    InputError
        If something else than evolutions would have to be sampled.
    """
    others = sorted({value.name for value in model.value_vars} - set(point_names(model.engine)))
    if others:
        raise InputError(
            f"The model has unobserved variables {', '.join(others)} besides evolutions. "
            "Observe them, or use pm.sample."
        )
    step = EvolutionStep(model=model, rng=np.random.default_rng(0))
    step.compile(crew if isinstance(crew, int) else usable_cores())
    return step


def _carry_out(
    model: EvolutionModel,
    step: EvolutionStep,
    run: RunFolder,
    crew: int | Workers,
    progress: bool,
) -> Outcome:
    """Sample what isn't sampled yet, and return what there is then."""
    plan = run.plan
    at_a_time = min(crew, plan.chains) if isinstance(crew, int) else plan.chains
    with run.alone():
        lengths = {chain: run.length(chain) for chain in range(plan.chains)}
        unfinished = [chain for chain, length in lengths.items() if length < plan.total]
        with noticing_interruption() as interruption, Bars(plan, progress) as bars:
            if not isinstance(crew, int):
                failures = run_on_workers(step, run, unfinished, crew, bars, interruption)
            elif at_a_time == 1:
                failures = run_serially(step, run, unfinished, bars, interruption)
            else:
                failures = run_in_processes(step, run, unfinished, at_a_time, bars, interruption)
        lengths = {chain: run.length(chain) for chain in range(plan.chains)}
    failed = {failure.chain for failure in failures}
    sound = {chain: length for chain, length in lengths.items() if chain not in failed}
    kept, draws = _choose(sound, plan.tune)
    if not kept and failures:
        causes = ", ".join(str(failure) for failure in failures)
        raise SamplingError(
            f"No chain came to its end: {causes}. Mend the cause, then go on with it."
        )
    if not kept:
        raise KeyboardInterrupt
    files = {chain: run.chain(chain) for chain in kept}
    idata = to_datatree(model, step, files, plan.tune, draws, at_a_time)
    finished = all(length == plan.total for length in sound.values())
    return Outcome(idata, not finished, tuple(failures))


def _choose(lengths: Mapping[int, int], tune: int) -> tuple[list[int], int]:
    """Return the chains, and the draws of each, that make the most draws together."""
    after = {chain: length - tune for chain, length in lengths.items()}
    total = {n: n * sum(length >= n for length in after.values()) for n in after.values()}
    draws = max((n for n in total if n > 0), key=lambda n: total[n], default=0)
    return [chain for chain, length in after.items() if draws and length >= draws], draws


def _told(outcome: Outcome, folder: str | os.PathLike | None) -> xr.DataTree:
    """Return the draws; warn of what is missing."""
    how = "" if folder is None else f" Go on with kem_pymc.resume({str(folder)!r}, model)."
    for failure in outcome.failures:
        warnings.warn(f"The draws lack a chain: {failure}.{how}", SamplingWarning, stacklevel=3)
    if outcome.interrupted:
        warnings.warn(f"Sampling was interrupted.{how}", SamplingWarning, stacklevel=3)
    return outcome.idata
