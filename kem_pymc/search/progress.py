"""Progress of a search: a bar on a terminal, otherwise a line of text at intervals."""

from time import monotonic
from types import TracebackType
from typing import Self, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kem_pymc.runs.progress import Lines, time_left
from kem_pymc.search.evaluation import Evaluated

#: Maximum number of characters of a model that are shown.
LONGEST = 60


class Line:
    """Progress of one search, on the error stream.

    Parameters
    ----------
    budget : int
        Number of models to evaluate.
    shown : bool
        Whether to report progress.
    """

    def __init__(self, budget: int, shown: bool) -> None:
        console = Console(stderr=True)
        self._budget, self._began = budget, monotonic()
        self._count, self._screened = 0, 0
        self._best = cast(Evaluated | None, None)
        self._lines = Lines(console.print) if shown and not console.is_terminal else None
        self._progress = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=console,
            auto_refresh=False,
            disable=not (shown and console.is_terminal),
        )
        self._task = self._progress.add_task("", total=budget)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def add(self, evaluation: Evaluated) -> None:
        """Show the number of evaluations, with this one, and the best model so far."""
        self._count += 1
        if self._screened:
            self._screened, self._best = 0, None  # scores on fewer points aren't comparable
        if self._best is None or evaluation.score > self._best.score:
            self._best = evaluation
        text = f"best so far: {shorten(self._best.model)} ({self._best.score:.1f})"
        self._progress.update(self._task, completed=self._count, description=text, refresh=True)
        if self._lines is not None:
            left = time_left(self._count, self._budget, monotonic() - self._began)
            self._lines.say(f"{left}, {text}")

    def screened(self, evaluation: Evaluated) -> None:
        """Show the number of evaluations on some of the points, and the best model so far."""
        self._screened += 1
        if self._best is None or evaluation.score > self._best.score:
            self._best = evaluation
        text = f"{self._screened} on some of the points, best so far: {shorten(self._best.model)}"
        self._progress.update(self._task, description=text, refresh=True)
        if self._lines is not None:
            self._lines.say(text)


def shorten(model: str) -> str:
    """Return the text of a model, cut off if it is long."""
    return model if len(model) <= LONGEST else f"{model[: LONGEST - 3]}..."
