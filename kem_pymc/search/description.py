"""Describe the model that a search found, component by component."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import describe_candidate
from kem_pymc.search.evaluation import MEAN
from kem_pymc.selection.selection import Selection


def describe(selection: Selection, features: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the components of a selected kernel, with descriptions and shares of variance.

    Components are ordered as by Lloyd et al. (2014): each is the one that explains most of the
    variance that the components before it left. A component's share is the fraction of the
    variance of the targets by which the variance of the residuals falls when the posterior mean of
    the component is subtracted. Shares add up to one with that of the noise, which is the rest.
    They can be negative, because components fit the data together.

    Parameters
    ----------
    selection : Selection
        Selected kernel, with the data.
    features : sequence of str, shape (D,), optional
        Names of the input columns; by default ``x``, or ``x0``, ``x1`` and so on.

    Returns
    -------
    DataFrame
        Columns `component`, `description` and `share`. The last row is the noise.

    Raises
    ------
    InputError
        If there isn't one name per input column.
    """
    dimension = selection.pool.dimension
    if features is None:
        features = ["x"] if dimension == 1 else [f"x{d}" for d in range(dimension)]
    if len(features) != dimension:
        raise InputError(
            f"There are {len(features)} names of features for {dimension} input columns. "
            "Give one name per column."
        )
    scaling = selection.scaling
    low, high = scaling.feature_low, scaling.feature_high
    x = low + (high - low) * selection.x
    predicted = selection.predict(x, single=True)
    parts = {label: part.mean for label, part in predicted.components.items()}
    parts.pop(MEAN.label(dimension))
    rest = scaling.mean_back(selection.y)
    total = left = float(rest.var())
    values = scaling.hyperparameters_back(selection.hyperparameters)
    candidates = {c.label(dimension): c for c in selection.composition - Composition((MEAN,))}
    rows: list[dict[str, str | float]] = []
    shares: list[float] = []
    while parts:
        variances = {label: float((rest - mean).var()) for label, mean in parts.items()}
        label = min(variances, key=variances.__getitem__)
        rest = rest - parts.pop(label)
        shares.append((left - variances[label]) / total)
        left = variances[label]
        text = describe_candidate(candidates[label], features, values)
        rows.append({"component": label, "description": text, "share": shares[-1]})
    sd = selection.noise_in_target_units**0.5
    rows.append(
        {"component": "noise", "description": f"noise of sd {sd:.2g}", "share": 1 - sum(shares)}
    )
    return pd.DataFrame(rows)


def left_out_errors(selection: Selection) -> np.ndarray:
    """Return the errors of predictions of each target from all others, at the fitted values.

    They are a_i / (C^-1)_ii with a = C^-1 y (Rasmussen and Williams 2006, section 5.4.2). Where
    they are far larger than the noise, components follow single points, and may be noise.

    Parameters
    ----------
    selection : Selection
        Selected kernel, with the data, on a scale without a transform.

    Returns
    -------
    ndarray, shape (n,)
        Errors in the target's unit.
    """
    errors, _ = selection.conditioned.conditional.left_out()
    return errors * selection.scaling.target_sd
