"""Hyperparameters of learned kernels in the study's units, with posterior intervals."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.kernels.base import base_kernel
from kem_pymc.kernels.composition import Candidate, Factor, Hyperparameter
from kem_pymc.plots.style import spelled, with_features

#: Probabilities of the ends of a 90 % interval and of the median.
SHARES = (0.05, 0.5, 0.95)


#: Minimum number of draws for an interval.
ENOUGH = 10


class Interval(NamedTuple):
    """The posterior of one hyperparameter over clusters: description, 5 %, median, 95 %, unit.

    The ends are NaN if few draws have the composition.
    """

    name: str
    candidate: str
    what: str
    low: float
    middle: float
    high: float
    unit: str


def intervals(evolutions: Evolutions, clusters: Sequence[Cluster]) -> list[Interval]:
    """Return the posteriors of the hyperparameters of clusters that share a composition.

    Each cluster of each draw is weighted by its number of members. Lengths and periods are in the
    feature's unit; variances are replaced by standard deviations, in the target's unit.
    """
    coordinates = Coordinates(evolutions.pool, clusters[0].child)
    weights = np.array([c.count for c in clusters], dtype=float)
    quantiles = weighted_quantiles(np.array([c.values for c in clusters]), weights, SHARES)
    if len({c.draw for c in clusters}) < ENOUGH:
        quantiles[[0, 2]] = np.nan
    table = []
    owners = [c for c in evolutions.pool if c in coordinates.composition]
    named = [(c, h) for c in owners for h in c.hyperparameters]
    for (candidate, h), column in zip(named, quantiles[:, :-1].T, strict=True):
        natural = np.exp(column) if h.positive else column
        values, unit = own_units(evolutions, candidate, h, natural)
        label = _label(candidate, evolutions)
        low, middle, high = map(float, values)
        table.append(
            Interval(h.name, label, _what(candidate, h, evolutions), low, middle, high, unit)
        )
    noise = np.exp(quantiles[:, -1] / 2) * evolutions.scaling.target_sd
    low, middle, high = map(float, noise)
    unit = evolutions.scaling.target_label(evolutions.target)
    return [*table, Interval("noise", "noise", "sd", low, middle, high, unit)]


def own_units(
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


def medians(table: Sequence[Interval]) -> dict[str, float]:
    """Return the medians by the hyperparameters' names."""
    return {row.name: row.middle for row in table}


def weighted_quantiles(
    values: np.ndarray, weights: np.ndarray, shares: Sequence[float]
) -> np.ndarray:
    """Return weighted quantiles (s, k) of the columns of values (n, k), without interpolation."""
    order = np.argsort(values, axis=0, kind="stable")
    ranked = np.take_along_axis(values, order, axis=0)
    below = np.cumsum(weights[order], axis=0) / weights.sum()
    rows = [np.argmax(below >= share - 1e-12, axis=0) for share in shares]
    return np.array([ranked[row, np.arange(values.shape[1])] for row in rows])


def _dimension(candidate: Candidate, h: Hyperparameter) -> int:
    """Return the index of the feature that a hyperparameter refers to."""
    if not candidate.is_interaction:
        return candidate.factors[0].dimension
    factor = h.name.removeprefix(f"{candidate}.").split(".")[0].split("#")[0]
    return next(f.dimension for f in candidate.factors if str(f) == factor)


def _label(candidate: Candidate, evolutions: Evolutions) -> str:
    """Return the typeset label of a candidate, with feature names if there are several."""
    if len(evolutions.features) > 1:
        return spelled(with_features([candidate], evolutions.features))
    return spelled(str(candidate))


def _what(candidate: Candidate, h: Hyperparameter, evolutions: Evolutions) -> str:
    if h.kind == "amplitude":
        return "size (sd)"
    *factor, kind = h.name.removeprefix(f"{candidate}.").split(".")
    if not factor:
        return kind
    name, *copy = factor[0].split("#")
    label = _label(Candidate((Factor.parse(name),)), evolutions)
    return f"{label}{f' no. {copy[0]}' if copy else ''} {kind}"
