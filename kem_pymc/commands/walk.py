"""Walks of users with a progress bar."""

from rich.progress import Progress

from kem_pymc.cohort import Cohort
from kem_pymc.commands.screen import console
from kem_pymc.selection import walk as quietly
from kem_pymc.selection.selector import Selector
from kem_pymc.selection.walk import Walks
from kem_pymc.workers import Workers


def walk(
    selector: Selector, cohort: Cohort, description: str, crew: Workers | None = None
) -> Walks:
    """Return the selections of every user at every time step."""
    quiet = not console.is_terminal
    with Progress(console=console, transient=True, disable=quiet) as progress:
        bar = progress.add_task(description, total=cohort.n_users)
        return quietly.walk(selector, cohort, crew, lambda users: progress.advance(bar, users))
