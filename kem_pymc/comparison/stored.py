"""Tasks whose results are tables in a folder; a task whose table is there isn't run again."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from operator import methodcaller
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from kem_pymc._system.executors import Executor
from kem_pymc._system.jit.cache import PACKAGE
from kem_pymc._system.spreadsheet import unescape, write_table

#: Modules that use results but don't produce any, so that changes to them leave results unchanged.
#: Modules that produce results import none of these.
ONLOOKERS = (
    *("cli", "plots"),
    *(f"comparison/{name}.py" for name in ("output", "pages", "summaries")),
)


class StoredTask(Protocol):
    """A unit of work for one worker, whose results are a table.

    Its file lies in the folder of the comparison under a name that depends on everything on which
    the results depend, the code included. So results of other settings or other code have other
    names, and never overwrite each other.
    """

    @property
    def title(self) -> str:
        """What is run, for people who wait for it."""

    def file(self, out: Path) -> Path:
        """Return the file of the results in a folder."""

    def run(self) -> pd.DataFrame:
        """Return the results."""


def run_tasks[T: StoredTask](
    tasks: Sequence[T],
    out: Path,
    executor: Executor,
    callback: Callable[[T], Any] = lambda _: None,
) -> pd.DataFrame:
    """Run the tasks whose results aren't stored, store the results, and return all of them.

    Parameters
    ----------
    tasks : sequence of StoredTask
    out : Path
        Folder of the results.
    executor : Executor
    callback : callable
        Called with every task that was run.
    """
    left = [task for task in tasks if not task.file(out).is_file()]
    for number, results in executor.map_unordered(methodcaller("run"), left):
        file = left[number].file(out)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_table(results, file)
        callback(left[number])
    return read_results(tasks, out)


def read_results(tasks: Sequence[StoredTask], out: Path) -> pd.DataFrame:
    """Return the stored results of all tasks, a row after the other."""
    files = dict.fromkeys(task.file(out) for task in tasks)
    tables = [pd.read_csv(file, keep_default_na=False, na_values=[""]) for file in files]
    return unescape(pd.concat(tables, ignore_index=True))


@cache
def code(package: Path = PACKAGE, onlookers: tuple[str, ...] = ONLOOKERS) -> str:
    """Return the version of the package with a digest of the sources that results depend on."""
    source = sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        if not any(name.is_relative_to(onlooker) for onlooker in onlookers):
            source.update(name.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{version('kem-pymc')} ({source.hexdigest()[:8]})"


def digest(data: Any) -> str:
    """Return a short digest of plain data, for names of files."""
    return sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:8]
