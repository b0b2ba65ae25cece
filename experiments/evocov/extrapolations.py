"""Trials of evolved kernels that extrapolate time series, stored as tables of their paths.

The methods are EvoCov with each metric, its two baselines, fits and mutations of a composition of
base kernels, and the kernel of periodic spikes (Roman et al. 2019, section 6).
"""

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.data.series import TSDL, series
from experiments.evocov.metrics import METRICS, MetricName
from experiments.evocov.search_paths import ScaledSeries, SearchPath, densities
from experiments.evocov.strategies import (
    CLIMBERS,
    MUTATIONS,
    Fresh,
    GoWithTheFirst,
    Limited,
    Mutants,
    RandomSearch,
)
from experiments.results import Options, file_of, slug
from experiments.settings import Extrapolations, Extrapolator
from kem_pymc.errors import InputError
from kem_pymc.gp.fit import bic
from kem_pymc.search.evocov.conversion import COMPOSITIONS, greedy, trees_of
from kem_pymc.search.evocov.fitting import Fitter
from kem_pymc.search.evocov.individual import Individual, Offspring
from kem_pymc.search.evocov.result import EvolutionResult
from kem_pymc.search.evocov.run import EVALUATIONS, KERNELS, POINTS, screening
from kem_pymc.search.evocov.strategies import GENERATION, PsdCheck, finalists
from kem_pymc.search.evocov.strategies import Evolution as Generations
from kem_pymc.search.evocov.tree import Tree
from kem_pymc.search.exploration import Strategy, explore
from kem_pymc.search.grammar import BASES
from kem_pymc.search.hyperpriors import Hyperpriors
from kem_pymc.search.run import search

#: Number of points for which the number of evaluations per kernel is stated.
REFERENCE = 350

#: About how many kernels are fitted in a second to 200 points, and the power of the number of
#: points by which it falls; sizes of populations depend on it if only the time is limited.
PER_SECOND, POWER = 25, -2.5

#: Share of the time of a first search on some of the points, and largest share of the time of a
#: search for compositions before kernels evolve.
SHARE, COMPOSED = 0.6, 0.25

#: Largest number of kernels that are screened for each one that is fitted to all points.
SCREENED = 9

#: Smallest size of a generation, and number of kernels in it for each one that is selected.
LEAST, PRESSURE = 10, 10

#: Number of starting points of the fit of periodic spikes.
STARTS = 10

#: Prior of the log noise variance of this fit. Counts aren't nearly without noise, as the default
#: prior of compositions supposes.
COUNTS_NOISE = (-2.0, 2.0)

#: A kernel that makes the interpreter compile.
COMPILING = Tree.parse("exp(multiply(-0.5, sq_dist(euc(x), h0)))")


@dataclass(frozen=True)
class ExtrapolationTask:
    """One trial of a method on a series.

    Attributes
    ----------
    data : str
        Name of the series, see :func:`experiments.data.series.series`.
    method : str
        Name of the method.
    strategy, metric, reference
        See :class:`experiments.settings.Extrapolator`.
    trial : int
    kernels : int, optional
        Largest number of kernels.
    seconds : float, optional
        CPU time after which no other kernel is fitted.
    seed : int
        Seed of the experiment.
    original : str
        JSON of the kernel that is fitted or mutated, for "fit" and "mutations".
    """

    data: str
    method: str
    strategy: str
    metric: MetricName
    reference: int | None
    trial: int
    kernels: int | None
    seconds: float | None
    seed: int
    original: str = ""

    @property
    def title(self) -> str:
        """What is run, for people who wait for it."""
        return f"{TSDL.get(self.data, self.data)}, trial {self.trial + 1}: {self.method}"

    def file(self, out: Path) -> Path:
        """Return the file of the results in the folder of an experiment."""
        return file_of(self, out, self.data, f"{slug(self.method)}-{self.trial:02d}")

    def run(self) -> pd.DataFrame:
        """Return the path of the search.

        Returns
        -------
        DataFrame
            A row for every kernel with a smaller BIC than all before, and a last row. Columns are
            `data`, `method`, `trial`; the numbers of `kernels` and of `evaluations` of the metric
            so far; `elapsed`, the CPU time in seconds; `bic`; `rmse`, the root mean square error in
            the test part; `size`, the number of hyperparameters with the noise; and `kernel`. The
            last row has also `log_density`, the mean log density of test points in standard
            deviations of the training part; and `rmse_averaged` and `log_density_averaged`, those
            of predictions that average over kernels. For "mutations" there is a row for the
            original, and one for every kernel.
        """
        data = ScaledSeries.of(series(self.data))
        rows = _spikes(data, self) if self.strategy == "ps" else _explored(data, self)
        return pd.DataFrame(rows).assign(data=self.data, method=self.method, trial=self.trial)


@dataclass(frozen=True)
class CompositionTask:
    """Greedy search for a composition of base kernels, which is then written as a tree.

    Attributes
    ----------
    data : str
    models : int
        Number of models to evaluate.
    seed : int
    """

    data: str
    models: int
    seed: int

    @property
    def title(self) -> str:
        """What is run, for people who wait for it."""
        return f"{TSDL.get(self.data, self.data)}: composition"

    def file(self, out: Path) -> Path:
        """Return the file of the results in the folder of an experiment."""
        return file_of(self, out, self.data, "composition")

    def run(self) -> pd.DataFrame:
        """Return a row with JSON of the tree, with the values that the search found."""
        data = ScaledSeries.of(series(self.data))
        result = search(
            data.x, data.y, "cks", budget=self.models, seed=self.seed, progressbar=False
        )
        models = sorted(result.evaluations[1:], key=lambda evaluation: -evaluation.score)
        originals = trees_of(models, data.x, data.y)
        if not originals:
            raise InputError("No composition of the search can be a tree. Evaluate more models.")
        return pd.DataFrame([{"data": self.data, "original": originals[0].to_json()}])


def tasks_of(
    table: Extrapolations, methods: dict[str, Extrapolator], options: Options
) -> list[ExtrapolationTask]:
    """Return the tasks of a table, by trial.

    For "fit" and "mutations", :attr:`ExtrapolationTask.original` has yet to be filled in.

    Parameters
    ----------
    table : Extrapolations
    methods : dict of str to Extrapolator
        All methods by name.
    options : Options
    """
    quick = options.quick
    kernels = table.quick_kernels if quick else table.kernels
    seconds = options.seconds or (None if quick else table.seconds)
    trials = options.trials or (table.quick_trials if quick else table.trials)
    tasks = []
    for trial in range(trials):
        for data in table.names:
            for name in table.methods:
                method = methods[name]
                searching = method.strategy not in ("fit", "ps")
                tasks.append(
                    ExtrapolationTask(
                        data=data,
                        method=name,
                        strategy=method.strategy,
                        metric=method.metric,
                        reference=table.quick_reference if quick else method.reference,
                        trial=trial,
                        kernels=kernels if searching else 1,
                        seconds=seconds if searching else None,
                        seed=options.seed,
                    )
                )
    return tasks


def compositions_of(
    tasks: Sequence[ExtrapolationTask], table: Extrapolations, quick: bool = False
) -> list[CompositionTask]:
    """Return the tasks that find the kernels that other tasks fit or mutate, one per series."""
    models = table.quick_models if quick else table.models
    needed = [task for task in tasks if task.strategy in ("fit", "mutations")]
    names = dict.fromkeys((task.data, task.seed) for task in needed)
    return [CompositionTask(data, models, seed) for data, seed in names]


def with_originals(
    tasks: Sequence[ExtrapolationTask], compositions: pd.DataFrame
) -> list[ExtrapolationTask]:
    """Return the tasks with the kernels to fit or mutate."""
    originals = dict(zip(compositions["data"], compositions["original"], strict=True))
    return [
        replace(task, original=originals[task.data])
        if task.strategy in ("fit", "mutations")
        else task
        for task in tasks
    ]


def limits(tasks: Sequence[ExtrapolationTask]) -> str:
    """Return a sentence on the trials and on the limits of searches."""
    trials = 1 + max(task.trial for task in tasks)
    task = max(tasks, key=lambda task: task.strategy not in ("fit", "ps"))
    parts = [f"{task.kernels} kernels"] if task.kernels else []
    parts += [f"{task.seconds:g} CPU seconds"] if task.seconds else []
    return f"Trials: {trials}. Each search ends after {' or '.join(parts)}."


def strategy_of(
    task: ExtrapolationTask,
    expected: int,
    rng: np.random.Generator,
    initial: Sequence[Individual] = (),
) -> Callable[[], Strategy[Offspring, Individual]]:
    """Return the function that makes the strategy of a task, for an expected number of kernels.

    The paper's sizes are for 20,000 kernels. For fewer kernels, the number of generations is kept
    about equal to their size, as in the paper, and so is the share of kernels that are selected;
    Go With The First has fewer mutations between two eliminations.
    """
    check = PsdCheck(1, rng)
    if task.strategy in ("evolution", "composed"):
        size = int(np.clip(round(math.sqrt(expected)), LEAST, GENERATION))
        return lambda: Generations(check, rng, size, max(2, size // PRESSURE), initial)
    if task.strategy == "climbing":
        rounds = CLIMBERS * (CLIMBERS + 1) // 2
        mutations = int(np.clip((expected - CLIMBERS) // rounds, 1, MUTATIONS))
        return lambda: GoWithTheFirst(check, rng, CLIMBERS, mutations, initial)
    if task.strategy == "random":
        return lambda: RandomSearch(check, rng, 1, initial)
    original = Individual.from_json(task.original)
    if task.strategy == "fit":
        return lambda: Fresh(original.tree)
    return lambda: Mutants(original, check, rng)


def _explored(data: ScaledSeries, task: ExtrapolationTask) -> list[dict[str, object]]:
    """Return the path of a search among trees."""
    evaluations = EVALUATIONS
    if task.reference is not None:
        evaluations = max(1, round(task.reference * (REFERENCE / len(data.y)) ** 2))
    seed = 1000 * task.seed + task.trial
    fitter = Fitter(data.x, data.y, evaluations, seed, METRICS[task.metric])
    rng = np.random.default_rng(seed)
    replace(fitter, evaluations=1).evaluate(Offspring.of(COMPILING))  # compile outside the time
    if task.strategy == "composed":
        explore(*greedy(data.x, data.y, 0), len(BASES))
    mutating = task.strategy == "mutations"
    path = SearchPath(data, Individual.from_json(task.original) if mutating else None)
    coarse = None if task.strategy in ("mutations", "fit") else screening(fitter)
    initial, seconds = list[Individual](), task.seconds
    if task.strategy == "composed":
        most = min(COMPOSITIONS, (task.kernels or sys.maxsize) // 2)
        initial = _composed(coarse or fitter, path, most, seconds and COMPOSED * seconds)
        task = replace(task, kernels=task.kernels and task.kernels - path.kernels)
        seconds = seconds and max(seconds - (time.process_time() - path.began), 1e-9)
    if coarse is not None:
        first = SHARE * seconds if seconds else None
        kernels = _expected(KERNELS, first, len(coarse.y))
        limited = Limited(strategy_of(task, kernels, rng, initial), first)
        few = SCREENED * (task.kernels or KERNELS)
        most = sys.maxsize if first else min(KERNELS, few)
        initial = finalists(explore(limited, coarse, most, callback=path.count))
        seconds = seconds and (1 - SHARE) * seconds
    kernels = _expected(task.kernels, seconds, len(data.y))
    limited = Limited(strategy_of(task, kernels, rng, initial), seconds)
    individuals = explore(limited, fitter, task.kernels or sys.maxsize, callback=path.add)
    rows = path.rows()
    if individuals and task.strategy != "mutations":
        result = EvolutionResult(tuple(individuals), "evocov", data.scaling, seed, fitter)
        rows[-1] |= densities(result.selection, data)
    return rows


def _composed(
    fitter: Fitter, path: SearchPath, most: int, seconds: float | None
) -> list[Individual]:
    """Return the best compositions that a greedy search finds in its time, as trees."""
    strategy, evaluator = greedy(fitter.x, fitter.y, fitter.seed)
    limited = Limited(lambda: strategy, seconds)
    found = explore(limited, evaluator, most, callback=path.count)
    return finalists(trees_of(found, fitter.x, fitter.y))


def _expected(kernels: int | None, seconds: float | None, n: int) -> int:
    """Return about how many kernels are fitted to n points, at most `kernels`."""
    most = math.inf if kernels is None else kernels
    rate = PER_SECOND * (n / POINTS) ** POWER
    return int(min(most, math.inf if seconds is None else 1 + rate * seconds))


def _spikes(data: ScaledSeries, task: ExtrapolationTask) -> list[dict[str, object]]:
    """Return one row with a fit of periodic spikes."""
    options: dict[str, Any] = {
        "bases": ("PS",),
        "budget": 1,
        "hyperpriors": Hyperpriors(noise=[COUNTS_NOISE]),
        "progressbar": False,
    }
    search(np.arange(9.0), np.arange(9.0), starts=1, **options)  # compile outside the time
    began = time.process_time()
    seed = 1000 * task.seed + task.trial
    series = data.series
    result = search(series.x, series.y, starts=STARTS, seed=seed, **options)
    _, fitted = result.evaluations  # the first is the constant
    mean = result.selection.predict(series.x_test, single=True).mean
    row = {
        "kernels": 1,
        "evaluations": fitted.gradients,
        "elapsed": time.process_time() - began,
        "bic": bic(fitted.log_likelihood, len(fitted.values) - 1, len(series.y)).value,
        "rmse": float(np.sqrt(np.mean((mean - series.y_test) ** 2))),
        "size": len(fitted.values) - 1,  # without the constant mean's amplitude, which is given
        "kernel": "PS0",
    }
    return [row | densities(result.selection, data)]
