"""Hyperparameters of learned kernels in the study's units, with posterior intervals."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.kernels.base import base_kernel
from kem_pymc.kernels.composition import Candidate, Factor, Hyperparameter
from kem_pymc.plots.style import named

#: Probabilities of the ends of a 90 % interval and of the median.
PROBABILITIES = (0.05, 0.5, 0.95)

#: Minimum number of draws for an interval.
ENOUGH = 10


def intervals(evolutions: Evolutions, clusters: Sequence[Cluster]) -> pd.DataFrame:
    """Return the posteriors of the hyperparameters of clusters that share a composition.

    Each cluster of each draw is weighted by its number of members. Lengths and periods are in the
    feature's unit; variances are replaced by standard deviations, in the target's unit.

    Returns
    -------
    DataFrame
        One row per hyperparameter, indexed by its name. Columns ``part``, ``hyperparameter``,
        ``median``, ``low`` and ``high``, the ends of the 90 % interval, which are NaN if few draws
        have the composition, and ``unit``.
    """
    coordinates = Coordinates(evolutions.pool, clusters[0].child)
    quantiles = np.quantile(
        np.array([c.values for c in clusters]),
        PROBABILITIES,
        axis=0,
        weights=np.array([c.count for c in clusters], dtype=float),
        method="inverted_cdf",
    )
    if len({c.draw for c in clusters}) < ENOUGH:
        quantiles[[0, 2]] = np.nan
    rows = []
    owners = [c for c in evolutions.pool if c in coordinates.composition]
    hyperparameters = [(c, h) for c in owners for h in c.hyperparameters]
    for (candidate, h), column in zip(hyperparameters, quantiles[:, :-1].T, strict=True):
        natural = np.exp(column) if h.positive else column
        values, unit = in_study_units(evolutions, candidate, h, natural)
        part = named((candidate,), evolutions.features)
        rows.append((h.name, part, _kind(candidate, h, evolutions), *values, unit))
    unit = evolutions.scaling.target_label(evolutions.target)
    noise = np.exp(quantiles[:, -1] / 2) * evolutions.scaling.target_sd
    rows.append(("noise", "noise", "sd", *noise, unit))
    columns = ["name", "part", "hyperparameter", "low", "median", "high", "unit"]
    return pd.DataFrame(rows, columns=columns).set_index("name")


def in_study_units(
    evolutions: Evolutions, candidate: Candidate, h: Hyperparameter, values: np.ndarray
) -> tuple[np.ndarray, str]:
    """Return a hyperparameter's values (not logarithms) in the study's units, and the unit."""
    names = evolutions.features
    back = evolutions.scaling.hyperparameters_back({h.name: values})[h.name]
    if h.base is None:  # the amplitude, a variance; of slopes along the features of LIN factors
        lines = [f.dimension for f in candidate.factors if base_kernel(f.base).degree == 2]
        per = "".join(f" per {names[d]}" for d in lines)
        return np.sqrt(back), f"{evolutions.scaling.target_label(evolutions.target)}{per}"
    if h.kind in base_kernel(h.base).unitless:
        return back, ""
    return back, names[_dimension(candidate, h)]


def _dimension(candidate: Candidate, h: Hyperparameter) -> int:
    """Return the index of the feature that a hyperparameter refers to."""
    if not candidate.is_interaction:
        return candidate.factors[0].dimension
    factor = h.name.removeprefix(f"{candidate}.").split(".")[0].split("#")[0]
    return next(f.dimension for f in candidate.factors if str(f) == factor)


def _kind(candidate: Candidate, h: Hyperparameter, evolutions: Evolutions) -> str:
    if h.kind == "amplitude":
        return "size (sd)"
    *factor, kind = h.name.removeprefix(f"{candidate}.").split(".")
    if not factor:
        return kind
    name, *copy = factor[0].split("#")
    label = named((Candidate((Factor.parse(name),)),), evolutions.features)
    return f"{label}{f' no. {copy[0]}' if copy else ''} {kind}"
