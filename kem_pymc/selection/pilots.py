"""Pilot users as if they were new: what weights of kernels and what intervals suit them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kem_pymc._system.options import checked
from kem_pymc._system.progress import waiting
from kem_pymc._system.resources import one_blas_thread
from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.evolutions.from_posterior import read_cohort
from kem_pymc.evolutions.novelty import EVEN, Novelty
from kem_pymc.gp.calibration import Calibration, score
from kem_pymc.runs.interruption import noticing_interruption
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.online import points_of, select_online_for_user
from kem_pymc.selection.origins import Origins, learned_novelty
from kem_pymc.selection.scores import below_and_at, outcome_of, points_to_predict
from kem_pymc.selection.selection import Selection

if TYPE_CHECKING:
    from xarray import DataTree

#: Approximate maximum numbers of selections, and of draws that they are based on.
SELECTIONS, DRAWS = 1000, 100

#: Number of pilot users, if there are as many, from whom a calibration is learned although that
#: takes more selections.
USERS = 20


@checked
@one_blas_thread()
def calibrate(
    evolutions: Evolutions,
    idata: "DataTree",
    *,
    final: "DataTree | None" = None,
    unshared: "DataTree | None" = None,
) -> Evolutions:
    """Calibrate kernels' weights and predictive intervals on the pilot users, each as if new.

    Kernels are selected online for every pilot user, from what was learned without that user, and
    the next time step's targets are predicted. What is kept with the evolutions is

    - how much weight final kernels have against those that followed the last one, at each number of
      points (:attr:`kem_pymc.Evolutions.novelty`): .8, unless predictions are better with another
      (:func:`kem_pymc.selection.origins.learned_novelty`);
    - how far intervals have to reach, with these weights, to cover the targets
      (:mod:`kem_pymc.gp.calibration` says what is guaranteed), for
      ``selection.predict(x, calibrated=True)`` of new users. Intervals of targets that are 0 or 1
      aren't calibrated: those that cover 95 % of them would leave out an outcome with a probability
      of up to a third;
    - how well all these targets were predicted, with which a trial compares what comes.

    Parameters
    ----------
    evolutions : Evolutions
        Evolutions extracted from `idata`.
    idata, final, unshared : DataTree
        Posteriors of the study, as for :meth:`kem_pymc.Evolutions.from_posterior`. See ``without``
        there for what they still know of a user who is left out.

    Returns
    -------
    Evolutions
        The same evolutions with weights of final kernels, a calibration, and what they promise
        (`held_out`).

    Raises
    ------
    InputError
        If `idata` isn't the posterior of an evolution model, or there are no two pilot users with
        two time steps each.
    KeyboardInterrupt
        After Ctrl-C.

    Notes
    -----
    The calibration is for the next time step, and for selectors with the default fit, criterion and
    average. It takes about 1000 selections, more of 20 users with more than 50 time steps.
    """
    cohort, steps = read_cohort(idata), []
    for u, selector, selections in as_if_new(cohort, idata, final, unshared, USERS, EVEN):
        for step, selection in enumerate(selections):
            coming = points_to_predict(cohort, u, step, "next")
            if coming is not None:
                previous = selections[step - 1] if step else None
                steps.append(Origins.of(selector, selection, previous, u, step, *coming))
    if len({one.user for one in steps}) < 2:
        raise InputError(
            "Intervals can't be calibrated without two pilot users of two time steps each. "
            "Give more pilot users, or leave intervals as they are."
        )
    novelty = None if final is None else learned_novelty(steps)
    found = [(o.user, o.step + 1, o.prediction(novelty), o.targets) for o in steps]
    calibration = None
    if cohort.family is None or cohort.family.name != "binary":
        scores = np.concatenate([score(*below_and_at(each, y)) for *_, each, y in found])
        users = np.concatenate([np.full(len(y), u) for u, *_, y in found])
        calibration = Calibration.of(scores, users)
    served = [(u, s, replace(each, calibration=calibration), y) for u, s, each, y in found]
    held_out = tuple(outcome_of(*one) for one in served)
    return replace(evolutions, novelty=novelty, calibration=calibration, held_out=held_out)


def as_if_new(
    cohort: Cohort,
    idata: "DataTree",
    final: "DataTree | None" = None,
    unshared: "DataTree | None" = None,
    least: int = 1,
    novelty: Novelty | None = None,
) -> Iterator[tuple[int, KEMSelector, list[Selection]]]:
    """Select kernels for pilot users, from what was learned without each of them.

    See ``without`` in :meth:`kem_pymc.Evolutions.from_posterior` for what that leaves of the user.
    If there are many time steps, users are spread evenly over all of them.

    Parameters
    ----------
    cohort : Cohort
        The pilot users, from :func:`kem_pymc.evolutions.from_posterior.read_cohort`.
    idata, final, unshared : DataTree
        Posteriors of the study, see :meth:`kem_pymc.Evolutions.from_posterior`.
    least : int
        Least number of users, if there are as many.
    novelty : Novelty, optional
        Weight of final kernels at each number of points.

    Yields
    ------
    int, KEMSelector, list of Selection
        The position of a user, the selector without that user, and its selections at each time
        step.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C, between two users.
    """
    many = np.clip(SELECTIONS / cohort.steps.mean(), min(least, cohort.n_users), cohort.n_users)
    chosen = ((np.arange(int(many)) + 0.5) * cohort.n_users / int(many)).astype(int).tolist()
    with waiting("Predicting pilot users as if new") as report, noticing_interruption() as noticed:
        for done, u in enumerate(chosen):
            learned = Evolutions.from_posterior(
                idata, DRAWS, final=final, unshared=unshared, without=u
            )
            selector = KEMSelector(replace(learned, novelty=novelty))
            yield u, selector, select_online_for_user(selector, points_of(cohort, u))
            if noticed.happened:
                raise KeyboardInterrupt
            report(done + 1, len(chosen))
