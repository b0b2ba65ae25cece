"""Progress of a search: the number of evaluated models, and the best one so far."""

from kem_pymc._system.progress import Progress
from kem_pymc.search.evaluation import Evaluated

#: Maximum number of characters of a model that are shown.
LONGEST = 60


class BestSoFar:
    """Shows the progress of one search.

    Parameters
    ----------
    progress : Progress
    budget : int
        Number of models to evaluate.
    title : str
        What is shown before the bar.
    """

    def __init__(self, progress: Progress, budget: int, title: str = "Search") -> None:
        self._progress, self._task = progress, progress.add(title, budget)
        self._count = 0
        self._best: Evaluated | None = None

    def add(self, evaluation: Evaluated) -> None:
        """Show the number of evaluations, with this one, and the best model so far."""
        self._count += 1
        if self._best is None or evaluation.score > self._best.score:
            self._best = evaluation
        text = f"best so far: {shorten(self._best.model)} ({self._best.score:.1f})"
        self._progress.update(self._task, self._count, text)


def shorten(model: str) -> str:
    """Return the text of a model, cut off if it is long."""
    return model if len(model) <= LONGEST else f"{model[: LONGEST - 3]}..."
