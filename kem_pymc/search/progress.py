"""Progress of a search: a bar on a terminal, otherwise a line of text at intervals."""

from collections.abc import Sequence
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kem_pymc.runs.progress import Lines, time_left
from kem_pymc.search.evaluation import Evaluation, best


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

    def show(self, found: Sequence[Evaluation]) -> None:
        """Show the number of evaluations and the best model so far."""
        top = best(found)
        text = f"best so far: {top.expression} ({top.score:.1f})"
        self._progress.update(self._task, completed=len(found), description=text, refresh=True)
        if self._lines is not None:
            left = time_left(len(found), self._budget, monotonic() - self._began)
            self._lines.say(f"{left}, {text}")
