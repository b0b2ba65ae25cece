"""Learn evolutions at the terminal: sample, and write down what was learned."""

import shlex
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any, cast

import arviz as az
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

from kem_pymc.commands import screen
from kem_pymc.commands.folders import DISAGREE, EVOLUTIONS
from kem_pymc.commands.waiting import waiting
from kem_pymc.diagnostics.convergence import ENOUGH_DRAWS, RHAT, SCALARS, scalar_r_hats
from kem_pymc.diagnostics.diagnosis import diagnose, disagreement
from kem_pymc.errors import InputError
from kem_pymc.evolution import run_folder
from kem_pymc.evolution.ablations import final_model_of, unshared_model_of
from kem_pymc.evolution.evolutions import Evolutions
from kem_pymc.evolution.model import EvolutionModel
from kem_pymc.evolution.progress import duration
from kem_pymc.evolution.run import Outcome, begin, fresh_seed, go_on, ready_step
from kem_pymc.evolution.run_folder import Plan, RunFolder
from kem_pymc.evolution.step import EvolutionStep
from kem_pymc.plots import evolution_graph
from kem_pymc.workers import Workers

#: What helps where chains disagree.
REMEDY = "Sample more with --draws and --tune, or weigh the chains with kem.stack in Python."

#: Draws per file of a run.
CHUNK = 100

#: In the folder of a run: those of where users end up, and where they do if they share nothing.
FINAL, UNSHARED = "final", "unshared"


def ready(model: EvolutionModel, crew: int | Workers) -> EvolutionStep:
    """Return the step of a model, compiled, and say that this takes a while."""
    with waiting("Compiling the sampler, about a minute the first time"):
        return ready_step(model, crew)


def has_begun(path: Path) -> bool:
    """Return whether there is a run in a folder to go on with."""
    return (path / run_folder.NAME).is_file()


def sample(
    model: EvolutionModel,
    step: EvolutionStep,
    sampler: dict[str, Any],
    path: Path,
    crew: int | Workers,
) -> Outcome:
    """Sample with progress bars, up to an interruption; go on with a run if there is one.

    Parameters
    ----------
    model : EvolutionModel
    step : EvolutionStep
        From :func:`ready`.
    sampler : dict
        ``draws``, ``tune``, ``chains`` and maybe ``random_seed``; of a run that has begun, none
        counts.
    path : Path
        Where draws are written as they come.
    crew : int or Workers
        From :func:`kem_pymc.evolution.run.where`.

    Raises
    ------
    KeyboardInterrupt
        If an interruption came before the first posterior draw.
    InputError, SamplingError
        As :func:`kem_pymc.sample` and :func:`kem_pymc.resume`.
    """
    if has_begun(path):
        run = RunFolder.open(path)
        screen.say(f"Going on with the run in {path}")
        return go_on(model, step, run, crew, progress=True)
    counts = {name: sampler[name] for name in ("draws", "tune", "chains")}
    seed = sampler.get("random_seed")
    plan = Plan(**counts, random_seed=fresh_seed() if seed is None else seed, chunk=CHUNK)
    with waiting("Timing a few draws"):
        pace = step.seconds_per_draw()
    at_a_time = min(crew, plan.chains) if isinstance(crew, int) else plan.chains
    seconds = pace * plan.total * ceil(plan.chains / at_a_time)
    text = "Sampling {chains} x {tune} draws to settle, {chains} x {draws} to keep: {time}"
    screen.say(text.format(**counts, time=duration(seconds)))
    return begin(model, step, plan, path, crew, progress=True)


def sample_ends(
    model: EvolutionModel, sampler: dict[str, Any], path: Path, crew: int | Workers
) -> dict[str, Outcome]:
    """Sample where the users of a model end up, also if they shared nothing where they do share.

    The arguments are those of :func:`sample`; draws are written to folders in the run's. What an
    interruption leaves without a draw, and what would have followed, is missing from the result.
    """
    models = {FINAL: (final_model_of, "Where pilot users end up:")}
    if model.shared is not None:
        models[UNSHARED] = unshared_model_of, "The same if they share nothing:"
    found: dict[str, Outcome] = {}
    for name, (of, title) in models.items():
        ends = of(model)
        screen.say(title)
        try:
            found[name] = sample(ends, ready(ends, crew), sampler, path / name, crew)
        except KeyboardInterrupt:
            break
        if not found[name].complete:
            break
    return found


def write(outcome: Outcome, ends: dict[str, Outcome], folder: Path, out: Path) -> Evolutions:
    """Write posteriors, summary, evolutions and graph, print what was learned, and return it.

    `out` is where the folder will be when all is written.
    """
    idata = outcome.idata
    final, unshared = (ends[name].idata if name in ends else None for name in (FINAL, UNSHARED))
    learned = Evolutions.from_posterior(idata, final=final, unshared=unshared)
    found = diagnose(idata)
    apart = disagreement(found)
    if apart:  # kem select warns of it as well
        learned = replace(learned, settings={**learned.settings, DISAGREE: apart})
    learned.save(folder / EVOLUTIONS)
    write_posterior(idata, folder / "posterior.zarr")
    for name, own in ends.items():
        write_posterior(own.idata, folder / f"{name}.zarr")
    summary(idata).to_csv(folder / "summary.csv", index_label="quantity")
    _draw(learned, folder / "evolutions.png")
    screen.parts(found)
    screen.evolutions(learned)
    (screen.warn if apart else screen.say)(verdict(idata, apart, out))
    return learned


def write_posterior(idata: xr.DataTree, path: Path) -> None:
    """Write a posterior to a folder that ``xarray.open_datatree`` opens, and try that."""
    idata.to_zarr(path)
    draws = idata["posterior"].sizes["draw"]
    with xr.open_datatree(path, engine="zarr") as back:
        for first in range(0, draws, CHUNK):  # the whole would take as much memory again
            part = {"draw": slice(first, first + CHUNK)}
            written, read = (tree["posterior"].dataset.isel(part) for tree in (idata, back))
            xr.testing.assert_equal(read, written)


def _draw(learned: Evolutions, path: Path) -> None:
    try:
        axes = evolution_graph(learned)
    except InputError:  # every evolution is improbable, so there is nothing to draw
        return
    cast(Figure, axes.get_figure(root=True)).savefig(path, dpi=150)


def summary(idata: xr.DataTree) -> pd.DataFrame:
    """Return ArviZ's summary of the quantities that are the same whatever clusters are called."""
    names = [*SCALARS, "noise", "dataset_log_likelihood"]
    table = az.summary(idata, var_names=names, round_to="none")
    return table[table["mean"].notna()]  # users without a time step have no noise there


def verdict(idata: xr.DataTree, apart: str, out: Path) -> str:
    """Return in a sentence or two whether the chains agree, and what helps where they don't.

    `apart` is what they disagree in, from :func:`kem_pymc.diagnostics.diagnosis.disagreement`.
    """
    posterior = idata["posterior"]
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    if chains < 2 or draws < ENOUGH_DRAWS:
        return f"{chains} x {draws} draws are too few to tell whether chains agree. Sample more."
    command = shlex.join(["kem", "diagnose", str(out)])
    rhat = {name: value for name, value in scalar_r_hats(idata).items() if value is not None}
    texts = {name: f"{SCALARS[name]} (R-hat {value:.2f})" for name, value in rhat.items()}
    still = [text for name, text in texts.items() if rhat[name] > RHAT]
    if still and not apart:
        apart = f"The chains differ still in {' and '.join(still)}."
    if apart:
        return f"{apart} {REMEDY} `{command}` says more."
    return (
        f"The chains agree in {', '.join([*texts.values(), 'the graph'])} and which parts matter. "
        f"Whether they do in every dataset, `{command}` says."
    )
