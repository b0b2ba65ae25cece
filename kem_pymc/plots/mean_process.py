"""Plot of the mean process that all users share, against each feature."""

from collections.abc import Sequence

import numpy as np

from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.plots import style
from kem_pymc.plots.curves import column_of, draw_band

#: Default maximum number of features; maximum number of panels side by side.
MOST, COLUMNS = 6, 3

#: Number of points of each curve, and its colour.
FINE, COLOUR = 100, style.PALETTE[0]


def mean_process(
    evolutions: Evolutions,
    features: Sequence[str | int] | None = None,
    *,
    figure: style.Panel | None = None,
) -> np.ndarray:
    """Draw the mean process that all users share, as a function of one feature in each panel.

    The mean of the mean process is a dotted line, with a band of 2 sd to either side. In each panel
    the other features are held in the middle of their range, categories at their first level. All
    panels have the same vertical axis, and their titles give the feature's share of the variance:
    its total effect in the shared part.

    Parameters
    ----------
    evolutions : Evolutions
    features : sequence of str or int, optional
        Names or indices of features with numbers. By default at most six features that the shared
        part depends on, the most relevant first. Categories can't be drawn; compare their levels
        with :func:`kem_pymc.diagnostics.contrasts`.
    figure : Figure or SubFigure, optional
        By default a new one.

    Returns
    -------
    ndarray of Axes, shape (panels,)

    Raises
    ------
    InputError
        If nothing is shared, there is no such feature, `features` is empty, or one of them has
        categories.
    """
    process, scaling, names = evolutions.shared, evolutions.scaling, evolutions.features
    if process is None:
        raise InputError(
            "Users share nothing in these evolutions, so there is nothing to draw. "
            "Learn them with EvolutionModel.from_cohort(cohort, pool)."
        )
    shares = evolutions.settings.get("shared", {}).get("relevance", {}).get("shared")
    categories = frozenset(names.index(name) for name in evolutions.levels)
    if features is None:
        drawn = _relevant(process.kernel.composition.dimensions, shares, categories)
    else:
        drawn = [column_of(feature, names) for feature in features]
        if not drawn or categories & {*drawn}:
            raise InputError(
                "{features} is empty, or contains a feature with categories. Give at least one "
                "numeric feature; to compare categories, use kem.diagnostics.contrasts.",
                features=...,
            )
    figure, panels = style.panels(len(drawn), 2.9, 2.7, COLUMNS, figure, sharey=True)
    unit = np.linspace(0, 1, FINE)
    for ax, d in zip(panels, drawn, strict=True):
        x = np.full((FINE, len(names)), 0.5)
        for other in categories:
            x[:, other] = -scaling.feature_low[other]
        x[:, d] = unit
        sd = np.sqrt(np.maximum(process.covariance(x, x).diagonal(), 0.0))
        at = scaling.feature_low[d] + unit * (scaling.feature_high[d] - scaling.feature_low[d])
        draw_band(ax, at, scaling.mean_back(process.mean(x)), scaling.sd_back(sd), COLOUR)
        ax.set(xlabel=names[d])
        if shares is not None:
            ax.set_title(f"{shares[d]:.0%} of the variance", fontsize="medium")
        ax.margins(x=0)
        style.tidy(ax)
    for ax in panels[::COLUMNS]:
        ax.set_ylabel(evolutions.scaling.target_label(evolutions.target))
    style.legend_below(figure, panels[0])
    return panels


def _relevant(
    dimensions: frozenset[int], shares: Sequence[float] | None, categories: frozenset[int]
) -> list[int]:
    """Return the features of a shared part to draw; the first one if it depends on none."""
    chosen = sorted((dimensions or {0}) - categories)
    if shares is not None:
        chosen.sort(key=lambda d: -shares[d])
    return chosen[:MOST]
