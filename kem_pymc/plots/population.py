"""Plots of a population model's answers: mean curves, differences between groups, users, shares."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from kem_pymc._system.options import checked
from kem_pymc.plots import style
from kem_pymc.population.posterior import EVERYBODY, Over, PopulationPosterior

#: Largest number of users in a picture.
MOST_USERS = 40

#: Colours of groups, whose bands may overlap: without the second blue.
COLOURS = (*style.PALETTE[:3], *style.PALETTE[4:])


@checked
def mean_curves(
    posterior: PopulationPosterior,
    by: str | None = None,
    over: Over | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean curve of the population or of each group, with its 95 % band, over the data.

    Points of a user in the same group are joined by a thin line in the group's colour; of targets
    that are 0 or 1 there is the share of a group at each time instead. A group's curve is drawn
    from its first to its last point.

    Parameters
    ----------
    posterior : PopulationPosterior
    by, over
        As for :meth:`~kem_pymc.population.posterior.PopulationPosterior.predictions`.
    ax : Axes, optional
        By default the axes of a new figure.

    Returns
    -------
    Axes
    """
    curves = posterior.predictions(by, over)
    name = curves.columns[2]
    beside, ax = ax is None, style.axes_or_new(ax, 7.0, 4.2)
    groups = list(curves.groupby("group", sort=False))
    colours = dict(zip([label for label, _ in groups], COLOURS * len(groups), strict=False))
    model, cohort = posterior.model, posterior.model.cohort
    family = model.original.family
    binary = family is not None and family.name == "binary"
    seen: dict[str, list[np.ndarray]] = {label: [] for label in colours}
    thin: style.Style = {"linewidth": 0.6, "alpha": 0.35, "marker": ".", "markersize": 2.5}
    for x, y in zip(cohort.inputs, model.outcomes, strict=True):
        at = x[:, cohort.features.index(name)]
        level = 0 * y if by is None else x[:, cohort.features.index(by)]
        for value in np.unique(level):
            label, rows = EVERYBODY if by is None else posterior.label(by, value), level == value
            if not binary:
                ax.plot(at[rows], y[rows], color=colours[label], **thin)
            seen[label].append(np.array([at[rows], y[rows]]))
    for label, curve in groups:
        within, y = np.concatenate(seen[label], axis=1)
        curve = curve[curve[name].between(within.min(), within.max())]
        colour: style.Style = {"color": colours[label]}
        if binary:
            shares = pd.Series(y).groupby(within).mean()
            ax.plot(shares.index, shares, linestyle="none", marker=".", alpha=0.6, **colour)
        ax.plot(curve[name], curve["mean"], linewidth=2.2, label=label, **colour)
        ends = curve["low_95"], curve["high_95"]
        ax.fill_between(curve[name], *ends, alpha=0.25, linewidth=0, **colour)
    ax.set(xlabel=name, ylabel=model.mean_label)
    ax.margins(x=0.01)
    if by is not None:
        if beside:
            style.legend_below(ax.figure, ax, title=by)
        else:
            style.legend(ax, beside=False, title=by)
    return style.tidy(ax)


@checked
def comparisons(
    posterior: PopulationPosterior,
    variable: str,
    over: Over | None = None,
    *,
    figure: style.Panel | None = None,
) -> np.ndarray:
    """Draw the differences between the levels of a category over time, with 95 % bands.

    If the cohort has a family they are on the target's own scale, like differences in probability.

    Parameters
    ----------
    posterior : PopulationPosterior
    variable : str
        Feature with categories or with two values.
    over : str or mapping, optional
        Feature, or ``{feature: values}``; by default the time.
    figure : Figure or SubFigure, optional
        By default a new one.

    Returns
    -------
    ndarray of Axes, shape (contrasts,)
    """
    over = posterior.model.cohort.time if over is None else over
    table = posterior.comparisons(variable, over=over)
    name = table.columns[4]
    contrasts = list(table.groupby("contrast", sort=False))
    figure, panels = style.panels(len(contrasts), 3.4, 2.7, 3, figure, sharey=True)
    own = posterior.model.own_scale
    names = ("difference", "difference_low_95", "difference_high_95")
    centre, low, high = names if own else ("estimate", "low_95", "high_95")
    for ax, (contrast, rows) in zip(panels, contrasts, strict=True):
        ax.axhline(0, color=style.MUTED, linewidth=0.8)
        ax.plot(rows[name], rows[centre], color=style.PALETTE[0], linewidth=2)
        band: style.Style = {"color": style.PALETTE[0], "alpha": 0.25, "linewidth": 0}
        ax.fill_between(rows[name], rows[low], rows[high], **band)
        ax.set(xlabel=name)
        ax.set_title(style.balanced(contrast, 36), fontsize="medium")
        ax.margins(x=0)
        style.tidy(ax)
    panels[0].set_ylabel(f"difference in {posterior.model.mean_label}")
    return panels


@checked
def deviations(posterior: PopulationPosterior, *, figure: style.Panel | None = None) -> np.ndarray:
    """Draw each user's deviations from what users share, with 95 % intervals, the largest on top.

    The level comes first and, with a time, the line second. At most 40 users are drawn, the most
    unusual ones.

    Parameters
    ----------
    posterior : PopulationPosterior
    figure : Figure or SubFigure, optional
        By default a new one.

    Returns
    -------
    ndarray of Axes, shape (1,) or (2,)
    """
    table = posterior.users().head(MOST_USERS).sort_values("level")
    cohort = posterior.model.cohort
    quantities = {"level": f"level of {cohort.target}"}
    if "line" in table:
        quantities["line"] = f"line, {cohort.target} per {cohort.time}"
    tall = 0.9 + 0.17 * len(table)
    figure, panels = style.panels(len(quantities), 3.6, tall, 2, figure, sharey=True)
    place = np.arange(len(table))
    for ax, (name, label) in zip(panels, quantities.items(), strict=True):
        ax.axvline(0, color=style.MUTED, linewidth=0.8)
        ax.hlines(place, table[f"{name}_low_95"], table[f"{name}_high_95"], color=style.PALETTE[0])
        ax.plot(table[name], place, "o", color=style.PALETTE[0], markersize=3.5)
        ax.set(xlabel=f"deviation in {label}", ylim=(-0.7, len(table) - 0.3))
        ax.locator_params(axis="x", nbins=4)
        style.tidy(ax)
    panels[0].set_ylabel("user")
    panels[0].set_yticks(place, [str(user) for user in table["user"]], fontsize="small")
    return panels


@checked
def variance_shares(posterior: PopulationPosterior, *, ax: Axes | None = None) -> Axes:
    """Draw shares of the targets' variance as bars with 95 % intervals.

    Parameters
    ----------
    posterior : PopulationPosterior
    ax : Axes, optional
        By default the axes of a new figure.

    Returns
    -------
    Axes
    """
    table: pd.DataFrame = posterior.variance_shares().iloc[::-1]
    ax = style.axes_or_new(ax, 6.5, 0.9 + 0.32 * len(table))
    ends = [table["share"] - table["low_95"], table["high_95"] - table["share"]]
    error: style.Style = {"ecolor": style.INK, "elinewidth": 1.2}
    bars: style.Style = {"color": style.PALETTE[3], "error_kw": error}
    ax.barh(table["component"], table["share"], xerr=np.maximum(ends, 0.0), **bars)
    ax.xaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    ax.set(xlabel=f"share of the variance of {posterior.model.cohort.target}", xlim=(0, None))
    return style.tidy(ax)
