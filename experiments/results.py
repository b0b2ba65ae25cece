"""Tasks whose results are tables, each stored in a file of its own."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from kem_pymc._system.executors import Executor
from kem_pymc._system.files import write_atomically
from kem_pymc.comparison.code import code


class StoredTask(Protocol):
    """A task whose results are stored in a file of its own."""

    def place(self, folder: Path) -> Path:
        """Return the file of the results in the folder of an experiment."""

    def run(self) -> pd.DataFrame:
        """Return the results."""


def place_of(task: Any, folder: Path, data: str, name: str) -> Path:
    """Return the file of the results of a task, a dataclass, under a version of the code.

    Parameters
    ----------
    task : dataclass
        Its fields, except for `data_home`, decide with the code which file it is.
    folder : Path
        Folder of the experiment.
    data, name : str
        Name of the data set, and beginning of the name of the file.
    """
    settings = {k: v for k, v in asdict(task).items() if k != "data_home"}
    digest = sha256(json.dumps([settings, code()], sort_keys=True).encode()).hexdigest()[:8]
    return folder / "runs" / data / f"{name}-{digest}.csv"


def run_tasks[T: StoredTask](
    tasks: Sequence[T],
    folder: Path,
    executor: Executor,
    callback: Callable[[T], Any] = lambda _: None,
) -> pd.DataFrame:
    """Run the tasks whose results aren't stored, store the results, and return all of them.

    Parameters
    ----------
    tasks : sequence
    folder : Path
        Folder of the experiment.
    executor : Executor
    callback : callable
        Called with every task that is finished or was stored before.

    Returns
    -------
    DataFrame
        The results of all tasks.
    """
    left = []
    for task in tasks:
        if task.place(folder).is_file():
            callback(task)
        else:
            left.append(task)
    for number, results in executor.map_unordered(_results, left):
        place = left[number].place(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, results.to_csv(index=False).encode())
        callback(left[number])
    return pd.concat([pd.read_csv(task.place(folder)) for task in tasks], ignore_index=True)


def _results(task: StoredTask) -> pd.DataFrame:
    return task.run()
