"""Progress of long operations: bars on a terminal, otherwise a line of text at intervals.

Everything is written to the error stream.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from statistics import median_low
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Self

from rich import progress as rich_progress
from rich.console import Console

from kem_pymc._system.display import SYMBOLS, printable

#: Minimum number of seconds between two lines, without a terminal.
BETWEEN_LINES = 30.0

#: Seconds until the first line, without a terminal.
FIRST_LINE = 10.0

#: Seconds before which the time left isn't estimated.
SETTLED = 20.0

#: A step that takes more than so many times as long as the median was interrupted.
STALLED = 10.0

#: Seconds after which :func:`waiting` prints its first line, without a terminal.
NOTICEABLE = 3.0


class Screen(Console):
    """Console of messages, which is silent once its stream is closed."""

    def on_broken_pipe(self) -> None:
        """Continue in silence: results don't depend on whether ``head`` still reads messages."""
        self.quiet = True
        stream = sys.stderr if self.stderr else sys.stdout
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def duration(seconds: float) -> str:
    """Return a duration in seconds as approximate text, like "about 2 minutes"."""
    for unit, size in (("hour", 3600.0), ("minute", 60.0)):
        if seconds >= 1.5 * size:
            return f"about {seconds / size:.0f} {unit}s"
    if seconds >= 50:
        return "about 1 minute"
    return f"about {max(10 * round(seconds / 10), 10)} seconds" if seconds > 5 else "a few seconds"


class Pace:
    """Estimate of the time left, from the pace in the second half of the time so far.

    The first half may contain compilation, or what was done before and is only read. Steps that
    take ten times as long as the median don't count: the process was suspended meanwhile.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque()
        self._began = 0.0

    def left(self, done: float, total: float) -> str:
        """Return the time left as text.

        It is "" in the first 20 seconds, before there are two steps by which to judge, and if
        nothing is left.
        """
        now = monotonic()
        if not self._samples:
            self._began = now
        if not self._samples or done > self._samples[-1][1]:
            self._samples.append((now, done))
        half = (self._began + now) / 2
        while len(self._samples) > 1 and self._samples[1][0] <= half:
            self._samples.popleft()
        steps = [
            (after - before, more - less)
            for (before, less), (after, more) in pairwise(self._samples)
        ]
        if now - self._began < SETTLED or len(steps) < 2 or not done < total:
            return ""
        usual = median_low(seconds / amount for seconds, amount in steps)
        steps = [step for step in steps if step[0] <= STALLED * usual * step[1]]
        pace = sum(seconds for seconds, _ in steps) / sum(amount for _, amount in steps)
        return f"{duration(pace * (total - done))} left"


class Progress:
    """Progress of one or several tasks, as a context manager.

    On a terminal, every task has a bar, which is refreshed when the task is updated, not by a
    thread. Otherwise, a line on all tasks is printed after ten seconds, then at most every half
    minute.

    Parameters
    ----------
    unit : str
        What is counted, like "draws".
    shown : bool
        Whether to report progress.
    """

    def __init__(self, unit: str, shown: bool = True) -> None:
        self._console = Screen(stderr=True, highlight=False)
        self._unit, self._plain = unit, shown and not self._console.is_terminal
        self._live = rich_progress.Progress(
            rich_progress.TextColumn("{task.description}", markup=False),
            rich_progress.BarColumn(bar_width=24),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TextColumn(unit),
            rich_progress.TextColumn("{task.fields[text]}", markup=False),
            console=self._console,
            auto_refresh=False,
            disable=not (shown and self._console.is_terminal),
        )
        self._paces: dict[rich_progress.TaskID, Pace] = {}
        self._work: dict[rich_progress.TaskID, tuple[float, float]] = {}
        self._pace, self._next_line = Pace(), monotonic() + FIRST_LINE

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._live.stop()

    def add(self, description: str, total: int, work: float | None = None) -> rich_progress.TaskID:
        """Add a task, which is shown when it is updated for the first time.

        The time left is estimated from the share of the `work` that is done; by default all units
        are the same work.
        """
        task = self._live.add_task(description, total=total, visible=False, text="")
        self._paces[task], self._work[task] = Pace(), (0, total if work is None else work)
        return task

    def update(
        self, task: rich_progress.TaskID, done: int, text: str = "", work: float | None = None
    ) -> None:
        """Show how much of a task is done, and a text on its state."""
        self._work[task] = (done if work is None else work), self._work[task][1]
        text = text.translate(SYMBOLS)
        shown = ", ".join(filter(None, (self._paces[task].left(*self._work[task]), text)))
        self._live.update(task, completed=done, visible=True, text=shown, refresh=True)
        tasks = self._live.tasks
        there, everything = sum(t.completed for t in tasks), sum(t.total or 0 for t in tasks)
        left = self._pace.left(*map(sum, zip(*self._work.values(), strict=True)))
        if self._plain and monotonic() >= self._next_line:
            count = f"{there:.0f} of {everything:.0f} {self._unit}"
            about = text if len(tasks) == 1 else ""
            self.info(", ".join(filter(None, (count, left, about))))
            self._next_line = monotonic() + BETWEEN_LINES

    def advance(
        self, task: rich_progress.TaskID, by: int = 1, text: str = "", work: float | None = None
    ) -> None:
        """Show that more of a task is done; see :meth:`update`."""
        done = int(self._live.tasks[task].completed) + by
        self.update(task, done, text, self._work[task][0] + (by if work is None else work))

    def describe(self, task: rich_progress.TaskID, description: str) -> None:
        """Change the description of a task."""
        self._live.update(task, description=description, visible=True, refresh=True)

    def info(self, message: str) -> None:
        """Print a message, above the bars."""
        self._console.print(printable(message), soft_wrap=True)


#: Function to which an operation reports how many of all of its parts are done.
type Report = Callable[[float, float], None]

#: Where the operation that is waited for reports, if there is one.
_outer: list[Report] = []


@contextmanager
def waiting(what: str) -> Iterator[Report]:
    """Show that an operation is in progress, and the time left if it reports its parts.

    On a terminal, this is an animated line. Otherwise, a line is printed if the operation takes
    longer than `NOTICEABLE` seconds, then another every half minute, with the elapsed time. In an
    operation that is waited for already, parts are reported there.

    Parameters
    ----------
    what : str
        Description of the operation, such as "Compiling the sampler".

    Yields
    ------
    callable
        Function of how many parts are done, and of how many.
    """
    if _outer:
        yield _outer[-1]
        return
    console, over = Screen(stderr=True, highlight=False), Event()
    began, pace, left = monotonic(), Pace(), ""

    def line() -> str:
        seconds = monotonic() - began
        so_far = "" if seconds < BETWEEN_LINES else f"{seconds:.0f} s so far"
        return f"{what} ... {', '.join(filter(None, (so_far, left)))}".rstrip()

    def lines() -> None:
        pause = NOTICEABLE
        while not over.wait(pause):
            console.print(line(), markup=False, soft_wrap=True)
            pause = BETWEEN_LINES

    status = console.status(f"{what} ...") if console.is_terminal else None

    def report(done: float, total: float) -> None:
        nonlocal left
        left = pace.left(done, total)
        if status is not None:
            status.update(line())

    thread = Thread(target=lines, daemon=True)
    _outer.append(report)
    try:
        with nullcontext() if status is None else status:
            if status is None:
                thread.start()
            yield report
    finally:
        _outer.pop()
        over.set()
        if status is None:
            thread.join()
