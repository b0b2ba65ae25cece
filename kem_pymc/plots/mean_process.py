"""Plot of the mean process that all users share, against each feature."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.plots import style
from kem_pymc.plots.curves import column_of, draw_band

#: Default maximum number of features; maximum number of panels side by side.
MOST, COLUMNS = 6, 3

#: Number of points of each curve.
FINE = 100


class Section(NamedTuple):
    """The mean process as a function of one feature, with the others held fixed.

    The other features are in the middle of their range, categories at their first level.

    Attributes
    ----------
    feature : str
    share : float or None
        Total effect of the feature in the shared part, as a share of the variance; None if it
        isn't known.
    at : ndarray, shape (m,)
        Values of the feature, in its unit, over the range of the pilot users.
    mean, sd : ndarray, shape (m,)
        Mean and standard deviation of the mean process, in the unit of the target, or of the
        transformed target.
    """

    feature: str
    share: float | None
    at: np.ndarray
    mean: np.ndarray
    sd: np.ndarray


def mean_process(
    evolutions: Evolutions,
    features: Sequence[str | int] | None = None,
    *,
    colour: str = style.PALETTE[0],
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
    colour : str
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
    sections = shared_sections(evolutions, features)
    across = min(len(sections), COLUMNS)
    down = -(-len(sections) // across)
    figure = style.figure_or_new(figure, 0.4 + 2.8 * across, 0.5 + 2.5 * down)
    panels = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    for ax in panels[len(sections) :]:
        ax.remove()
    panels = panels[: len(sections)]
    for ax, section in zip(panels, sections, strict=True):
        draw_band(ax, section.at, section.mean, section.sd, colour)
        ax.set(xlabel=section.feature)
        if section.share is not None:
            ax.set_title(f"{section.share:.0%} of the variance", fontsize="medium")
        ax.margins(x=0)
        style.tidy(ax)
    for ax in panels[::across]:
        ax.set_ylabel(evolutions.scaling.target_label(evolutions.target))
    style.legend_below(figure, panels[0])
    return panels


def shared_sections(
    evolutions: Evolutions, features: Sequence[str | int] | None = None
) -> list[Section]:
    """Return the curves that :func:`mean_process` draws for these features.

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
        columns = _relevant(process.kernel.composition.dimensions, shares, categories)
    else:
        columns = [column_of(feature, names) for feature in features]
        if not columns or categories & {*columns}:
            raise InputError(
                "{features} is empty, or contains a feature with categories. Give at least one "
                "numeric feature; to compare categories, use kem.diagnostics.contrasts.",
                features=...,
            )
    unit = np.linspace(0, 1, FINE)
    sections = []
    for d in columns:
        x = np.full((FINE, len(names)), 0.5)
        for other in categories:
            x[:, other] = -scaling.feature_low[other]
        x[:, d] = unit
        sd = np.sqrt(np.maximum(process.covariance(x, x).diagonal(), 0.0))
        low, high = scaling.feature_low[d], scaling.feature_high[d]
        sections.append(
            Section(
                feature=names[d],
                share=None if shares is None else shares[d],
                at=low + unit * (high - low),
                mean=scaling.mean_back(process.mean(x)),
                sd=scaling.sd_back(sd),
            )
        )
    return sections


def _relevant(
    dimensions: frozenset[int], shares: Sequence[float] | None, categories: frozenset[int]
) -> list[int]:
    """Return the features of a shared part to draw; the first one if it depends on none."""
    found = sorted((dimensions or {0}) - categories)
    if shares is not None:
        found.sort(key=lambda d: -shares[d])
    return found[:MOST]
