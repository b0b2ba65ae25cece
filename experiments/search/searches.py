"""Trials of searches for kernels: data sets x methods x trials, stored as tables of their paths."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.data.single import single
from experiments.results import Options, file_of, slug
from experiments.settings import Searches
from kem_pymc.search.evaluation import Evaluator
from kem_pymc.search.grammar import Grammar
from kem_pymc.search.hyperpriors import Hyperpriors
from kem_pymc.search.points import scaled
from kem_pymc.search.run import Method, search

#: Number of the best models of all searches that are fitted again, and of starts of these fits.
FITTED_AGAIN, STARTS = 5, 30


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
    """

    data: str
    method: Method
    trial: int
    budget: int
    seed: int

    @property
    def title(self) -> str:
        """What is run, for people who wait for it."""
        return f"{self.data}, trial {self.trial + 1}: {self.method}"

    def file(self, out: Path) -> Path:
        """Return the file of the results in the folder of an experiment."""
        return file_of(self, out, self.data, f"{slug(self.method)}-{self.trial:02d}")

    def run(self) -> pd.DataFrame:
        """Return the path (:attr:`kem_pymc.search.SearchResult.path`) and the overhead."""
        data = single(self.data)
        result = search(
            data.x,
            data.y,
            self.method,
            budget=self.budget,
            seed=1000 * self.seed + self.trial,
            progressbar=False,
        )
        return result.path.reset_index().assign(
            data=self.data, method=self.method, trial=self.trial, overhead=result.overhead
        )


@dataclass(frozen=True)
class OracleTask:
    """The best models of all searches on a data set, fitted again from many starting points.

    Attributes
    ----------
    data : str
    models : tuple of str
        Expressions.
    seed : int
        Seed of the experiment.
    """

    data: str
    models: tuple[str, ...]
    seed: int

    @property
    def title(self) -> str:
        """What is run, for people who wait for it."""
        return f"{self.data}: the best models, from {STARTS} starts"

    def file(self, out: Path) -> Path:
        """Return the file of the results in the folder of an experiment."""
        return file_of(self, out, self.data, "oracle")

    def run(self) -> pd.DataFrame:
        """Return a row for each model: `data`, `model`, and `per_point`, its score per point."""
        data = single(self.data)
        x, y, _ = scaled(data.x, data.y)
        evaluator = Evaluator(x, y, Hyperpriors(), starts=STARTS, seed=1000 * self.seed)
        grammar = Grammar(x.shape[1])
        fits = [evaluator.evaluate(grammar.parse(model)) for model in self.models]
        rows = [
            {"data": self.data, "model": fit.model, "per_point": fit.score / evaluator.compared}
            for fit in fits
        ]
        return pd.DataFrame(rows)


def oracles_of(paths: pd.DataFrame, seed: int) -> list[OracleTask]:
    """Return one task for each data set, with the best models of all methods and trials."""
    best = paths.groupby(["data", "model"], sort=False)["score"].max().sort_values(ascending=False)
    tasks = []
    for data in dict.fromkeys(paths["data"]):
        models = best[data].index[:FITTED_AGAIN]
        tasks.append(OracleTask(data, tuple(models), seed))
    return tasks


def tasks_of(searches: Searches, options: Options) -> list[SearchTask]:
    """Return the tasks of a figure, by trial."""
    count = options.trials or (searches.quick_trials if options.quick else searches.trials)
    budget = searches.quick_budget if options.quick else searches.budget
    return [
        SearchTask(data, method, trial, budget, options.seed)
        for trial in range(count)
        for data in searches.data
        for method in searches.methods
    ]
