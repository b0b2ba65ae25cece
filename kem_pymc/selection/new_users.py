"""Checks that new users' data are like those of the pilot users."""

import warnings
from dataclasses import replace

import numpy as np

from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import DataWarning, InputError
from kem_pymc.evolutions.evolutions import Evolutions

#: A warning is given if features are this many ranges of the pilot users' values outside that
#: range, or targets are this many standard deviations from the pilot users' mean.
FAR, FAR_TARGET = 3.0, 20.0


def check_users(cohort: Cohort, evolutions: Evolutions) -> None:
    """Check that users have the features of the pilot users, and warn if their unit may differ.

    Without scaling, the range of the pilot users' values isn't known, and there is no warning.

    Parameters
    ----------
    cohort : Cohort
        New users, in the units of their table.
    evolutions : Evolutions

    Raises
    ------
    InputError
        If the features, the levels of categories or the kind of the time are others than those of
        the pilot users.

    Warns
    -----
    DataWarning
        If a feature or the target is far from the values of the pilot users.
    """
    if cohort.features != evolutions.features:
        raise InputError(
            f"The new users' features are {', '.join(cohort.features)}, those of the pilot "
            f"study are {', '.join(evolutions.features)}. Give the evolutions of the same study."
        )
    if dict(cohort.levels) != evolutions.levels:
        raise InputError(
            "The new users' categories have other levels than the pilot study's. "
            "Pass the levels of the pilot cohort as {categorical} to both cohorts.",
            categorical=...,
        )
    evolutions.scaling.check_time(cohort)
    scaling = replace(evolutions.scaling, time_kind=None)
    if scaling.to_dict() == scaling.identity(len(evolutions.features)).to_dict():
        return
    x, y = np.concatenate(cohort.inputs), np.concatenate(cohort.targets)
    for d, name in enumerate(evolutions.features):
        low, high = scaling.feature_low[d], scaling.feature_high[d]
        room = FAR * (high - low)
        far = x[:, d].min() < low - room or x[:, d].max() > high + room
        if far and name not in evolutions.levels:
            _warn(name, x[:, d], f"it was between {low:.6g} and {high:.6g}")
    if np.abs(np.concatenate(scaling.apply(cohort).targets)).max() > FAR_TARGET:
        _warn(
            cohort.target,
            y,
            f"{scaling.target_label('it')} had mean {scaling.target_mean:.6g} and sd "
            f"{scaling.target_sd:.6g}",
        )


def _warn(name: str, values: np.ndarray, expected: str) -> None:
    low, high = (f"{value:.6g}" for value in (values.min(), values.max()))
    found = low if low == high else f"between {low} and {high}"
    warnings.warn(
        f"{name} is {found}; for the pilot users, {expected}. Check that its unit is the same.",
        DataWarning,
        stacklevel=3,
    )
