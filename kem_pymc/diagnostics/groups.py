"""Summaries of the shared mean function: differences between groups, and relevance of features."""

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.evolutions.from_posterior import read_shared, study_settings
from kem_pymc.kernels.prose import describe_candidate
from kem_pymc.shared.choice import SharedPart
from kem_pymc.shared.contrasts import level_means
from kem_pymc.shared.relevance import relevance_by_component

if TYPE_CHECKING:
    from xarray import DataTree

#: If a feature has more levels than this, each level is only compared with the first.
ALL_PAIRS = 4


def contrasts(idata: "DataTree", feature: str, probability: float = 0.95) -> pd.DataFrame:
    """Return differences between groups of users in the mean function that all users share.

    The contrast of two levels of a feature is the difference of the shared function's averages over
    all rows of the pilot users, once with the one level in every row and once with the other. It
    thus compares groups at equal values of all other features. The shared function is normally
    distributed given the pilot users' data and the fitted values of its kernel, which the intervals
    take as known.

    Parameters
    ----------
    idata : DataTree
        Posterior from ``pm.sample`` with an ``EvolutionModel``.
    feature : str
        Name of a feature with categories, or with two values.
    probability : float
        Probability of the intervals, between 0 and 1.

    Returns
    -------
    DataFrame
        One row per pair of levels; with more than four levels, one row per level other than the
        first, compared with the first. Columns ``contrast`` ("Male - Female"), ``mean``, ``sd``,
        ``low`` and ``high``, in the target's unit (that of the transformed target, if any).

    Raises
    ------
    InputError
        If there is no such feature, it has neither categories nor exactly two values, the shared
        function doesn't depend on it, `probability` isn't between 0 and 1, or `idata` isn't the
        posterior of an ``EvolutionModel``.
    """
    if not 0 < probability < 1:
        raise InputError(f"probability={probability} isn't valid. Give a number between 0 and 1.")
    settings = study_settings(idata)
    names = settings["features"]
    if feature not in names:
        raise InputError(f"There is no feature {feature!r}. Use one of {', '.join(names)}.")
    part = read_shared(idata, settings)
    d = names.index(feature)
    if part is None or d not in part.model.kernel.composition.dimensions:
        what = "nothing" if part is None else str(part.model.kernel.composition)
        raise InputError(
            f"Levels of {feature} can't be compared: users share {what}, and no shared component "
            f"depends on {feature}. Fit with candidates in {{shared}} that do.",
            shared=...,
        )
    rows = _rows(idata)
    scaling = Scaling.from_dict(settings["scaling"])
    levels = settings.get("levels", {}).get(feature)
    if levels is None:
        values = np.unique(rows[:, d])
        if len(values) != 2:
            raise InputError(
                f"{feature} has {len(values)} different numeric values, which can't be "
                "compared. Choose a feature with categories or two values, or fit again and "
                "declare its values categories with {categorical}.",
                categorical=...,
            )
        low, high = scaling.feature_low[d], scaling.feature_high[d]
        levels = [f"{low + (high - low) * value:g}" for value in values]
    else:
        values = np.arange(len(levels)) - scaling.feature_low[d]
    mean, covariance = level_means(part.process, rows, d, values)
    reach = norm.ppf(0.5 + probability / 2)
    contrast_rows = []
    for a, b in _pairs(len(levels)):
        difference = float(scaling.sd_back(mean[b] - mean[a]))
        variance = covariance[a, a] + covariance[b, b] - 2 * covariance[a, b]
        sd = float(scaling.sd_back(np.sqrt(max(variance, 0.0))))
        ends = difference - reach * sd, difference + reach * sd
        contrast_rows.append((f"{levels[b]} - {levels[a]}", difference, sd, *ends))
    return pd.DataFrame(contrast_rows, columns=["contrast", "mean", "sd", "low", "high"])


def grouping_features(idata: "DataTree") -> list[str]:
    """Return the features whose levels can be compared with :func:`contrasts`."""
    settings = study_settings(idata)
    part = read_shared(idata, settings)
    if part is None:
        return []
    rows, names = _rows(idata), settings["features"]
    return [
        names[d]
        for d in sorted(part.model.kernel.composition.dimensions)
        if names[d] in settings.get("levels", {}) or len(np.unique(rows[:, d])) == 2
    ]


def relevances(idata: "DataTree") -> pd.DataFrame:
    """Return the fraction of the target's variance due to each component and each feature.

    The fractions refer to the two-level model of all pilot users in which the shared mean was
    learned. For the shared part the variance is that of the posterior mean, for the personal part
    (each user's own function) it is the prior variance at the fitted values. The fractions of the
    components of a function needn't add up to that of the function. The fraction of a feature is
    its total effect, in which interactions of several features count for each of them.

    Parameters
    ----------
    idata : DataTree
        Posterior from ``pm.sample`` with an ``EvolutionModel``.

    Returns
    -------
    DataFrame
        Columns ``part`` ("shared", "personal", "noise"), ``kind`` ("all", "component" or
        "feature"), ``name`` and ``share``; without rows if there is no shared mean.

    Raises
    ------
    InputError
        If `idata` isn't the posterior of an ``EvolutionModel``.
    """
    settings = study_settings(idata)
    part = read_shared(idata, settings)
    rows = [] if part is None else list(_relevances(part, _rows(idata), settings))
    return pd.DataFrame(rows, columns=["part", "kind", "name", "share"])


def _relevances(
    part: SharedPart, rows: np.ndarray, settings: dict[str, Any]
) -> Iterator[tuple[str, str, str, float]]:
    names = settings["features"]
    variance = float(np.var(part.process.mean(rows)))
    total = variance / part.shares["shared"] if variance else 1.0
    components = relevance_by_component(part.posterior, rows, total)
    for which, share in part.shares.items():
        yield which, "all", "", share
        for candidate, share_of_component in components.get(which, {}).items():
            label = f"{describe_candidate(candidate, names)} ({candidate.label(len(names))})"
            yield which, "component", label, share_of_component
        for name, effect in zip(names, part.relevance.get(which, ()), strict=False):
            yield which, "feature", name, effect


def _pairs(levels: int) -> list[tuple[int, int]]:
    if levels <= ALL_PAIRS:
        return list(combinations(range(levels), 2))
    return [(0, b) for b in range(1, levels)]


def _rows(idata: "DataTree") -> np.ndarray:
    """Return all pilot users' inputs (n, D), in scaled units."""
    constant = idata["constant_data"]
    inputs = constant["inputs"].transpose("user", "point", "feature").values
    points = constant["n_points"].transpose("user", "time_step").values.max(axis=1)
    return np.concatenate([x[:n] for x, n in zip(inputs, points, strict=True)])
