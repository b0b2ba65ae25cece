"""Plot of one user's predictions at each time step, from a table of predictions."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from kem_pymc._system.options import checked
from kem_pymc.errors import InputError
from kem_pymc.plots import style
from kem_pymc.plots.curves import CROSSES

#: Colours of predictions at points up to the time step, and at points that follow.
SEEN, AHEAD = style.PALETTE[0], style.PALETTE[4]

#: Maximum number of panels side by side.
COLUMNS = 3

#: Widths of the lines of the 95 % and 50 % intervals.
THIN, THICK = 1.2, 3.0


@checked
def online_predictions(
    table: pd.DataFrame,
    *,
    feature: str | None = None,
    target: str = "y",
    figure: style.Panel | None = None,
) -> np.ndarray:
    """Draw the predictions for one user at each time step, as 50 and 95 % intervals.

    Crosses are the user's points up to the time step, rings those of the next one. Intervals are of
    an observation at each of these points, of the probability if targets are 0 or 1; those of the
    following points are in another colour.

    Parameters
    ----------
    table : DataFrame
        Rows of one user in a table of :func:`kem_pymc.selection.online.predictions`, which ``kem
        select --predictions`` writes.
    feature : str, optional
        Column on the horizontal axis; by default points are drawn in order of arrival.
    target : str
        Label of the vertical axis.
    figure : Figure or SubFigure, optional
        By default a new one.

    Returns
    -------
    ndarray of Axes, shape (time steps,)

    Raises
    ------
    InputError
        If the table is empty, lacks a column, or has several users.
    """
    needed = {"user", "time_step", "seen", "observed", "low_50", "high_50", "low_95", "high_95"}
    missing = {*needed, *([feature] if feature else [])} - set(table)
    if missing or table["user"].nunique() != 1:
        raise InputError(
            f"The table isn't that of one user's predictions{', without ' * bool(missing)}"
            f"{', '.join(sorted(missing))}. Give the rows of one user in a table of kem select."
        )
    steps = [step for _, step in table.groupby("time_step")]
    own = figure is None
    shared: style.Style = {"sharex": True, "sharey": True}
    panels, axes = style.panels(len(steps), 2.9, 2.2, COLUMNS, figure, **shared)
    if own:  # margins in inches take no time to compute
        panels.set_layout_engine(None)
        width, height = panels.get_size_inches()
        below = 0.5 + 0.2 * (4, 2, 1)[min(len(steps), COLUMNS) - 1]  # with the legend's rows
        margins = {"left": 0.7 / width, "right": 1 - 0.1 / width, "top": 1 - 0.3 / height}
        panels.subplots_adjust(**margins, bottom=below / height, wspace=0.06, hspace=0.3)
    for i, (ax, step) in enumerate(zip(axes, steps, strict=True)):
        _draw_step(ax, step, feature)
        ax.set_title(f"time step {int(step['time_step'].iloc[0]) + 1}", fontsize="medium")
        ax.set(xlabel=feature or "point, in order of arrival", ylabel=target)
        style.tidy(ax).tick_params(labelbottom=True)
        # What isn't visible isn't drawn, which takes most of the time of such pictures.
        ax.yaxis.set_visible(i % COLUMNS == 0)
        ax.xaxis.set_visible(i + COLUMNS >= len(axes))
    style.legend_below(panels, axes[0])
    return axes


def _draw_step(ax: Axes, step: pd.DataFrame, feature: str | None) -> None:
    x = step[feature].to_numpy(float) if feature else np.arange(1.0, len(step) + 1)
    seen, y = step["seen"].to_numpy(bool), step["observed"].to_numpy(float)
    for colour, where, name in (
        (SEEN, seen, "50 and 95 % intervals"),
        (AHEAD, ~seen, "intervals to come"),
    ):
        for width, level in ((THIN, 95), (THICK, 50)):
            low, high = (step[f"{end}_{level}"].to_numpy(float)[where] for end in ("low", "high"))
            line: style.Style = {"color": colour, "linewidth": width, "alpha": 0.55}
            # One line with gaps: a line for each point would make a large file.
            bars = np.array([low, high, np.full(len(low), np.nan)]).T.ravel()
            ax.plot(np.repeat(x[where], 3), bars, **line, solid_capstyle="butt")
        ax.lines[-1].set_label(name)
    ax.plot(x[seen], y[seen], **CROSSES | {"markersize": 4}, label="points so far")
    ring: style.Style = {"markerfacecolor": "none", "markersize": 4, "color": style.INK}
    ax.plot(x[~seen], y[~seen], "o", **ring, label="points to come")
