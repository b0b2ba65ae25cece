"""Plot of each method's predictive scores by time step (paper, figs. 4 and 6)."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from pandas.api.types import is_numeric_dtype
from scipy.stats import t as student

from kem_pymc._system.options import checked
from kem_pymc.errors import InputError
from kem_pymc.plots import style

#: Width over which the points of different methods are spread, as a share of a time step.
DODGE = 0.3


@checked
def log_likelihood(
    table: pd.DataFrame,
    *,
    time_step: str = "time_step",
    value: str = "value",
    unit: str = "unit",
    label: str = "test log-likelihood",
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw one line per method: the mean over units at each time step, with intervals.

    Parameters
    ----------
    table : DataFrame
        Tidy table with one value in each row, of the method in the column ``method``.
    time_step, value : str
        Names of the columns.
    unit : str
        Column of independent units, such as trials or users. Values of one unit are averaged first.
        Intervals are Student's t intervals of 95 % for the mean over units.
    label : str
        Label of the vertical axis. Values needn't be log-likelihoods; run times or sizes can be
        drawn as well.
    legend : bool
        Whether to draw a legend; it lists methods in the order in which their lines end, from top
        to bottom.
    ax : Axes, optional
        By default the axes of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    InputError
        If a column is missing, or a value or time step isn't a finite number.
    """
    _check(table, time_step, value, unit)
    of_units = table.groupby(["method", time_step, unit])[value].mean()
    means = of_units.groupby(["method", time_step]).agg(["mean", "sem", "count"])
    means["half"] = student.ppf(0.975, means["count"] - 1) * means["sem"]
    methods = list(dict.fromkeys(table["method"]))
    styles = style.line_styles([str(m) for m in methods])
    steps = means.index.get_level_values(time_step).unique().sort_values()
    width = DODGE * float(np.diff(steps).min()) if len(steps) > 1 else DODGE
    shifts = width * (np.arange(len(methods)) - (len(methods) - 1) / 2) / max(len(methods) - 1, 1)
    beside, ax = ax is None, style.axes_or_new(ax, 6.2, 3.4)
    for name, shift in zip(methods, shifts, strict=True):
        rows = means.loc[name].sort_index()
        look = styles[str(name)] | {"markersize": 5, "linewidth": 1.4, "elinewidth": 1}
        mean, half = rows["mean"].to_numpy(), rows["half"].to_numpy()
        ax.errorbar(rows.index + shift, mean, half, label=str(name), **look)
    ax.set_xlabel(time_step.replace("_", " "))
    interval = f"\n(mean, 95 % interval over {unit.replace('_', ' ')}s)"
    ax.set_ylabel(label + (interval if means["half"].notna().any() else ""))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if legend:
        final = {str(m): means.loc[m].sort_index()["mean"].iloc[-1] for m in methods}
        handles = zip(*ax.get_legend_handles_labels(), strict=True)
        named = sorted(handles, key=lambda h: -final[h[1]])
        style.legend(ax, beside=beside, handles=[handle for handle, _ in named])
    return style.tidy(ax)


def _check(table: pd.DataFrame, time_step: str, value: str, unit: str) -> None:
    for column in ("method", time_step, value, unit):
        if column not in table.columns:
            raise InputError(
                f"The table has no column {column!r}. Use one of {list(table.columns)}."
            )
    for column in (time_step, value):
        numeric = is_numeric_dtype(table[column])
        if table.empty or not numeric or not np.isfinite(table[column]).all():
            raise InputError(
                f"Column {column!r} is empty, or contains values that aren't finite numbers. "
                "Drop or convert these values."
            )


def coverage(table: pd.DataFrame) -> Axes:
    """Draw coverage by time step, with intervals, and what was promised.

    Parameters
    ----------
    table : DataFrame
        As ``by_time_step`` of :class:`kem_pymc.trial.monitor.Monitoring`.

    Returns
    -------
    Axes
    """
    ax = style.tidy(style.axes_or_new(None, 4.6, 3.2))
    for level, (colour, marker), aside in zip(
        (50, 80, 95), style.LINES[:3], (-0.1, 0, 0.1), strict=True
    ):
        rows = table[table["quantity"] == f"within{level}"]
        at, value, low, high, promised = (
            rows[name].to_numpy() for name in ("time_step", "value", "low", "high", "promised")
        )
        ends = np.maximum([value - low, high - value], 0)
        ax.errorbar(at + aside, value, ends, fmt=marker, color=colour, capsize=2, ms=5)
        ax.plot(at, promised, "x--", color=colour, lw=1, ms=4)
        ax.annotate(f"{level} %", (at[-1], promised[-1]), (6, 0), textcoords="offset points")
    ax.set(xlabel="time step", ylabel="share of answers", ylim=(0, 1.05))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax
