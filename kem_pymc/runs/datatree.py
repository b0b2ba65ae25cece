"""Conversion of draws in files to the DataTree that ``pm.sample`` returns for the same draws.

Draws are read one chunk at a time into arrays of their final size: a posterior may take a large
part of the machine's memory, so it is never held twice.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import xarray as xr
from pymc.backends.base import MultiTrace
from pymc.backends.ndarray import NDArray

from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.model.step import EvolutionStep
from kem_pymc.runs.storage import ChainFiles, Chunk


def to_datatree(
    model: EvolutionModel,
    step: EvolutionStep,
    chains: Mapping[int, ChainFiles],
    tune: int,
    draws: int,
    at_a_time: int,
) -> xr.DataTree:
    """Return the posterior with its Deterministics, sample statistics, and the model's data.

    Parameters
    ----------
    model : EvolutionModel
    step : EvolutionStep
    chains : mapping
        Files by chain, each with at least `tune` + `draws` draws.
    tune, draws : int
        Number of draws of every chain that are left out, and number of draws that are then kept.
    at_a_time : int
        Number of chains that ran at a time, to compute the time that sampling took.

    Raises
    ------
    InputError
        If a file can't be read.
    """
    # Deterministics are evaluated once per draw: Python is as fast as Numba for this, and Numba
    # would take seconds to compile them.
    with model, pytensor.config.change_flags(mode="FAST_COMPILE"):
        recorder = NDArray(model=model)
        tree = _of_one_draw(model, step, recorder, next(next(iter(chains.values())).chunks()))
    coords = {"chain": list(chains), "draw": np.arange(draws)}
    groups = {name: _widened(tree[name].dataset, coords) for name in ("posterior", "sample_stats")}
    posterior, statistics = groups["posterior"], groups["sample_stats"]
    seconds = 0.0
    for place, files in enumerate(chains.values()):
        for chunk in files.chunks():
            seconds += chunk.seconds / min(at_a_time, len(chains))
            for i in range(max(0, tune - chunk.first), min(len(chunk), tune + draws - chunk.first)):
                draw = chunk.first + i - tune
                values = recorder.fn(*_point(model, chunk, i).values())
                for name, value in zip(recorder.varnames, values, strict=True):
                    posterior[name].values[place, draw] = value
                for name, variable in statistics.items():
                    variable.values[place, draw] = chunk.statistics[str(name)][i]
    for name, dataset in groups.items():
        times = {"sampling_time": seconds, "tuning_steps": tune}
        tree[name] = xr.DataTree(dataset.assign_attrs(times))
    return tree


def _of_one_draw(
    model: EvolutionModel, step: EvolutionStep, recorder: NDArray, chunk: Chunk
) -> xr.DataTree:
    """Return the tree of a chain of one draw, as PyMC makes it, for its groups and dims."""
    recorder.setup(1, 0, step.stats_dtypes)
    statistics = {name: values[0] for name, values in chunk.statistics.items()}
    recorder.record(_point(model, chunk, 0), [statistics], in_warmup=False)
    trace = MultiTrace([recorder])
    trace.report._n_tune, trace.report._n_draws = 0, 1  # as pm.sample does
    trace.report._t_sampling = 0.0
    return pm.to_inference_data(trace, model=model, save_warmup=False)


def _widened(single: xr.Dataset, coords: Mapping[str, Any]) -> xr.Dataset:
    """Return a dataset like one of a single draw, with empty arrays of the size of `coords`."""
    sizes = [len(values) for values in coords.values()]
    variables = {}
    for name, variable in single.data_vars.items():
        room = np.empty((*sizes, *variable.shape[2:]), variable.dtype)
        variables[name] = variable.dims, room, variable.attrs
    others = single.drop_vars(list(coords)).coords
    return xr.Dataset(variables, {**coords, **others}, single.attrs)


def _point(model: EvolutionModel, chunk: Chunk, i: int) -> dict[str, Any]:
    return {value.name: chunk.points[value.name][i] for value in model.value_vars}
