"""What all users share: the mean process against each feature."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kem_pymc.errors import InputError
from kem_pymc.evolution.evolutions import Evolutions
from kem_pymc.plots import style
from kem_pymc.plots.curves import column_of, draw_band

#: At most so many features, unless others are asked for; so many panels beside each other.
MOST, COLUMNS = 6, 3

#: How many points curves are drawn through.
FINE = 100


class Section(NamedTuple):
    """The mean process against one feature, the others in the middle of their range.

    Attributes
    ----------
    feature : str
    share : float or None
        The feature's total effect in the shared part as a share of the variance, if it is known.
    at : ndarray, shape (m,)
        In the feature's unit, over the range of the pilot users.
    mean, sd : ndarray, shape (m,)
        In the target's unit, or that of the transformed target.
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
    """Draw what all users share against one feature after the other.

    In each panel the other features are held in the middle of their range, categories at their
    first level: the mean process' mean
    as a dotted line, with a band of 2 sd to either side. All panels have the same vertical axis,
    and their titles tell the feature's share of the variance: its total effect in the shared part.

    Parameters
    ----------
    evolutions : Evolutions
    features : sequence of str or int, optional
        Names or indices; by default those that the shared part looks at, the most relevant ones
        first, and at most six; never categories, of which :func:`kem_pymc.contrasts` compares
        levels.
    colour : str
    figure : Figure or SubFigure, optional
        By default a new one.

    Returns
    -------
    ndarray of Axes, shape (panels,)

    Raises
    ------
    InputError
        If nothing is shared, or there is no such feature.
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
    """Return the curves that :func:`mean_process` draws, of the same features.

    Raises
    ------
    InputError
        If nothing is shared, or there is no such feature, or one has categories.
    """
    process, scaling, names = evolutions.shared, evolutions.scaling, evolutions.features
    if process is None:
        raise InputError(
            "Users share nothing in these evolutions, so there is nothing to draw. "
            "Learn them with EvolutionModel(..., shared='auto')."
        )
    shares = evolutions.settings.get("shared", {}).get("relevance", {}).get("shared")
    categories = frozenset(names.index(name) for name in evolutions.levels)
    if features is None:
        columns = _relevant(process.kernel.composition.dimensions, shares, categories)
    else:
        columns = [column_of(feature, names) for feature in features]
        if not columns or categories & {*columns}:
            raise InputError(
                "There is no feature to draw against, or one has categories. Give at least one "
                "with numbers; kem.contrasts compares categories."
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
    """Return the features of a shared part to draw; of a level alone the first one."""
    found = sorted((dimensions or {0}) - categories)
    if shares is not None:
        found.sort(key=lambda d: -shares[d])
    return found[:MOST]
