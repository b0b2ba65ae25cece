"""Online selection for all users, with its progress."""

import warnings

from kem_pymc._system.executors import Executor
from kem_pymc._system.progress import Progress, waiting
from kem_pymc.data.cohort import Cohort
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
    with Progress("users") as bars:
        task = bars.add(description, cohort.n_users)
        return quietly.select_online(
            selector, cohort, executor, lambda users: bars.advance(task, users)
        )


def _compile(selector: Selector, cohort: Cohort) -> None:
    """Make one selection and discard it, to compile the functions that all selections call."""
    first = cohort.ends[0][0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the real selection repeats the warnings
        selector.select(cohort.inputs[0][:first], cohort.targets[0][:first])
