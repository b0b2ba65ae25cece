"""Trials of searches for kernels: data sets x methods x trials, stored as tables of their paths."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

from kem_pymc._system.executors import Executor
from kem_pymc._system.files import write_atomically
from kem_pymc.datasets.single import single
from kem_pymc.experiments.code import code, slug
from kem_pymc.experiments.data import Folder
from kem_pymc.experiments.settings import Searches
from kem_pymc.search.run import Method, search


@dataclass(frozen=True)
class SearchTask:
    """One search: a method on a data set, in one trial.

    Attributes
    ----------
    data : str
        Name of the data set, see :func:`kem_pymc.datasets.single`.
    method : {"cks", "boms", "random"}
    trial : int
    budget : int
        Number of models to evaluate.
    seed : int
        Seed of the experiment.
    data_home : path, optional
    """

    data: str
    method: Method
    trial: int
    budget: int
    seed: int
    data_home: Folder = None

    def place(self, folder: Path) -> Path:
        """Return the file of the results in the folder of an experiment."""
        settings = {k: v for k, v in asdict(self).items() if k != "data_home"}
        digest = sha256(json.dumps([settings, code()], sort_keys=True).encode()).hexdigest()[:8]
        name = f"{slug(self.method)}-{self.trial:02d}-{digest}.csv"
        return folder / "runs" / self.data / name


def tasks_of(
    searches: Searches,
    *,
    trials: int | None = None,
    quick: bool = False,
    seed: int = 0,
    data_home: Folder = None,
) -> list[SearchTask]:
    """Return the tasks of a figure, by trial.

    Parameters
    ----------
    searches : Searches
    trials : int, optional
        Number of trials; by default that of the settings.
    quick : bool
        Whether to use the smaller numbers for previews.
    seed : int
    data_home : path, optional
        Folder of the data files.
    """
    count = trials or (searches.quick_trials if quick else searches.trials)
    budget = searches.quick_budget if quick else searches.budget
    return [
        SearchTask(data, method, trial, budget, seed, data_home)
        for trial in range(count)
        for data in searches.data
        for method in searches.methods
    ]


def run(task: SearchTask) -> pd.DataFrame:
    """Return the path of a search (:attr:`kem_pymc.search.SearchResult.path`) and its overhead."""
    data = single(task.data, task.data_home)
    found = search(
        data.x,
        data.y,
        task.method,
        budget=task.budget,
        seed=1000 * task.seed + task.trial,
        progressbar=False,
    )
    return found.path.reset_index().assign(
        data=task.data, method=task.method, trial=task.trial, overhead=found.overhead
    )


def run_tasks(
    tasks: Sequence[SearchTask],
    folder: Path,
    executor: Executor,
    callback: Callable[[SearchTask], Any] = lambda _: None,
) -> pd.DataFrame:
    """Run the tasks whose results aren't stored, store the results, and return all of them.

    Parameters
    ----------
    tasks : sequence of SearchTask
    folder : Path
        Folder of the experiment.
    executor : Executor
    callback : callable
        Called with every task that is finished or was stored before.

    Returns
    -------
    DataFrame
        One row for every data set, method, trial and evaluation.
    """
    left = []
    for task in tasks:
        if task.place(folder).is_file():
            callback(task)
        else:
            left.append(task)
    for number, path in executor.map_unordered(run, left):
        place = left[number].place(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, path.to_csv(index=False).encode())
        callback(left[number])
    return pd.concat([pd.read_csv(task.place(folder)) for task in tasks], ignore_index=True)
