"""Online selection for all users, with its progress."""

from kem_pymc._system.executors import Executor
from kem_pymc._system.progress import Progress
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
    with Progress("users") as bars:
        task = bars.add(description, cohort.n_users)
        bars.update(task, 0, "the first users take longest: their kernels are compiled")
        return quietly.select_online(
            selector, cohort, executor, lambda users: bars.advance(task, users)
        )
