"""Hyperparameters of learned kernels in the study's units, with posterior intervals."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.base import base_kernel
from kem_pymc.kernels.composition import Candidate, Hyperparameter
from kem_pymc.kernels.prose import named

#: Probabilities of the ends of a 90 % interval and of the median.
PROBABILITIES = (0.05, 0.5, 0.95)

#: Minimum number of draws for a median and an interval.
ENOUGH = 10


def intervals(evolutions: Evolutions, clusters: Sequence[Cluster]) -> pd.DataFrame:
    """Return the posteriors of the hyperparameters of clusters that share a composition.

    Each cluster of each draw is weighted by its number of members. Lengths and periods are in the
    feature's unit; variances are replaced by standard deviations, in the target's unit.

    Returns
    -------
    DataFrame
        One row per hyperparameter, indexed by its name. Columns ``part``, ``hyperparameter``,
        ``median``, ``low`` and ``high``, the ends of the 90 % interval, all NaN if few draws have
        the composition, and ``unit``.
    """
    quantiles = np.quantile(
        np.array([c.values for c in clusters]),
        PROBABILITIES,
        axis=0,
        weights=np.array([c.count for c in clusters], dtype=float),
        method="inverted_cdf",
    )
    if not enough(clusters):
        quantiles[:] = np.nan
    unit = evolutions.scaling.target_label(evolutions.target)
    described = [
        (h.name, h.positive, named((c,), evolutions.features), *_kind_and_unit(c, h, evolutions))
        for c in evolutions.pool
        if c in clusters[0].child
        for h in c.hyperparameters
    ]
    rows = []
    for (name, positive, part, kind, of), column in zip(
        [*described, ("noise", True, "noise", "sd", unit)], quantiles.T, strict=True
    ):
        natural = np.exp(column) if positive else column
        values = evolutions.scaling.hyperparameters_back({name: natural})[name]
        if kind in ("size (sd)", "sd"):
            values = np.sqrt(values)
        rows.append((name, part, kind, *values, of))
    columns = ["name", "part", "hyperparameter", "low", "median", "high", "unit"]
    return pd.DataFrame(rows, columns=columns).set_index("name")


def enough(clusters: Sequence[Cluster]) -> bool:
    """Return whether clusters are of enough draws for their posterior to be shown."""
    return len({c.draw for c in clusters}) >= ENOUGH


def _kind_and_unit(
    candidate: Candidate, h: Hyperparameter, evolutions: Evolutions
) -> tuple[str, str]:
    """Return what a hyperparameter is, with its factor if there are several, and its unit."""
    names = evolutions.features
    if h.base is None:  # the amplitude, a variance; of slopes along the features of LIN factors
        lines = [f.dimension for f in candidate.factors if base_kernel(f.base).degree == 2]
        per = "".join(f" per {names[d]}" for d in lines)
        return "size (sd)", f"{evolutions.scaling.target_label(evolutions.target)}{per}"
    factor = next(factor for factor, those in candidate.by_factor if h in those)
    unit = "" if h.kind in base_kernel(h.base).unitless else names[factor.dimension]
    if not candidate.is_interaction:
        return h.kind, unit
    number = h.name.split(".")[-2].partition("#")[2]
    label = named((Candidate((factor,)),), names)
    return f"{label}{f' no. {number}' if number else ''} {h.kind}", unit
