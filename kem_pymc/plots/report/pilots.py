"""Pilot users as if they were new: selections and predictions without a user's own data."""

from typing import TYPE_CHECKING

import pandas as pd

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.errors import InputError
from kem_pymc.evolutions.from_posterior import read_cohort
from kem_pymc.evolutions.novelty import Novelty
from kem_pymc.selection.online import predictions
from kem_pymc.selection.pilots import as_if_new

if TYPE_CHECKING:
    from xarray import DataTree


@one_blas_thread()
def selected_without(
    idata: "DataTree",
    final: "DataTree | None" = None,
    unshared: "DataTree | None" = None,
    novelty: Novelty | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame | None] | None:
    """Select kernels and predict for pilot users, from what was learned without each of them.

    Parameters
    ----------
    idata, final, unshared, novelty
        As for :func:`kem_pymc.selection.pilots.as_if_new`.

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
    selected = as_if_new(cohort, idata, final, unshared, novelty=novelty)
    trajectories = {cohort.users[u]: selections for u, _, selections in selected}
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
