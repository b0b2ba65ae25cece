"""What commands of experiments show: progress, and tables of results."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kem_pymc._system.progress import Progress
from kem_pymc.cli import screen

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with the description of every task that is done.

    Parameters
    ----------
    title : str
        Description before the first task is done.
    total : int
        Number of tasks.
    """
    with Progress("tasks") as bars:
        task = bars.add(title, total)
        yield lambda what: bars.advance(task, text=f"done: {what}")


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
