"""Trials of evolved kernels on thirteen time series: tasks, and one stored row for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kem_pymc.datasets.extrapolations import Extrapolation, extrapolations
from kem_pymc.experiments.code import slug
from kem_pymc.experiments.data import Folder
from kem_pymc.experiments.results import place_of
from kem_pymc.experiments.settings import Extrapolations
from kem_pymc.search.evocov.metrics import Metric
from kem_pymc.search.evocov.run import Method, evolve

#: Number of kernels that no search reaches in the time it has.
ENDLESS = 10**9


@dataclass(frozen=True)
class ExtrapolationTask:
    """One search for an evolved kernel of a series.

    Attributes
    ----------
    series : str
        Name of the series, see :func:`kem_pymc.datasets.extrapolations`.
    method : {"evocov", "random", "go_with_the_first"}
    metric : {"lml", "loocv", "posterior_lml", "sopl", "rmse"}
    trial : int
    seconds : float
        Time of the search.
    seed : int
        Seed of the experiment.
    data_home : path, optional
    """

    series: str
    method: Method
    metric: Metric
    trial: int
    seconds: float
    seed: int
    data_home: Folder = None

    def place(self, folder: Path) -> Path:
        """Return the file of the result in the folder of an experiment."""
        name = f"{slug(self.method)}-{self.metric}-{self.trial:02d}"
        return place_of(self, folder, self.series, name)


def tasks_of(
    figure: Extrapolations,
    series: Sequence[str],
    *,
    trials: int | None = None,
    quick: bool = False,
    seconds: float | None = None,
    seed: int = 0,
    data_home: Folder = None,
) -> list[ExtrapolationTask]:
    """Return the tasks of a table, by trial.

    Parameters
    ----------
    figure : Extrapolations
    series : sequence of str
        Names of the series.
    trials : int, optional
        Number of trials; by default that of the settings.
    quick : bool
        Whether to use the smaller numbers for previews.
    seconds : float, optional
        Time of each search; by default that of the settings.
    seed : int
    data_home : path, optional
        Folder of the data files.
    """
    count = trials or (figure.quick_trials if quick else figure.trials)
    limit = seconds or (figure.quick_seconds if quick else figure.seconds)
    return [
        ExtrapolationTask(name, way.method, way.metric, trial, limit, seed, data_home)
        for trial in range(count)
        for name in series
        for way in figure.methods.values()
    ]


def run(task: ExtrapolationTask) -> pd.DataFrame:
    """Return one row: errors, log density, and what the search took and found.

    Log densities are those of targets in units of their standard deviation in the training part.
    """
    series = averaged(extrapolations(task.data_home)[task.series])
    found = evolve(
        series.x,
        series.y,
        task.method,
        metric=task.metric,
        budget=ENDLESS,
        seconds=task.seconds,
        seed=1000 * task.seed + task.trial,
        cores=1,
        progressbar=False,
    )
    row: dict[str, Any] = {"series": task.series, "method": task.method, "metric": task.metric}
    row |= {"trial": task.trial}
    for name, single in (("", False), ("_single", True)):
        predicted = found.selection.predict(series.x_test, include_noise=True, single=single)
        density = predicted.log_predictive_density(series.y_test).mean()
        row[f"rmse{name}"] = float(np.sqrt(np.mean((predicted.mean - series.y_test) ** 2)))
        row[f"log_density{name}"] = float(density + np.log(series.y.std()))
    row |= {
        "hyperparameters": len(found.selection.best.natural),
        "kernels": len(found.evaluations),
        "evaluations": found.outcomes.total(),
        "seconds": found.seconds,
        "formula": found.best.formula(),
    }
    return pd.DataFrame([row])


def averaged(series: Extrapolation) -> Extrapolation:
    """Return a series with the mean value of every time that is repeated in its training part."""
    table = pd.DataFrame({"x": series.x, "y": series.y}).groupby("x", sort=True)["y"].mean()
    return series._replace(x=table.index.to_numpy(), y=table.to_numpy())
