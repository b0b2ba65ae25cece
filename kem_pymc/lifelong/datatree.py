"""Groups of the DataTree of lifelong optimisation."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from kem_pymc.lifelong.distributions import CategoricalDistribution
from kem_pymc.lifelong.space import Space
from kem_pymc.lifelong.task import Task


def evaluations(
    tasks: Sequence[Task], space: Space, sign: float, attrs: dict[str, Any]
) -> xr.Dataset:
    """Return a row for every evaluation, see :meth:`LifelongOptimizer.to_datatree`.

    Parameters
    ----------
    tasks : sequence of Task
    space : Space
    sign : float
        1 if functions are minimised, -1 if they are maximised.
    attrs : dict
    """
    names = np.array([task.name for task in tasks], dtype=str)
    places = [i for i, task in enumerate(tasks) for _ in task.values]
    points = [point for task in tasks for point in task.points]
    columns: dict[str, Any] = {
        "value": np.array([own for task in tasks for own in task.values]),
        "best": np.array([own for task in tasks for own in _so_far(task.values, sign)]),
    }
    for name, own in space.dimensions.items():
        values = [point[name] for point in points]
        numeric = not isinstance(own, CategoricalDistribution)
        # Names of variables in a DataTree have no slashes.
        columns[f"point_{name.replace('/', '.')}"] = np.array(
            values if numeric else [str(v) for v in values]
        )
    library = {
        "inference_library": "kem_pymc",
        "inference_library_version": version("kem-pymc"),
    }
    return xr.Dataset(
        {name: ("evaluation", values) for name, values in columns.items()},
        coords={"task": ("evaluation", names[places] if places else np.array([], dtype=str))},
        attrs=attrs | library,
    )


def networks(trace: Sequence[tuple[Any, ...]], names: Sequence[str]) -> xr.Dataset:
    """Return a row for every training of the model, see :meth:`LifelongOptimizer.to_datatree`.

    Parameters
    ----------
    trace : sequence of tuple
        See :attr:`kem_pymc.lifelong.lbo.LBO.trace`.
    names : sequence of str
        Names of the tasks that the model learned from.
    """
    tasks, n, elbo, strength, log_odds, weights = (
        np.array(own) for own in zip(*trace, strict=True)
    )
    return xr.Dataset(
        {
            "n_values": ("training", n),
            "elbo": ("training", elbo),
            "strength": ("training", strength),
            "probability": (("training", "network"), expit(log_odds)),
            "weight": (("training", "network"), weights),
        },
        coords={"task": ("training", np.array(names)[tasks - 1])},
    )


def _so_far(values: Sequence[float], sign: float) -> np.ndarray:
    """Return the best of the values so far; NaN before the first one."""
    signed = sign * np.array(values)
    return sign * (np.fmin.accumulate(signed) if len(signed) else signed)
