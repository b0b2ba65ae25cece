"""Plot of the frequencies of users' compositions by time step (paper, fig. 5)."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from kem_pymc.errors import InputError
from kem_pymc.plots import style
from kem_pymc.plots.draws import composition_shares
from kem_pymc.plots.tiles import Step, label_of

if TYPE_CHECKING:
    from xarray import DataTree

type Source = DataTree | pd.DataFrame | Mapping[Hashable, Sequence[Step]]

#: Columns that a table needs, and the column of row weights.
COMPOSITION, TIME_STEP, WEIGHT = "composition", "time_step", "weight"

#: Default maximum number of time steps, spaced evenly from the first to the last.
STEPS = 4

#: Sizes in inches: width of a panel, height of a bar with its name, margins above and below.
ACROSS, BAR, AROUND = 2.9, 0.29, 0.5


def compositions(
    source: Source,
    *,
    time_steps: Sequence[int] | None = None,
    columns: str | None = None,
    rows: str | None = None,
    most: int = 5,
    colours: Mapping[str, str] | None = None,
    label: str = "share of users",
    figure: style.Panel | None = None,
) -> np.ndarray:
    """Draw the most frequent compositions at each time step, and their frequencies (fig. 5).

    The bars of a panel, including that of all other compositions at its bottom, add up to one.

    Parameters
    ----------
    source : DataTree, mapping of user to sequence, or DataFrame
        The posterior of an ``EvolutionModel``, where shares are over users and draws; or the
        selections of each user, one per time step, as Selection, Composition or label; or a tidy
        table with columns ``composition`` and ``time_step`` and a row for each selection.
    time_steps : sequence of int, optional
        Time steps to draw, counted from 0; by default at most 4, from the first to the last. The
        plot counts time steps from 1, except that those of a table are written unchanged.
    columns : str, optional
        Column of a table whose values, such as methods, are drawn side by side; time steps are then
        drawn below each other, otherwise side by side.
    rows : str, optional
        Column of a table whose values are drawn below each other.
    most : int
        Maximum number of compositions in a panel; the most frequent ones are drawn.
    colours : mapping of str to str, optional
        Colours by composition, see :func:`composition_colours`; bars of compositions without a
        colour are hatched.
    label : str
        Label of the horizontal axes.
    figure : Figure or SubFigure, optional
        By default a new one.

    Returns
    -------
    ndarray of matplotlib Axes, shape (rows, columns)

    Raises
    ------
    InputError
        If the source isn't such a posterior, has no such column or time step, `most` is below 1,
        or there is nothing to draw.
    """
    table = _table(source)
    _check(table, [COMPOSITION, TIME_STEP, *(c for c in (columns, rows) if c is not None)], most)
    steps = _steps(table, time_steps)
    counted = 0 if isinstance(source, pd.DataFrame) else 1  # those of tables aren't changed
    table = table[table[TIME_STEP].isin(steps)]
    if colours is None:
        weights = table.groupby(COMPOSITION, sort=False)[WEIGHT].sum()
        colours = style.composition_colours(weights.sort_values(ascending=False).index)
    groups = [None] if rows is None else list(table[rows].unique())
    across = steps if columns is None else list(table[columns].unique())
    below = (
        [(g, None) for g in groups] if columns is None else [(g, t) for g in groups for t in steps]
    )
    several = [c for c in (columns, rows, TIME_STEP) if c is not None]
    counts = table.groupby(several)[COMPOSITION].nunique()
    bars = min(int(counts.max()), most + 1)
    size = 0.4 + ACROSS * len(across), AROUND + (BAR * bars + 0.25) * len(below)
    figure = style.figure_or_new(figure, *size)
    axes = figure.subplots(len(below), len(across), squeeze=False, sharex=True, sharey=True)
    for panels, (group, step) in zip(axes, below, strict=True):
        for ax, value in zip(panels, across, strict=True):
            own = table if group is None else table[table[rows] == group]
            own = own[own[TIME_STEP if columns is None else columns] == value]
            own = own if step is None else own[own[TIME_STEP] == step]
            _draw_bars(ax, own.groupby(COMPOSITION, sort=False)[WEIGHT].sum(), most, bars, colours)
        names = [] if group is None else [style.spelled(str(group))]
        names += [] if step is None else [f"time step {step + counted}"]
        panels[0].set_ylabel("\n".join(names))
    for ax, value in zip(axes[0], across, strict=True):
        ax.set_title(
            f"time step {value + counted}" if columns is None else str(value), fontsize="medium"
        )
    for ax in axes[-1]:
        ax.set_xlabel(label)
    return axes


def _table(source: Source) -> pd.DataFrame:
    from xarray import DataTree

    if isinstance(source, pd.DataFrame):
        return source.assign(**{WEIGHT: 1.0})
    if isinstance(source, DataTree):
        return composition_shares(source)
    pairs = [(label_of(step), t) for own in source.values() for t, step in enumerate(own)]
    return pd.DataFrame(pairs, columns=[COMPOSITION, TIME_STEP]).assign(**{WEIGHT: 1.0})


def _check(table: pd.DataFrame, needed: Sequence[str], most: int) -> None:
    for column in needed:
        if column not in table.columns:
            raise InputError(
                f"The table has no column {column!r}. Use one of {list(table.columns)}."
            )
    if not len(table) or most < 1:
        raise InputError(
            "There are no compositions to draw. Give at least one, and most= of at least 1."
        )


def _steps(table: pd.DataFrame, wanted: Sequence[int] | None) -> list[Any]:
    present = sorted(table[TIME_STEP].unique().tolist())
    if wanted is None:
        places = np.linspace(0, len(present) - 1, min(STEPS, len(present))).round().astype(int)
        return [present[place] for place in places]
    absent = [step for step in wanted if step not in present]
    if absent or not len(wanted):
        raise InputError(
            f"There is no time step {', '.join(map(str, absent)) or 'in time_steps='} to draw. "
            f"Choose from {', '.join(map(str, present))}."
        )
    return list(wanted)


def _draw_bars(
    ax: Axes, weights: pd.Series, most: int, room_for: int, colours: Mapping[str, str]
) -> None:
    """Draw a bar below the name of each composition, the most frequent on top, others last."""
    ax.set(xlim=(0, 1), ylim=(0.45 - room_for, 0.65), yticks=[])
    first, _, last = ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    first.label1.set_horizontalalignment("left")  # keeps clear of the previous panel
    last.label1.set_horizontalalignment("right")
    style.tidy(ax)
    if not len(weights):
        ax.text(
            0.5, 0.5 - room_for / 2, "no users", ha="center", color=style.MUTED, fontsize="small"
        )
        return
    shares = (weights / weights.sum()).sort_values(ascending=False, kind="stable")
    shown, rest = shares.iloc[:most], shares.iloc[most:]
    bars = [(style.spelled(str(name)), name, share) for name, share in shown.items()]
    if len(rest):
        bars.append((f"{len(rest)} other{'s' * (len(rest) > 1)}", None, rest.sum()))
    room = ax.get_window_extent().width / ax.figure.dpi * 72
    for place, (text, name, share) in enumerate(bars):
        coloured = name in colours
        look: style.Look = {"color": colours[name] if coloured else style.OTHER, "linewidth": 0.5}
        look |= {"edgecolor": style.MUTED, "hatch": None if coloured else "/////"}
        ax.barh(-place - 0.2, share, height=0.36, **look)
        font: style.Look = {"fontsize": 7.5, "clip_on": True}
        ax.text(0.015, -place + 0.03, style.shortened(text, 7.5, 0.8 * room), va="bottom", **font)
        ax.text(0.99, -place + 0.03, f"{share:.0%}", va="bottom", ha="right", **font)
