"""Pilot users as if they were new: selections and predictions without a user's own data."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.evolutions.from_posterior import read_cohort
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.online import Trajectories, points_of, predictions, select_online_for_user

if TYPE_CHECKING:
    from xarray import DataTree

#: Approximate maximum numbers of selections in a report, and of draws that they are based on.
SELECTIONS, DRAWS = 1000, 100


@one_blas_thread()
def selected_without(
    idata: "DataTree", final: "DataTree | None" = None, unshared: "DataTree | None" = None
) -> tuple[pd.DataFrame, pd.DataFrame | None] | None:
    """Select kernels and predict for pilot users, from what was learned without each of them.

    See ``without`` in :meth:`kem_pymc.Evolutions.from_posterior` for what that leaves of the user.
    If there are many time steps, users are spread evenly over all of them.

    Parameters
    ----------
    idata, final, unshared : DataTree
        Posteriors of the study, see :meth:`kem_pymc.Evolutions.from_posterior`.

    Returns
    -------
    (DataFrame, DataFrame or None) or None
        The composition and message of each user's selection at each time step; and predictions, see
        :func:`kem_pymc.selection.online.predictions`, unless a feature has the name of one of their
        columns. None if the posterior has a single user.
    """
    cohort = read_cohort(idata)
    if cohort.n_users < 2:
        return None
    many = int(np.clip(SELECTIONS / cohort.steps.mean(), 1, cohort.n_users))
    chosen = ((np.arange(many) + 0.5) * cohort.n_users / many).astype(int)
    trajectories: Trajectories = {}
    for u in chosen.tolist():
        learned = Evolutions.from_posterior(idata, DRAWS, final=final, unshared=unshared, without=u)
        selector, points = KEMSelector(learned), points_of(cohort, u)
        trajectories[cohort.users[u]] = select_online_for_user(selector, points)
    rows = [
        (user, step, selection.composition, selection.message)
        for user, path in trajectories.items()
        for step, selection in enumerate(path)
    ]
    kernels = pd.DataFrame(rows, columns=["user", "time_step", "composition", "message"])
    try:
        return kernels, predictions(trajectories, cohort.subset(trajectories))
    except InputError:  # of names
        return kernels, None
