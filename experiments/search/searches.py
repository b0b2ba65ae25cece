"""Trials of searches for kernels: data sets x methods x trials, stored as tables of their paths."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.data.single import single
from experiments.results import place_of
from experiments.settings import Searches
from kem_pymc.comparison.code import slug
from kem_pymc.comparison.data import Folder
from kem_pymc.search.run import Method, search


@dataclass(frozen=True)
class SearchTask:
    """One search: a method on a data set, in one trial.

    Attributes
    ----------
    data : str
        Name of the data set, see :func:`experiments.data.single`.
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
        return place_of(self, folder, self.data, f"{slug(self.method)}-{self.trial:02d}")

    def run(self) -> pd.DataFrame:
        """Return the path (:attr:`kem_pymc.search.SearchResult.path`) and the overhead."""
        data = single(self.data, self.data_home)
        found = search(
            data.x,
            data.y,
            self.method,
            budget=self.budget,
            seed=1000 * self.seed + self.trial,
            progressbar=False,
        )
        return found.path.reset_index().assign(
            data=self.data, method=self.method, trial=self.trial, overhead=found.overhead
        )


def tasks_of(
    searches: Searches,
    *,
    trials: int | None = None,
    budget: int | None = None,
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
    budget : int, optional
        Number of models of each search; by default that of the settings.
    quick : bool
        Whether to use the smaller numbers for previews.
    seed : int
    data_home : path, optional
        Folder of the data files.
    """
    count = trials or (searches.quick_trials if quick else searches.trials)
    budget = budget or (searches.quick_budget if quick else searches.budget)
    return [
        SearchTask(data, method, trial, budget, seed, data_home)
        for trial in range(count)
        for data in searches.data
        for method in searches.methods
    ]
