"""What ``kem compare`` and the papers' experiments share: folders, progress, files."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kem_pymc._system.progress import Progress
from kem_pymc.cli import folders, screen
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from kem_pymc._system.executors import Executor
    from kem_pymc.comparison.output import Output
    from kem_pymc.comparison.store import Store
    from kem_pymc.comparison.task import Task

#: Subfolder that marks a folder as an experiment, which can be continued.
RUNS = "runs"


def check(out: Path) -> None:
    """Check that an experiment may be written to a folder.

    Raises
    ------
    InputError
        If the path is a file, or a folder with contents that aren't an experiment.
    """
    if out.is_file():
        raise InputError(f"{out} is a file. Choose a folder with --out.")
    known = {folders.LOCK}  # left by a command that was killed early
    strange = out.is_dir() and {path.name for path in out.iterdir()} - known
    if strange and not (out / RUNS).is_dir():
        raise InputError(
            f"The folder {out} isn't empty and doesn't contain an experiment. "
            "Choose another with --out."
        )


def run_all(tasks: "list[Task]", store: Any, executor: "Executor") -> None:
    """Run the tasks whose results are missing, with a progress bar."""
    from kem_pymc.comparison.runner import run_tasks

    if not tasks:
        return
    known = {id(task) for task in tasks if not store.missing(task)}
    total = len(tasks) - len(known)
    if total:
        screen.info(_ahead(tasks, total))
    with Progress("tasks") as bars:
        bar = bars.add("Compiling, then learning", total)

        def callback(task: "Task") -> None:
            if id(task) not in known:
                methods = ", ".join(task.methods)
                bars.advance(bar, 1, f"done: {task.study.title}, trial {task.trial + 1}: {methods}")

        run_tasks(tasks, store, executor, callback)


def _ahead(tasks: "list[Task]", total: int) -> str:
    """Return a sentence on the number of tasks that are about to be run."""
    kept = f" ({len(tasks) - total} more are already complete)" if total < len(tasks) else ""
    return (
        f"Number of tasks: {total}{kept}. In each task, a group of methods learns and selects. The "
        "first task takes longest, since it compiles; the time that the others take is estimated "
        "after it."
    )


def chains_of(tasks: "list[Task]", store: "Store") -> list[str]:
    """Return a line on the number of trainings whose chains disagree; empty if it is unknown."""
    from kem_pymc.diagnostics.convergence import RHAT

    r_hats = store.r_hats(tasks)
    if not r_hats:
        return []
    apart = sum(r_hat > RHAT for r_hat in r_hats)
    return [
        f"Chains disagree in {apart} of {len(r_hats)} trainings: R-hat of the number of clusters "
        f"or of the log joint density is above {RHAT}."
    ]


def write_figure(name: str, output: "Output", out: Path, heading: list[str]) -> None:
    """Write a figure's values, picture and page, and show its tables."""
    from kem_pymc.comparison import report

    files = report.write(name, output, out, heading)
    screen.tables(output.tables)
    screen.info(f"{name}: {', '.join(str(file) for file in files)}")
