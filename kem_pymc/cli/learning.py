"""Write what was learned on the command line, and print it."""

import shlex
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import arviz as az
import pandas as pd
import xarray as xr

from kem_pymc.cli import effects, screen
from kem_pymc.cli.folders import EVOLUTIONS, save_figure, write_table
from kem_pymc.diagnostics.convergence import ENOUGH_DRAWS, RHAT, SCALARS, scalar_r_hats
from kem_pymc.diagnostics.diagnosis import REMEDY, diagnose, disagreements
from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import DISAGREE, Evolutions
from kem_pymc.evolutions.from_posterior import pilot_population
from kem_pymc.evolutions.posteriors import write_posterior
from kem_pymc.plots import evolution_graph
from kem_pymc.runs.interruption import noticing_interruption
from kem_pymc.runs.models import FINAL, MAIN, UNSHARED
from kem_pymc.runs.sampling import RunResult
from kem_pymc.selection.pilots import calibrate


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
