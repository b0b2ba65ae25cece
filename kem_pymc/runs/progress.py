"""Progress of a run: one bar per chain on a terminal, otherwise a line of text at intervals."""

from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from kem_pymc.runs.folder import Plan

#: Seconds between two updates.
PERIOD = 0.1

#: Minimum number of seconds between two lines, without a terminal.
BETWEEN_LINES = 30.0


def duration(seconds: float) -> str:
    """Return a duration in seconds as approximate text, like "about 2 minutes"."""
    for unit, size in (("hour", 3600.0), ("minute", 60.0)):
        if seconds >= 1.5 * size:
            return f"about {seconds / size:.0f} {unit}s"
    if seconds >= 50:
        return "about 1 minute"
    return f"about {max(10 * round(seconds / 10), 10)} seconds" if seconds > 5 else "a few seconds"


def time_left(done: float, total: float, seconds: float) -> str:
    """Return as text how much is done, and how long the rest takes at the same speed."""
    left = f", {duration(seconds * (total - done) / done)} left" if 0 < done < total else ""
    return f"{done:.0f} of {total:.0f}{left}"


class Lines:
    """Print lines at least `BETWEEN_LINES` seconds apart, and drop those in between.

    Parameters
    ----------
    say : callable
        Function that prints a line.
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say, self._last = say, monotonic()

    def say(self, line: str) -> None:
        """Print a line if the last one was printed at least `BETWEEN_LINES` seconds ago."""
        if monotonic() - self._last >= BETWEEN_LINES:
            self._say(line)
            self._last = monotonic()


class _Speed(ProgressColumn):
    """Column with the number of draws per second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:.1f} draws/s")


class Bars:
    """Progress bars on the error stream, or a line of text at intervals if it isn't a terminal.

    Bars are refreshed by the methods that update them, not by a thread of their own.

    Parameters
    ----------
    plan : Plan
    shown : bool
        Whether to report progress.
    """

    def __init__(self, plan: Plan, shown: bool) -> None:
        console = Console(stderr=True)
        self._plan = plan
        self._lines = Lines(console.print) if shown and not console.is_terminal else None
        self._done: dict[int, int] = {}
        self._began: tuple[float, int] | None = None
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[phase]}"),
            TextColumn("{task.fields[n_clusters]} clusters"),
            TextColumn("log density {task.fields[log_density]:.1f}"),
            _Speed(),
            TimeRemainingColumn(),
            console=console,
            auto_refresh=False,
            disable=not (shown and console.is_terminal),
        )
        self._tasks = [
            self._progress.add_task(
                f"Chain {chain}",
                start=False,
                total=plan.total,
                visible=False,
                phase="",
                n_clusters=0,
                log_density=float("nan"),
            )
            for chain in range(plan.chains)
        ]

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.refresh()
        self._progress.stop()

    def update(self, chain: int, done: int, statistics: dict[str, Any]) -> None:
        """Show the number of draws of a chain, and the statistics of its last draw."""
        self._write(chain, done)
        task = self._tasks[chain]
        if not self._progress.tasks[task].started:  # speed counts from here, also after resuming
            self._progress.update(task, completed=done, visible=True)
            self._progress.start_task(task)
        self._progress.update(
            task,
            completed=done,
            phase="tuning" if done < self._plan.tune else "sampling",
            n_clusters=statistics["n_clusters"],
            log_density=statistics["log_density"],
        )
        self._progress.refresh()

    def _write(self, chain: int, done: int) -> None:
        """Print the number of draws of all chains and the time left, if a line is due."""
        if self._lines is None:
            return
        self._done[chain] = done
        there = sum(self._done.values())
        if self._began is None:
            self._began = monotonic(), there
        began, first = self._began
        total = self._plan.chains * self._plan.total
        if there > first:
            left = (monotonic() - began) / (there - first) * (total - there)
            self._lines.say(f"{there} of {total} draws, {duration(left)} left")

    def fail(self, chain: int) -> None:
        """Mark a chain as failed."""
        description = f"[red]Chain {chain} failed[/]"
        self._progress.update(self._tasks[chain], description=description, visible=True)

    def stopping(self) -> None:
        """Report that Ctrl-C was received."""
        if not self._progress.disable:
            self._progress.console.print("Stopping, after a few seconds at most.")
