"""Walk users through their time steps, each selection starting from the one before."""

import warnings
from collections.abc import Hashable

from rich.progress import track

from kem_pymc.cohort import Cohort
from kem_pymc.commands.screen import console
from kem_pymc.errors import SelectionWarning
from kem_pymc.selection.selector import Selection, Selector

type Walks = dict[Hashable, list[Selection]]


def walk(selector: Selector, cohort: Cohort, description: str) -> Walks:
    """Return the selections of every user at every time step, with a progress bar.

    What a selection has to say stands in its message.
    """
    walks: Walks = {user: [] for user in cohort.users}
    places = [(u, int(n)) for u, ends in enumerate(cohort.ends) for n in ends]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        quiet = not console.is_terminal
        for u, n in track(places, description, console=console, transient=True, disable=quiet):
            own = walks[cohort.users[u]]
            previous = own[-1] if own else None
            own.append(selector.select(cohort.inputs[u][:n], cohort.targets[u][:n], previous))
    return walks
