"""What ``kem compare`` and the papers' experiments share: progress, tables and files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kem_pymc._system.progress import Progress
from kem_pymc.cli import screen

if TYPE_CHECKING:
    import pandas as pd

    from kem_pymc._system.executors import Executor
    from kem_pymc.comparison.output import Output
    from kem_pymc.comparison.stored import StoredTask

#: Subfolder that marks a folder as an experiment, which can be continued.
RUNS = "runs"


def run_all(tasks: "Sequence[StoredTask]", out: Path, executor: "Executor") -> "pd.DataFrame":
    """Run the tasks whose results are missing, with progress, and return all results."""
    from kem_pymc.comparison.stored import run_tasks

    left = sum(not task.file(out).is_file() for task in tasks)
    if left:
        screen.info(f"Number of tasks: {left}. The first one takes longest: it compiles.")
    with Progress("tasks") as bars:
        bar = bars.add("Compiling, then running", left)
        return run_tasks(
            tasks, out, executor, lambda task: bars.advance(bar, text=f"done: {task.title}")
        )


def chains_of(selections: "pd.DataFrame") -> list[str]:
    """Return a line on the number of trainings whose chains disagree; empty if it is unknown."""
    from kem_pymc.comparison.task import r_hats
    from kem_pymc.diagnostics.convergence import RHAT

    values = r_hats(selections)
    apart = sum(r_hat > RHAT for r_hat in values)
    text = (
        f"Chains disagree in {apart} of {len(values)} trainings: R-hat of the number of clusters "
        f"or of the log joint density is above {RHAT}."
    )
    return [text] if values else []


def write_page(name: str, output: "Output", out: Path, heading: Sequence[str]) -> None:
    """Write a page's values, picture and text, and show its tables and notes."""
    files = output.write(name, out, heading)
    screen.tables(output.tables)
    for note in output.notes:
        screen.info(note)
    screen.info(f"{name}: {', '.join(str(file) for file in files)}")
