"""Learn evolutions at the terminal: sample, stop at Ctrl-C with what was drawn, write it down."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import arviz as az
import pandas as pd
import pymc as pm
import xarray as xr
from matplotlib.figure import Figure

from kem_pymc.commands import screen
from kem_pymc.commands.folders import EVOLUTIONS
from kem_pymc.errors import InputError
from kem_pymc.evolution.evolutions import Evolutions
from kem_pymc.evolution.model import EvolutionModel
from kem_pymc.evolution.step import EvolutionStep
from kem_pymc.plots import evolution_graph

#: Above this R-hat chains disagree; with fewer draws per chain it says nothing.
AGREEMENT, ENOUGH = 1.05, 50

#: What the verdict on convergence looks at: single numbers that don't depend on labels.
SCALARS = ("n_clusters", "log_joint")


def learn(model: EvolutionModel, sampler: dict[str, Any], folder: Path) -> tuple[Evolutions, bool]:
    """Sample a model and print what was learned; write posterior, summary, evolutions and graph.

    Parameters
    ----------
    model : EvolutionModel
    sampler : dict
        Arguments of ``pm.sample``.
    folder : Path

    Returns
    -------
    evolutions : Evolutions
    interrupted : bool
        Whether Ctrl-C cut it short.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C came before the first draw.
    """
    with noticing_interruption() as interruption:
        idata = sample(model, sampler, interruption)
        learned = Evolutions.from_posterior(idata)
        learned.save(folder / EVOLUTIONS)
        write_posterior(idata, folder / "posterior.zarr")
        summary(idata).to_csv(folder / "summary.csv", index_label="quantity")
        _draw(learned, folder / "evolutions.png")
    screen.evolutions(learned)
    screen.say(verdict(idata))
    return learned, interruption.happened


class Interruption:
    """Whether Ctrl-C was pressed; as a callback of PyMC's sampler, it ends the chains to come."""

    def __init__(self) -> None:
        self.happened = False

    def __call__(self, trace: Any, draw: Any) -> None:
        if self.happened:
            raise KeyboardInterrupt


@contextmanager
def noticing_interruption() -> Iterator[Interruption]:
    """Remember Ctrl-C, which PyMC's sampler takes for its end without a word.

    Once is enough: pressed again, it would lose what is being written.
    """
    noticed = Interruption()
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler:  # someone else's, or ignored in the background
        yield noticed
        return

    def handler(number: int, frame: Any) -> None:
        if not noticed.happened:
            noticed.happened = True
            signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, handler)
    try:
        yield noticed
    finally:
        signal.signal(signal.SIGINT, usual)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep PyMC's remarks on sampling from the screen; the verdict says what matters."""
    logger = logging.getLogger("pymc")
    usual = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(usual)


def sample(
    model: EvolutionModel, sampler: dict[str, Any], interruption: Interruption
) -> xr.DataTree:
    """Return the posterior, sampled with progress bars, up to an interruption.

    Raises
    ------
    KeyboardInterrupt
        If that came before the first draw.
    """
    # Chains may run in processes that start as copies of this one: what is compiled here, they
    # needn't compile each for itself.
    message = "Compiling the sampler. The first time, this takes about a minute."
    with screen.console.status(message):
        EvolutionStep(model=model).step(model.initial_point())
    plan = "Sampling {chains} x {tune} draws to settle, {chains} x {draws} to keep"
    screen.say(plan.format(**sampler))
    options = {
        # PyMC's own guess is half of the cores there are.
        "cores": sampler.get("cores") or os.cpu_count(),
        "callback": interruption,
        "progressbar": screen.errors.is_terminal,  # that is where PyMC draws it
        "compute_convergence_checks": False,
    }
    try:
        with _quiet(), model:
            return pm.sample(**{**sampler, **options})
    except ValueError as error:
        if interruption.happened:  # no chain had left tuning
            raise KeyboardInterrupt from error
        raise


def write_posterior(idata: xr.DataTree, path: Path) -> None:
    """Write a posterior to a folder that ``xarray.open_datatree`` opens, and try that."""
    idata.to_zarr(path)
    with xr.open_datatree(path, engine="zarr") as back:
        xr.testing.assert_equal(back["posterior"].dataset, idata["posterior"].dataset)


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


def verdict(idata: xr.DataTree) -> str:
    """Return a sentence or two on whether the chains agree."""
    posterior = idata["posterior"]
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    if chains < 2 or draws < ENOUGH:
        return f"{chains} x {draws} draws are too few to tell whether chains agree. Sample more."
    rhat = {name: float(az.rhat(posterior.dataset[[name]])[name]) for name in SCALARS}
    texts = ", ".join(f"{value:.2f} for {name}" for name, value in rhat.items())
    if any(value > AGREEMENT for value in rhat.values()):
        return f"The chains differ still: R-hat {texts}. Sample more with --draws and --tune."
    return f"The chains agree: R-hat {texts}."
