"""Learn evolutions on the command line: sample with progress bars, and write the results."""

import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import arviz as az
import pandas as pd
import xarray as xr

from kem_pymc._system.executors import Executor
from kem_pymc._system.progress import waiting
from kem_pymc.cli import effects, screen
from kem_pymc.cli.folders import DISAGREE, EVOLUTIONS, save_figure, write_table
from kem_pymc.diagnostics.convergence import ENOUGH_DRAWS, RHAT, SCALARS, scalar_r_hats
from kem_pymc.diagnostics.diagnosis import REMEDY, diagnose, disagreements
from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.evolutions.from_posterior import pilot_population
from kem_pymc.evolutions.posteriors import write_posterior
from kem_pymc.model.ablations import final_model_of, unshared_model_of
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.model.step import EvolutionStep
from kem_pymc.plots import evolution_graph
from kem_pymc.runs import folder as run_folder
from kem_pymc.runs.folder import Plan, Run
from kem_pymc.runs.interruption import noticing_interruption
from kem_pymc.runs.sampling import RunResult, carry_out, fresh_seed, new_run, ready_step
from kem_pymc.selection.pilots import calibrate

#: Number of draws per file of a run.
CHUNK = 100

#: Names of the runs of the model, the final model and the unshared final model. The first has the
#: folder of the run, and the others have subfolders of it.
MAIN, FINAL, UNSHARED = "", "final", "unshared"


def ready(model: EvolutionModel, executor: Executor) -> EvolutionStep:
    """Compile and return the sampling step of a model, with a message while this takes time."""
    with waiting("Compiling the sampler, about a minute the first time"):
        return ready_step(model, executor)


def has_begun(path: Path) -> bool:
    """Return whether a folder contains a run that can be resumed."""
    return (path / run_folder.NAME).is_file()


def sample(
    model: EvolutionModel,
    step: EvolutionStep,
    sampler: dict[str, Any],
    path: Path,
    executor: Executor,
) -> RunResult:
    """Sample with progress bars until complete or interrupted; resume a run if there is one.

    Parameters
    ----------
    model : EvolutionModel
    step : EvolutionStep
        Sampling step of the model, from :func:`ready`.
    sampler : dict
        ``draws``, ``tune``, ``chains`` and optionally ``random_seed``; ignored if a run is resumed.
    path : Path
        Folder of the run, to which draws are written while sampling.
    executor : Executor

    Returns
    -------
    RunResult
        The posterior draws, and whether chains failed or were interrupted.

    Raises
    ------
    KeyboardInterrupt
        If an interruption came before the first posterior draw.
    InputError, SamplingError
        As in :func:`kem_pymc.sample` and :func:`kem_pymc.resume`.
    """
    if has_begun(path):
        run = Run.open(path)
        screen.info(f"Resuming the run in {path}")
        return carry_out(model, step, run, executor, progress=True)
    counts = {name: sampler[name] for name in ("draws", "tune", "chains")}
    seed = sampler.get("random_seed")
    plan = Plan(**counts, random_seed=fresh_seed() if seed is None else seed, chunk=CHUNK)
    text = "Sampling {chains} x {tune} tuning draws and {chains} x {draws} posterior draws"
    screen.info(text.format(**counts))
    run = new_run(model, step, plan, path)
    return carry_out(model, step, run, executor, progress=True)


def models_of(model: EvolutionModel) -> dict[str, Callable[[EvolutionModel], EvolutionModel]]:
    """Return functions that make the models to sample beside a model, by name.

    The final model learns the kernels with which users end up, from their last datasets; if users
    share a mean process, there is the same model without it.
    """
    return {FINAL: final_model_of, **({UNSHARED: unshared_model_of} if model.shared else {})}


def sample_all(
    model: EvolutionModel,
    step: EvolutionStep,
    sampler: dict[str, Any],
    path: Path,
    executor: Executor,
) -> dict[str, RunResult]:
    """Sample a model and then those of :func:`models_of`, up to the first incomplete run.

    The arguments and errors are those of :func:`sample`. If one of the other models is interrupted
    before its first draw, the result lacks it.
    """
    results = {MAIN: sample(model, step, sampler, path, executor)}
    for name, of in models_of(model).items():
        if not all(run.complete for run in results.values()):
            break
        other = of(model)
        screen.info(f"{name.capitalize()} model of pilot users:")
        try:
            results[name] = sample(other, ready(other, executor), sampler, path / name, executor)
        except KeyboardInterrupt:
            break
    return results


def write(runs: dict[str, RunResult], folder: Path, out: Path) -> Evolutions:
    """Write posteriors, summary, evolutions and graph; print and return the evolutions.

    Messages name the folder as `out`, the path to which it is moved at the end.
    """
    idata = runs[MAIN].idata
    final, unshared = (runs[name].idata if name in runs else None for name in (FINAL, UNSHARED))
    learned = Evolutions.from_posterior(idata, final=final, unshared=unshared)
    diagnosis = diagnose(idata, final=final)
    disagreement = " ".join(disagreements(diagnosis))
    if disagreement:  # kem select warns of it, too
        learned = replace(learned, settings={**learned.settings, DISAGREE: disagreement})
    with noticing_interruption() as interruption:
        if not interruption.happened:
            learned = calibrated(learned, idata, final, unshared)
    learned.save(folder / EVOLUTIONS)
    for name, run in runs.items():
        write_posterior(run.idata, folder / f"{name or 'posterior'}.zarr")
    write_table(summary(idata).rename_axis("quantity").reset_index(), folder / "summary.csv")
    with suppress(InputError):  # if every evolution is improbable, there is nothing to draw
        save_figure(evolution_graph(learned), folder / "evolutions.png")
    population = pilot_population(idata)
    if population is not None:
        groups = population.model.groups
        (folder / "effects").mkdir()
        effects.write(population, groups, folder / "effects")
        screen.heading("What users share and how they differ")
        effects.show(population, groups)
    screen.parts(diagnosis)
    screen.evolutions(learned)
    if learned.calibration is not None:
        screen.info(f"{learned.calibration}.")
    (screen.warn if disagreement else screen.info)(verdict(idata, disagreement, out))
    return learned


def calibrated(
    learned: Evolutions, idata: xr.DataTree, final: xr.DataTree | None, unshared: xr.DataTree | None
) -> Evolutions:
    """Return the evolutions with a calibration, or without one, with a message, if it can't be."""
    try:
        return calibrate(learned, idata, final=final, unshared=unshared)
    except InputError as error:
        screen.info(str(error))
        return learned


def summary(idata: xr.DataTree) -> pd.DataFrame:
    """Return ArviZ's summary of the quantities that don't depend on the labels of clusters."""
    names = [*SCALARS, "noise", "dataset_log_likelihood"]
    table = az.summary(idata, var_names=names, round_to="none")
    return table[table["mean"].notna()]  # NaN at time steps that a user lacks


def verdict(idata: xr.DataTree, disagreement: str, out: Path) -> str:
    """Return a sentence or two on whether the chains agree, with advice if they don't.

    `disagreement` is what :func:`kem_pymc.diagnostics.diagnosis.disagreements` returns, as text.
    """
    posterior = idata["posterior"]
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    if chains < 2 or draws < ENOUGH_DRAWS:
        return f"{chains} x {draws} draws are too few to tell whether chains agree. Sample more."
    command = shlex.join(["kem", "diagnose", str(out)])
    rhat = {
        f"{SCALARS[name]} (R-hat {value:.2f})": value
        for name, value in scalar_r_hats(idata).items()
    }
    still = [text for text, value in rhat.items() if value > RHAT]
    if still and not disagreement:
        disagreement = f"The chains still differ in {' and '.join(still)}."
    if disagreement:
        return f"{disagreement} {REMEDY} For details, run `{command}`."
    return (
        f"The chains agree in {', '.join([*rhat, 'the graph'])} and which parts matter. "
        f"To check every dataset, run `{command}`."
    )
