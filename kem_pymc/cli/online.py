"""Online selection for all users, with a progress bar or, without a terminal, with plain lines."""

import warnings
from time import monotonic

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kem_pymc._system.executors import Executor
from kem_pymc.cli.screen import console, info
from kem_pymc.cli.waiting import waiting
from kem_pymc.data.cohort import Cohort
from kem_pymc.runs.progress import Lines, time_left
from kem_pymc.selection import online as quietly
from kem_pymc.selection.online import Trajectories
from kem_pymc.selection.selector import Selector


def select_online(
    selector: Selector, cohort: Cohort, description: str, executor: Executor | None = None
) -> Trajectories:
    """Return the selections of every user at every time step, and show progress meanwhile.

    `selector`, `cohort`, `executor` and the result are those of
    :func:`kem_pymc.selection.online.select_online`; `description` is printed before the progress.
    """
    if executor is None or executor.local:
        with waiting(f"{description}: compiling, about a minute the first time"):
            _compile(selector, cohort)
    quiet = not console.is_terminal
    lines, began, done = Lines(info), monotonic(), 0
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
        *(TextColumn("users"), TimeRemainingColumn()),
    )
    with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        bar = progress.add_task(description, total=cohort.n_users)

        def callback(users: int) -> None:
            nonlocal done
            done += users
            progress.advance(bar, users)
            if quiet:
                so_far = time_left(done, cohort.n_users, monotonic() - began)
                lines.say(f"{description}: users {so_far}")

        return quietly.select_online(selector, cohort, executor, callback)


def _compile(selector: Selector, cohort: Cohort) -> None:
    """Make one selection and discard it, to compile the functions that all selections call."""
    first = cohort.ends[0][0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the real selection repeats the warnings
        selector.select(cohort.inputs[0][:first], cohort.targets[0][:first])
