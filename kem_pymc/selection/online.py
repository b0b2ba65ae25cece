"""Online selection for all users of a cohort, and tables of the resulting predictions."""

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from itertools import chain
from math import inf
from time import monotonic
from typing import Any

import numpy as np
import pandas as pd

from kem_pymc._system.executors import Workers, make_executor
from kem_pymc._system.options import checked
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError, SelectionWarning
from kem_pymc.gp.response import Response
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.selector import Selector

#: Number of users per task: sending a task and its results costs as much as a selection.
BLOCK = 10

#: Seconds after which a task ends, and another one goes on with its users.
LONGEST = 2.0

#: First columns of the table of predictions, before those of the quantiles and the features.
PREDICTED = ("user", "time_step", "point", "seen", "observed", "mean", "sd")

#: Columns with quantiles of an observation, and their probabilities.
QUANTILES = {
    "median": 0.5,
    **{"low_50": 0.25, "high_50": 0.75},
    **{"low_80": 0.1, "high_80": 0.9},
    **{"low_95": 0.025, "high_95": 0.975},
}

type Trajectories = dict[Hashable, list[Selection]]
#: Inputs (n, D), targets (n,), number of points at each time step (T,), and what is known of rows.
type Points = tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]

#: Points of a user, number of time steps that are done, and the selection at the last of these.
type _Begun = tuple[Points, int, Selection | None]


@checked
def select_online(
    selector: Selector,
    cohort: Cohort,
    executor: Workers | None = None,
    callback: Callable[[Sequence[Selection]], Any] = lambda _: None,
) -> Trajectories:
    """Select kernels online for every user: at each time step, starting from the one before.

    Warnings of a selection aren't issued; its `message` contains their text.

    Parameters
    ----------
    selector : Selector
    cohort : Cohort
        Users with any number of time steps, in the users' units.
    executor : concurrent.futures.Executor, optional
        Executor of the selections; by default this process. The selections are the same.
    callback : callable
        Progress callback, called with selections every few seconds.

    Returns
    -------
    dict of user to list of Selection
        For every user, one selection per time step.

    Raises
    ------
    InputError
        If the time is of another kind than that of the pilot users, such as dates for numbers.
    """
    scaling: Scaling | None = getattr(selector, "scaling", None)
    if scaling is not None:
        scaling.check_time(cohort)
    users = [points_of(cohort, u) for u in range(cohort.n_users)]
    blocks = [users[k : k + BLOCK] for k in range(0, len(users), BLOCK)]
    made: list[list[list[Selection]]] = [[[] for _ in block] for block in blocks]

    def rest(number: int, _: Any = None) -> list[_Begun] | None:
        """Return the users of a block, where they go on; None if all are complete."""
        before = zip(blocks[number], made[number], strict=True)
        begun = [(points, len(done), done[-1] if done else None) for points, done in before]
        return begun if any(done < len(points[2]) for points, done, _ in begun) else None

    executor = make_executor(1) if executor is None else make_executor(cluster=executor)
    tasks = [rest(number) or [] for number in range(len(blocks))]
    function = partial(_select_for_block, selector)
    for number, found in executor.map_unordered(function, tasks, rest):
        for done, more in zip(made[number], found, strict=True):
            done += more
        callback([*chain.from_iterable(found)])
    return dict(zip(cohort.users, chain.from_iterable(made), strict=True))


@checked
def predictions(
    trajectories: Trajectories,
    cohort: Cohort,
    future: Mapping[Hashable, np.ndarray] | None = None,
    horizon: int = 1,
    calibrated: bool = False,
) -> pd.DataFrame:
    """Return the predictions of every selection for the user's past and next points.

    For each user and time step there is one row per point up to the end of the next time step, or
    of the next `horizon` time steps. The columns are
    ``user``, ``time_step``, ``point`` (its number in order of arrival, from 0), ``seen`` (whether
    it had arrived), ``observed``, ``mean`` and ``sd`` of an observation there, ``sd_function`` (the
    sd without noise), the ``median`` of an observation and the ends of its 50, 80 and 95 %
    intervals (``low_95`` is the 0.025 quantile), in the target's unit; then the features. Of
    targets that are 0 or 1, median and intervals are those of their probability. Of a future point,
    a count has the exposure one, and a binomial one trial.

    Parameters
    ----------
    trajectories : mapping of user to list of Selection
        Selections as returned by :func:`select_online`.
    cohort : Cohort
        Cohort for which the selections were made.
    future : mapping of user to ndarray, shape (m, D), optional
        Inputs of future points, whose targets aren't known. They are predicted by the user's last
        selection, and their ``observed`` is NaN.
    horizon : int
        Number of the user's next time steps that are predicted.
    calibrated : bool
        Whether medians and intervals are calibrated, see :meth:`kem_pymc.Selection.predict`.

    Returns
    -------
    DataFrame

    Raises
    ------
    InputError
        If a feature has the name of another column, or there is no calibration.
    """
    check_names(cohort)
    frames = []
    users = zip(cohort.users, cohort.inputs, cohort.targets, cohort.ends, strict=True)
    for position, (user, x, y, ends) in enumerate(users):
        coming = (future or {}).get(user, np.empty((0, cohort.dimension)))
        last = len(ends) - 1
        # Of future observations nothing is known: no noise of their own, and sizes of one.
        given: dict[str, Any] = {
            name: np.append(row, np.full(len(coming), float(name == "sizes")))
            for name, row in cohort.given(position).items()
        }
        inputs, targets = np.vstack([x, coming]), np.append(y, np.full(len(coming), np.nan))
        for step, selection in enumerate(trajectories[user]):
            n = int(ends[min(step + horizon, last)]) if step < last else len(inputs)
            predicted = selection.predict(
                inputs[:n],
                include_noise=True,
                calibrated=calibrated,
                **{name: row[:n] for name, row in given.items()},
            )
            point, quantile, observation = np.arange(n), predicted.quantile, predicted.observation
            if isinstance(observation, Response) and observation.family.name == "binary":
                quantile = observation.curve_quantile
            frames.append(
                pd.DataFrame(
                    {
                        **{"user": user, "time_step": step, "point": point},
                        **{"seen": point < ends[step], "observed": targets[:n]},
                        **{
                            "mean": predicted.mean,
                            "sd": predicted.sd,
                            "sd_function": predicted.sd_function,
                        },
                        **{name: quantile(p) for name, p in QUANTILES.items()},
                        **dict(zip(cohort.features, inputs[:n].T, strict=True)),
                    }
                )
            )
    return pd.concat(frames, ignore_index=True)


def check_names(cohort: Cohort) -> None:
    """Check that no feature has the name of another column of the table of predictions.

    Raises
    ------
    InputError
        If a feature has such a name.
    """
    for name in set(cohort.features) & {*PREDICTED, "sd_function", *QUANTILES}:
        raise InputError(
            f"The feature {name!r} has the name of another column of the predictions. "
            "Rename the feature, or omit the predictions."
        )


def _select_for_block(selector: Selector, block: list[_Begun]) -> list[list[Selection]]:
    """Return further selections of users: all of them, or those of some seconds, at least one."""
    until = monotonic() + LONGEST
    found: list[list[Selection]] = []
    for begun in block:
        late = any(found) and monotonic() >= until
        found.append([] if late else select_online_for_user(selector, *begun, until=until))
    return found


def points_of(cohort: Cohort, user: int) -> Points:
    """Return the points of a user, by position."""
    return cohort.inputs[user], cohort.targets[user], cohort.ends[user], cohort.given(user)


def select_online_for_user(
    selector: Selector,
    points: Points,
    done: int = 0,
    previous: Selection | None = None,
    until: float = inf,
) -> list[Selection]:
    """Return one user's selections at all time steps, or of those after `done` until some time.

    `previous` is the selection at the last time step that is done.
    """
    x, y, ends, given = points
    selections: list[Selection] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        for n in ends[done:]:
            known = {name: values[:n] for name, values in given.items()}
            previous = selector.select(x[:n], y[:n], previous, **known)
            selections.append(previous)
            if monotonic() >= until:
                break
    return selections
