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
    """

    def __init__(self, progress: Progress, budget: int) -> None:
        self._progress, self._task = progress, progress.add("Search", budget)
        self._count, self._screened = 0, 0
        self._best: Evaluated | None = None

    def add(self, evaluation: Evaluated) -> None:
        """Show the number of evaluations, with this one, and the best model so far."""
        self._count += 1
        if self._screened:
            self._screened, self._best = 0, None  # scores on fewer points aren't comparable
        best = self._better(evaluation)
        text = f"best so far: {shorten(best.model)} ({best.score:.1f})"
        self._progress.update(self._task, self._count, text)

    def screened(self, evaluation: Evaluated) -> None:
        """Show the number of evaluations on some of the points, and the best model so far."""
        self._screened += 1
        best = shorten(self._better(evaluation).model)
        text = f"{self._screened} on some of the points, best so far: {best}"
        self._progress.update(self._task, 0, text)

    def _better(self, evaluation: Evaluated) -> Evaluated:
        if self._best is None or evaluation.score > self._best.score:
            self._best = evaluation
        return self._best


def shorten(model: str) -> str:
    """Return the text of a model, cut off if it is long."""
    return model if len(model) <= LONGEST else f"{model[: LONGEST - 3]}..."
