"""Online selection for all users, with its progress."""

from collections.abc import Sequence

import numpy as np

from kem_pymc._system.executors import Executor
from kem_pymc._system.progress import Progress
from kem_pymc.data.cohort import Cohort
from kem_pymc.selection import online as quietly
from kem_pymc.selection.online import Trajectories
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.selector import Selector

#: Number of points beyond which a selection takes a time that grows with their square, or faster.
FEW = 30


def select_online(
    selector: Selector, cohort: Cohort, description: str, executor: Executor | None = None
) -> Trajectories:
    """Return the selections of every user at every time step, and show progress meanwhile.

    `selector`, `cohort`, `executor` and the result are those of
    :func:`kem_pymc.selection.online.select_online`; `description` is printed before the progress.
    """
    ends = np.concatenate(cohort.ends)
    with Progress("selections") as bars:
        task = bars.add(description, len(ends), work=_work(ends))
        bars.update(task, 0, "the first ones take longest: kernels are compiled")

        def callback(selections: Sequence[Selection]) -> None:
            counts = np.array([len(selection.y) for selection in selections])
            bars.advance(task, len(selections), work=_work(counts))

        return quietly.select_online(selector, cohort, executor, callback)


def _work(points: np.ndarray) -> float:
    """Return the work of selections for numbers of points, in any unit."""
    return float(np.sum(FEW**2 + points**2))
