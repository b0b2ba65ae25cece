"""Figures of the experiments whose trials are tables in files of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kem_pymc._system.progress import Progress
from kem_pymc.cli import folders, screen
from kem_pymc.cli.trials import RUNS, check, write_figure

if TYPE_CHECKING:
    import pandas as pd

    from experiments.evocov.extrapolations import CompositionTask, ExtrapolationTask
    from experiments.lifelong.sequences import SequenceTask
    from experiments.results import StoredTask
    from experiments.search.searches import SearchTask
    from experiments.settings import Decisions, Searches, Sequences, Settings
    from kem_pymc._system.executors import Executor


def search_figure(
    name: str, searches: "Searches", out: Path, executor: "Executor", scale: dict[str, Any]
) -> None:
    """Reproduce a figure that compares searches for the kernels of single data sets."""
    from experiments.data.single import single
    from experiments.search import searches as trials
    from experiments.search.figures import make
    from kem_pymc.comparison.code import code

    check(out)
    present = _present(searches.data, lambda data: single(data, scale["data_home"]))
    tasks = [task for task in trials.tasks_of(searches, **scale) if task.data in present]

    def described(task: "SearchTask") -> str:
        return f"{searches.data[task.data]}, trial {task.trial + 1}: {task.method}"

    with folders.locked(out):
        paths = _run_stored("searching", tasks, out, executor, described)
        heading = [
            f"Made by kem_pymc {code()}, seed {scale['seed']}: "
            f"{1 + max(task.trial for task in tasks)} trials, {tasks[0].budget} models each."
        ]
        write_figure(name, make(searches, paths), out, heading)


def extrapolation_table(
    name: str, settings: "Settings", out: Path, executor: "Executor", scale: dict[str, Any]
) -> None:
    """Reproduce a table that compares extrapolations by evolved kernels."""
    from experiments.data.series import TSDL, series
    from experiments.evocov import extrapolations as trials
    from experiments.evocov.figures import make
    from kem_pymc.comparison.code import code

    check(out)
    table, home = settings.extrapolations[name], scale["data_home"]
    titles = {data: TSDL.get(data, data) for data in table.names}
    present = _present(titles, lambda data: series(data, home))
    tasks = trials.tasks_of(table, settings.extrapolators, **scale)
    tasks = [task for task in tasks if task.data in present]
    first = trials.compositions_of(tasks, table, scale["quick"])

    def composed(task: "CompositionTask") -> str:
        return f"{titles[task.data]}: composition"

    def described(task: "ExtrapolationTask") -> str:
        return f"{titles[task.data]}, trial {task.trial + 1}: {task.method}"

    with folders.locked(out):
        if first:
            found = _run_stored("searching", first, out, executor, composed)
            tasks = trials.with_originals(tasks, found)
        paths = _run_stored("evolving kernels", tasks, out, executor, described)
        heading = [f"Made by kem_pymc {code()}, seed {scale['seed']}. {trials.limits(tasks)}"]
        write_figure(name, make(name, paths, home), out, heading)


def sequence_figure(
    name: str, sequences: "Sequences", out: Path, executor: "Executor", scale: dict[str, Any]
) -> None:
    """Reproduce a figure that compares optimisers on sequences of functions."""
    from experiments.lifelong import sequences as trials
    from experiments.lifelong.figures import make
    from kem_pymc.comparison.code import code

    check(out)
    tasks = trials.tasks_of(sequences, **scale)

    def described(task: "SequenceTask") -> str:
        sequence = task.sequence
        return f"{sequence.key} {sequence.setting:g}, trial {task.trial + 1}: {task.title}"

    with folders.locked(out):
        rows = _run_stored("optimising", tasks, out, executor, described)
        heading = [f"Made by kem_pymc {code()}, seed {scale['seed']}."]
        write_figure(name, make(name, rows), out, heading)


def decision_figure(
    name: str, decisions: "Decisions", out: Path, executor: "Executor", scale: dict[str, Any]
) -> None:
    """Reproduce a figure of decomposed regression or of bandits."""
    import pandas as pd

    from experiments.bandits import decisions as trials
    from experiments.bandits.figures import TITLES, make
    from experiments.bandits.games import read
    from kem_pymc.comparison.code import code

    check(out)
    tasks = trials.tasks_of(decisions, **scale)
    titles = {task.problem: TITLES[task.problem] for task in tasks}
    present = _present(titles, lambda problem: read(problem, scale["data_home"])) if tasks else []
    tasks = [task for task in tasks if task.problem in present]

    def described(task: Any) -> str:
        return f"{TITLES[task.problem]}, trial {task.trial + 1}"

    with folders.locked(out):
        rows = pd.DataFrame()
        (out / RUNS).mkdir(exist_ok=True)  # figure 1 has no trials
        if tasks:
            rows = _run_stored("playing", tasks, out, executor, described)
        heading = [f"Made by kem_pymc {code()}, seed {scale['seed']}."]
        write_figure(name, make(name, rows), out, heading)


def _present[Name: str](titles: dict[Name, str], load: Callable[[Name], Any]) -> list[Name]:
    """Return the names of the data whose files are there, with a warning for each missing file.

    Raises
    ------
    DataFileNotFoundError
        If none is there.
    """
    from kem_pymc.datasets import DataFileNotFoundError

    present = []
    missing: dict[str, list[str]] = {}
    for name, title in titles.items():
        try:
            load(name)
        except DataFileNotFoundError as error:
            missing.setdefault(str(error), []).append(title)
        else:
            present.append(name)
    if not present:
        raise DataFileNotFoundError(" ".join(missing))
    for message, absent in missing.items():
        screen.warn(
            f"{', '.join(absent)} {'is' if len(absent) == 1 else 'are'} left out. {message}"
        )
    return present


def _run_stored[T: "StoredTask"](
    what: str,
    tasks: list[T],
    out: Path,
    executor: "Executor",
    described: Callable[[T], str],
) -> "pd.DataFrame":
    """Run the tasks whose results aren't stored, with progress, and return all results."""
    from experiments.results import run_tasks

    known = {id(task) for task in tasks if task.place(out).is_file()}
    with Progress("tasks") as bars:
        bar = bars.add(f"Compiling, then {what}", len(tasks) - len(known))

        def callback(task: T) -> None:
            if id(task) not in known:
                bars.advance(bar, 1, f"done: {described(task)}")

        return run_tasks(tasks, out, executor, callback)
