"""Draws in files to the DataTree that ``pm.sample`` returns for the same draws."""

from collections.abc import Mapping, Sequence
from typing import Any

import pymc as pm
import xarray as xr
from pymc.backends.base import MultiTrace
from pymc.backends.ndarray import NDArray

from kem_pymc.evolution.chunks import Chunk
from kem_pymc.evolution.model import EvolutionModel
from kem_pymc.evolution.step import EvolutionStep


def to_datatree(
    model: EvolutionModel,
    step: EvolutionStep,
    chains: Mapping[int, Sequence[Chunk]],
    tune: int,
    draws: int,
    seconds: float,
) -> xr.DataTree:
    """Return the posterior with its Deterministics, statistics, and the model's data.

    Parameters
    ----------
    model : EvolutionModel
    step : EvolutionStep
    chains : mapping
        Chunks by chain, in order, from the first draw on.
    tune, draws : int
        How many draws of every chain are left out, and how many then are kept.
    seconds : float
        How long sampling took.
    """
    with model:
        template = NDArray(model=model)  # compiles the Deterministics, once for all chains
    shared = {"fn": template.fn, "vars": template.vars}
    shapes = {"var_shapes": template.var_shapes, "var_dtypes": template.var_dtypes}
    traces = []
    for chain, chunks in chains.items():
        trace = NDArray(model=model, **shared, **shapes)
        trace.setup(draws, chain, step.stats_dtypes)
        for chunk in chunks:
            for i in range(max(0, tune - chunk.first), min(len(chunk), tune + draws - chunk.first)):
                trace.record(_point(model, chunk, i), [_statistics(chunk, i)], in_warmup=False)
        traces.append(trace)
    trace = MultiTrace(traces)
    trace.report._n_tune, trace.report._n_draws = tune, draws  # as pm.sample does
    trace.report._t_sampling = seconds
    return pm.to_inference_data(
        trace, model=model, coords={"chain": list(chains)}, save_warmup=False
    )


def _point(model: EvolutionModel, chunk: Chunk, i: int) -> dict[str, Any]:
    return {value.name: chunk.points[value.name][i] for value in model.value_vars}


def _statistics(chunk: Chunk, i: int) -> dict[str, Any]:
    return {name: values[i] for name, values in chunk.statistics.items()}
