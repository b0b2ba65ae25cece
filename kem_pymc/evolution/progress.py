"""Bars of progress, one per chain."""

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

from kem_pymc.evolution.run_folder import Plan

#: Seconds between two looks.
PERIOD = 0.1


class _Speed(ProgressColumn):
    """Draws per second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:.1f} draws/s")


class Bars:
    """Bars of progress on the terminal's error stream; nothing where that is no terminal.

    They are drawn by whoever updates them: a thread that does would be a danger to processes that
    are forked meanwhile.

    Parameters
    ----------
    plan : Plan
    shown : bool
    """

    def __init__(self, plan: Plan, shown: bool) -> None:
        console = Console(stderr=True)
        self._plan = plan
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
        """Show how far a chain is, and the statistics of its last draw."""
        task = self._tasks[chain]
        if not self._progress.tasks[task].started:  # speed counts from here, also after resuming
            self._progress.update(task, completed=done, visible=True)
            self._progress.start_task(task)
        self._progress.update(
            task,
            completed=done,
            phase="settling" if done < self._plan.tune else "sampling",
            n_clusters=statistics["n_clusters"],
            log_density=statistics["log_density"],
        )
        self._progress.refresh()

    def fail(self, chain: int) -> None:
        """Mark a chain that failed."""
        description = f"[red]Chain {chain} failed[/]"
        self._progress.update(self._tasks[chain], description=description, visible=True)

    def stopping(self, what: str = "draw") -> None:
        """Say that Ctrl-C was heard, and what is waited for."""
        if not self._progress.disable:
            self._progress.console.print(f"Stopping after the {what} that every chain is at.")
