"""What commands of experiments show: progress, and tables of results."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from kem_pymc.cli import screen

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with the description of every task that is done.

    A progress bar shows the last task that was done and the time left. Without a terminal, a line
    is printed every half minute, and one at the end.

    Parameters
    ----------
    title : str
        Description before the first task is done.
    total : int
        Number of tasks.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from kem_pymc.runs.progress import Lines, time_left

    columns = (*(TextColumn("{task.description}"), BarColumn()), TimeElapsedColumn())
    quiet = not screen.console.is_terminal
    lines, began, count = Lines(screen.info), monotonic(), 0
    with Progress(*columns, console=screen.console, transient=True, disable=quiet) as bars:
        bar = bars.add_task(title, total=total)

        def done(what: str) -> None:
            nonlocal count
            count += 1
            so_far = time_left(count, total, monotonic() - began)
            bars.update(bar, advance=1, description=f"{so_far}. Done: {what}")
            if quiet and count == total:
                screen.info(f"{so_far}: {what}")
            elif quiet:
                lines.say(f"{so_far}. Done: {what}")

        yield done


def show(tables: "dict[str, pd.DataFrame]") -> None:
    """Print the tables of a figure.

    A table that is too wide for the screen is split by study; parts that are still too wide are
    printed without intervals, in blocks of as many columns as fit.
    """
    shortened = False
    for title, table in tables.items():
        parts = {title: table}
        if table.index.nlevels > 1 and not _fits(table):
            studies = table.groupby(level=0, sort=False)
            parts = {f"{title}: {study}": part.droplevel(0) for study, part in studies}
        for heading, part in parts.items():
            screen.heading(heading)
            short = part
            if not _fits(part):
                short = part.map(lambda cell: str(cell).split(" ± ")[0])
                shortened |= not short.equals(part.map(str))
            for columns in _blocks(short):
                screen.console.print(_printable(columns))
    if shortened:
        screen.info("Intervals are in the files; they don't fit on this screen.")


def _blocks(table: "pd.DataFrame") -> Iterator["pd.DataFrame"]:
    """Yield blocks of as many columns as fit on the screen, at least one."""
    while table.shape[1]:
        widths = range(table.shape[1], 1, -1)
        width = next((w for w in widths if _fits(table.iloc[:, :w])), 1)
        yield table.iloc[:, :width]
        table = table.iloc[:, width:]


def _fits(table: "pd.DataFrame") -> bool:
    return screen.fits(_printable(table))


def _printable(table: "pd.DataFrame") -> "Table":
    flat = table.reset_index() if table.index.names != [None] else table
    names = [" ".join(map(str, c)).strip() if isinstance(c, tuple) else str(c) for c in flat]
    made = screen.table(*names)
    for row in flat.itertuples(index=False):
        made.add_row(*(str(value) for value in row))
    return made
