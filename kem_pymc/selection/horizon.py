"""Inputs of future points, spaced in time like each user's past points."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError

#: Largest number of points ahead, of all users together.
MOST_AHEAD = 1_000_000


def points_ahead(
    cohort: Cohort, steps: int, batch: int | None = None
) -> dict[Hashable, np.ndarray]:
    """Return inputs of the time steps after every user's last one.

    Their times continue from the user's last time in steps of the median distance between the
    user's distinct times (of an even number of distances, the smaller of the two in the middle, so
    that it is a distance that occurred). Users with a single time have the median of the other
    users' medians. All other features keep their last values.

    Parameters
    ----------
    cohort : Cohort
    steps : int
        Number of time steps.
    batch : int, optional
        Number of points per time step, each at a different time; by default 1.

    Returns
    -------
    dict of user to ndarray, shape (steps * batch, D)
        Inputs of every user's future points.

    Raises
    ------
    InputError
        If the time isn't a feature, another feature changes within a user, no user has two times,
        or there would be more than a million points.
    """
    total = cohort.n_users * steps * (batch or 1)
    if total > MOST_AHEAD:
        raise InputError(
            f"{steps} time steps ahead of {cohort.n_users} users are {total} points, more than "
            f"{MOST_AHEAD}. Ask for fewer steps, or select for fewer users at a time."
        )
    if cohort.time is None:
        raise InputError(
            "Time steps ahead need the time, which isn't a feature of the pilot study. "
            "Give future points with {future}.",
            future=...,
        )
    place = cohort.features.index(cohort.time)
    for user, x in zip(cohort.users, cohort.inputs, strict=True):
        changing = np.delete(np.ptp(x, axis=0), place) > 0
        if changing.any():
            name = np.delete(cohort.features, place)[changing.argmax()]
            raise InputError(
                f"The values of {name} ahead aren't known, and it changes within user {user}. "
                "Give future points with {future}.",
                future=...,
            )
    spacings = [spacing(x[:, place]) for x in cohort.inputs]
    typical = [own for own in spacings if own is not None]
    if not typical:
        raise InputError(
            "Time steps ahead continue the spacing of times, but no user has two different times. "
            "Give future points with {future}.",
            future=...,
        )
    usual = _median(np.array(typical))
    ahead = {}
    for user, x, own in zip(cohort.users, cohort.inputs, spacings, strict=True):
        points = np.repeat(x[-1:], steps * (batch or 1), axis=0)
        points[:, place] += (own or usual) * np.arange(1, len(points) + 1)
        ahead[user] = points
    return ahead


def spacing(times: np.ndarray) -> Any:
    """Return the median distance between distinct times; None if there is only one time."""
    distinct = np.unique(times)
    return _median(np.diff(distinct)) if len(distinct) > 1 else None


def _median(values: np.ndarray) -> Any:
    """Return the middle one of values, the smaller of two: a value that occurs."""
    return np.sort(values)[(len(values) - 1) // 2]
