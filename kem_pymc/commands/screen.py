"""What commands print: messages, and tables of kernels and how they evolve."""

from collections.abc import Mapping, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kem_pymc.commands.folders import EVOLUTIONS

if TYPE_CHECKING:
    from kem_pymc.cohort import Cohort
    from kem_pymc.evolution.evolutions import Evolutions
    from kem_pymc.kernels.pool import CandidatePool
    from kem_pymc.selection.selector import Selection

#: Evolutions of less probability, or in a smaller share of draws, aren't printed.
LEAST = 0.05

#: At most so many parents, children of each, and users are printed.
PARENTS, CHILDREN, USERS = 8, 5, 20

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def complain(message: str) -> None:
    """Print an error message."""
    errors.print(f"[bold red]Error[/] {escape(message)}", soft_wrap=True)


def warn(message: str) -> None:
    """Print a warning."""
    errors.print(f"[yellow]Warning[/] {escape(message)}", soft_wrap=True)


def say(message: str) -> None:
    """Print a message."""
    console.print(escape(message), soft_wrap=True)


def heading(text: str) -> None:
    """Print a heading."""
    console.print(f"\n[bold]{escape(text)}[/]")


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """Return an empty table in the style of this command; columns in `right` hold numbers."""
    made = Table(box=box.SIMPLE_HEAD, header_style="bold", caption_justify="left", pad_edge=False)
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left")
    return made


def study(cohort: "Cohort", pool: "CandidatePool") -> None:
    """Print what a model is about to learn from."""
    console.print(f"[bold]Data[/]        {escape(repr(cohort)[len('Cohort(') : -1])}")
    if cohort.dimension > 1:
        numbered = ", ".join(f"{i} {name}" for i, name in enumerate(cohort.features))
        console.print(f"[bold]Features[/]    {escape(numbered)}")
    console.print(f"[bold]Candidates[/]  {', '.join(pool.names)}")


def evolutions(learned: "Evolutions") -> Table:
    """Return the main evolutions: below each frequent parent, its children."""
    numbers = ("probability", "in draws")
    made = table("from", "to", *numbers, right=numbers)
    frame = learned.to_frame()
    main = frame[(frame["probability"] >= LEAST) & (frame["occurrence"] >= LEAST)]
    by_parent = groupby(main.itertuples(index=False), key=lambda row: row.parent)
    shown = 0
    for parent, rows in islice(by_parent, PARENTS):
        for i, row in enumerate(islice(rows, CHILDREN)):
            child = "[dim]stays[/]" if row.child == parent else row.child
            shares = f"{row.probability:.2f}", f"{row.occurrence:.0%}"
            made.add_row("" if i else parent, child, *shares)
            shown += 1
    made.caption = (
        f"probability of the next kernel; share of {learned.n_draws} draws that have it\n"
        f"{shown} of {len(frame)} evolutions; {EVOLUTIONS} has them all"
    )
    return made


def paths(walks: "Mapping[object, Sequence[Selection]]") -> Table:
    """Return one row per user: the kernels selected, each with the points from which it held."""
    made = table("user", "kernel (from so many points on)", "points", right=("points",))
    for user, walk in list(walks.items())[:USERS]:
        changes = [next(same) for _, same in groupby(walk, key=lambda s: s.composition)]
        steps = (f"{s.label()} [dim]({len(s.y)})[/]" for s in changes)
        made.add_row(escape(str(user)), " → ".join(steps), str(len(walk[-1].y)))
    if len(walks) > USERS:
        made.caption = f"The first {USERS} of {len(walks)} users"
    return made
