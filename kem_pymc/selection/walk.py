"""Walk users through their time steps, each selection starting from the one before."""

import warnings
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from kem_pymc.cohort import Cohort
from kem_pymc.errors import SelectionWarning
from kem_pymc.selection.selector import Selection, Selector
from kem_pymc.workers import Workers, in_order, workers

type Walks = dict[Hashable, list[Selection]]
type Points = tuple[np.ndarray, np.ndarray, np.ndarray]


def walk(
    selector: Selector,
    cohort: Cohort,
    crew: Workers | None = None,
    tell: Callable[[], Any] = lambda: None,
) -> Walks:
    """Return the selections of every user at every time step.

    What a selection has to say stands in its message.

    Parameters
    ----------
    selector : Selector
    cohort : Cohort
        Users of any number of time steps, in the users' units.
    crew : Workers, optional
        Who selects; by default this process. The selections are the same.
    tell : callable
        Called after every user.

    Returns
    -------
    dict
        A list of selections, one per time step, for every user.
    """
    users = list(zip(cohort.inputs, cohort.targets, cohort.ends, strict=True))
    selections = in_order(crew or workers(1), partial(walk_user, selector), users, tell)
    return dict(zip(cohort.users, selections, strict=True))


def walk_user(selector: Selector, points: Points) -> list[Selection]:
    """Return one user's selections, from all inputs (n, D), targets (n,) and ends (T,)."""
    x, y, ends = points
    own: list[Selection] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        for n in ends:
            own.append(selector.select(x[:n], y[:n], own[-1] if own else None))
    return own
