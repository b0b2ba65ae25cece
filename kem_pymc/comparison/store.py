"""Storage of an experiment: learned evolutions and selections of each trial, as JSON and CSV files.

``runs/STUDY/trial-00/LEARNS-0a1b2c3d/`` contains evolutions as JSON, and a table of selections for
each method. Names end in digests of everything that the content depends on, which is stored next to
it, and of the code that made it. So results of other settings or other code have other names, and
never overwrite each other.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

from kem_pymc._system.files import write_atomically
from kem_pymc.comparison.code import code, slug
from kem_pymc.comparison.task import Outcome, Task
from kem_pymc.evolutions.evolutions import Evolutions

#: File in the folder of a task that describes its training; written once that is complete.
TRAINING = "training.json"


class Store:
    """Results of tasks, stored in a folder.

    Parameters
    ----------
    folder : Path
        Folder of the experiment; created when the first result is stored.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, task: Task) -> Path:
        """Return the folder of a task."""
        trial = "trial" if task.folds is None else f"held-out-of-{task.folds}"
        name = f"{task.learns}-{_digest([task.training(), code()])}"
        return self.folder / "runs" / task.name / f"{trial}-{task.trial:02d}" / name

    def table(self, task: Task, method: str) -> Path:
        """Return the path of the file with a method's selections."""
        return self.place(task) / f"{slug(method)}-{_digest([task.exercise(method), code()])}.csv"

    def missing(self, task: Task) -> list[str]:
        """Return the methods of a task whose selections aren't stored."""
        if not self._learned(task):
            return list(task.methods)
        return [method for method in task.methods if not self.table(task, method).is_file()]

    def known(self, task: Task) -> dict[str, Evolutions]:
        """Return the stored evolutions of a task by name; empty if they aren't stored."""
        if not self._learned(task):
            return {}
        training = _read(self.place(task) / TRAINING)
        return {
            name: Evolutions.load(self._evolutions(task, name)) for name in training["evolutions"]
        }

    def keep(self, task: Task, outcome: Outcome) -> None:
        """Store the results of a task."""
        place = self.place(task)
        place.mkdir(parents=True, exist_ok=True)
        if not self._learned(task):
            for name, evolutions in outcome.evolutions.items():
                evolutions.save(self._evolutions(task, name))
            training = {
                "of": task.training(),
                "evolutions": list(outcome.evolutions),
                "seconds": outcome.seconds,
                "r_hat": outcome.r_hat,
                "code": code(),
            }
            _write(place / TRAINING, json.dumps(training, indent=1))
        for method, rows in outcome.selections.groupby("method", sort=False):
            path = self.table(task, str(method))
            exercise = {"of": task.exercise(str(method)), "code": code()}
            _write(path.with_suffix(".json"), json.dumps(exercise, indent=1))
            _write(path, rows.to_csv(index=False))

    def selections(self, tasks: list[Task]) -> pd.DataFrame:
        """Return the stored selections of all methods of these tasks."""
        tables = [
            pd.read_csv(self.table(task, method), keep_default_na=False, na_values=[""])
            for task in tasks
            for method in task.methods
        ]
        table = pd.concat(tables, ignore_index=True)
        return table.astype({"composition": str, "user": str})

    def seconds(self, task: Task) -> float:
        """Return how many seconds the training of a task took."""
        return float(_read(self.place(task) / TRAINING)["seconds"])

    def r_hats(self, tasks: list[Task]) -> list[float]:
        """Return the largest R-hat of the scalars in each training.

        Trainings without an R-hat are left out. A training that several tasks share counts once.
        """
        places = dict.fromkeys(self.place(task) for task in tasks)
        trainings = [_read(place / TRAINING).get("r_hat", {}).values() for place in places]
        values = [
            [v for own in training for v in own.values() if v is not None] for training in trainings
        ]
        return [max(own) for own in values if own]

    def codes(self, tasks: list[Task]) -> list[str]:
        """Return the versions of the code with which the results of tasks were made, sorted."""
        files = [self.place(task) / TRAINING for task in tasks]
        files += [
            self.table(task, method).with_suffix(".json")
            for task in tasks
            for method in task.methods
        ]
        return sorted({str(_read(file).get("code")) for file in files})

    def _learned(self, task: Task) -> bool:
        return (self.place(task) / TRAINING).is_file()

    def _evolutions(self, task: Task, name: str) -> Path:
        return self.place(task) / f"evolutions-{name}.json"


def _digest(data: Any) -> str:
    return sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:8]


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return found
    except (OSError, ValueError):
        return {}


def _write(path: Path, text: str) -> None:
    write_atomically(path, text.encode())
