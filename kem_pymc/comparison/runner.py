"""Running the tasks of an experiment on workers; results that are stored already are read."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pandas as pd

from kem_pymc._system.executors import Executor
from kem_pymc.comparison.data import Folder
from kem_pymc.comparison.settings import Figure, Learns, Sampling, Settings, Shares, Supposes
from kem_pymc.comparison.store import Store
from kem_pymc.comparison.task import Task, run

#: Kinds of training, slowest first. Slow tasks start first, so that no worker waits for the last.
SLOWEST = (
    *("search", "lifelong", "joint", "paper", "stratified"),
    *("nothing", "cut", "final", "ard", "two-level"),
)


def tasks_of(
    settings: Settings,
    figures: Iterable[Figure],
    *,
    trials: int | None = None,
    quick: bool = False,
    seed: int = 0,
    data_home: Folder = None,
) -> list[Task]:
    """Return the tasks that figures need, one for each study, trial and training.

    Parameters
    ----------
    settings : Settings
    figures : iterable of Figure
        Figures to make; tasks that several of them need are returned once.
    trials : int, optional
        Largest number of trials of each study; by default the number in the settings.
    quick : bool
        Whether to use the smaller numbers of ``settings.quick``.
    seed : int
        Seed of the experiment; figures may add to it.
    data_home : path, optional
        Folder of the data files, see :func:`kem_pymc.datasets.data_home`.

    Returns
    -------
    list of Task
        Tasks, sorted by trial, the slow ones of a trial first.
    """
    wanted: dict[tuple[str, int, Learns, Supposes, Shares, int | None, int], set[str]] = {}
    for figure in figures:
        for name in figure.studies:
            most = figure.trials or settings.studies[name].trials
            most = min(most, trials or (settings.quick.trials if quick else most))
            if figure.folds:  # a trial for each fold; a quick run uses one draw of users
                most = figure.folds * (1 if quick else most)
            for trial in range(most):
                for method in figure.methods:
                    kind = settings.methods[method]
                    of_users = figure.folds, seed + figure.seed
                    key = name, trial, kind.learns, kind.supposes, kind.shared, *of_users
                    wanted.setdefault(key, set()).add(method)
    sampling: dict[str, Sampling] = {**settings.sampling}
    scale: dict[str, Any] = {}
    if quick:
        sampling = settings.quick.sampling
        scale = {"test_users": settings.quick.test_users, "steps": settings.quick.steps}
    tasks = [
        Task(
            name,
            settings.studies[name],
            trial,
            learns,
            {method: settings.methods[method] for method in settings.methods if method in methods},
            sampling,
            seed=own_seed,
            data_home=data_home,
            folds=folds,
            supposes=supposes,
            shared=shared,
            **scale,
        )
        for (name, trial, learns, supposes, shared, folds, own_seed), methods in wanted.items()
    ]
    return sorted(tasks, key=lambda task: (task.trial, SLOWEST.index(task.learns)))


def run_tasks(
    tasks: list[Task],
    store: Store,
    executor: Executor,
    callback: Callable[[Task], Any] = lambda _: None,
) -> pd.DataFrame:
    """Run the tasks whose results aren't stored, store the results, and return all selections.

    Parameters
    ----------
    tasks : list of Task
        All tasks.
    store : Store
        Where results are read from and written to.
    executor : Executor
        Executor of the tasks.
    callback : callable
        Called with every finished task: first those that were stored before, then the others as
        they finish.

    Returns
    -------
    DataFrame
        One row for every study, trial, method, test user and time step.
    """
    left = []
    for task in tasks:
        missing = store.missing(task)
        if missing:
            methods = {name: task.methods[name] for name in missing}
            left.append(replace(task, methods=methods, known=store.known(task)))
        else:
            callback(task)
    for number, outcome in executor.map_unordered(run, left):
        store.keep(left[number], outcome)
        callback(left[number])
    return store.selections(tasks)
