"""Plot of the composition of each user at each time step."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from kem_pymc.diagnostics.quantities import Draws
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.plots import style
from kem_pymc.plots.draws import modal_compositions
from kem_pymc.selection.selection import Selection

if TYPE_CHECKING:
    from xarray import DataTree

type Step = Selection | Composition | str
type Source = DataTree | Mapping[Hashable, Sequence[Step]] | Sequence[Step]

#: Sizes in inches: least cell with a user label, cell, least tick distance, tallest plot.
NAMED, CELL, LEAST_TICK, TALLEST = 0.09, 0.27, 0.16, 9.0

NOTE = "The most probable compositions; a tile's area is the probability."


class _Table(NamedTuple):
    """Labels (U, T), None where a user doesn't have the time step, and their probabilities."""

    users: list[str]
    steps: list[str]
    labels: list[list[str | None]]
    shares: np.ndarray


def trajectories(
    source: Source,
    *,
    sort: bool = True,
    colours: Mapping[str, str] | None = None,
    study: style.Named | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the composition of every user at every time step as coloured tiles.

    Parameters
    ----------
    source : DataTree, mapping of user to sequence, or sequence
        The posterior of an ``EvolutionModel``, of which each dataset's most probable composition is
        drawn, with the probability as the tile's area; or the selections of each user, or of one
        user, one per time step, as Selection, Composition or label.
    sort : bool
        Whether to order users by similarity of their trajectories instead of keeping their order.
    colours : mapping of str to str, optional
        Colours by composition, see :func:`composition_colours`; tiles of compositions without a
        colour are hatched.
    study : Cohort or Evolutions, optional
        Source of the features' names in the legend, if there are several features.
    ax : Axes, optional
        By default the axes of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    InputError
        If a DataTree isn't such a posterior, or there is nothing to draw.
    """
    table = _table(source)
    counts = Counter(label for row in table.labels for label in row if label is not None)
    if not counts:
        raise InputError("There are no compositions to draw. Give at least one time step.")
    frequent = sorted(counts, key=lambda label: (-counts[label], label))
    if colours is None:
        colours = style.composition_colours(frequent)
    if sort:
        table = _sorted(table, frequent)
    letters = _letters(frequent, colours)
    handles, names = _legend(counts, colours, letters, study)
    ax = _fitting_axes(table, names) if ax is None else ax
    _draw_tiles(ax, table, colours, letters)
    style.legend_beside(ax, handles=handles, labels=names, handlelength=1, handleheight=1)
    if (table.shares % 1).any():
        style.note(ax, NOTE)
    return ax


def _fitting_axes(table: _Table, names: Sequence[str]) -> Axes:
    """Return the axes of a new figure with square cells and space for all names."""
    n_users, n_steps = table.shares.shape
    cell = min(CELL, TALLEST / n_users)
    across, down = cell * n_steps, cell * n_users
    left = 0.6 + style.text_size(max(table.users, key=len), 10)[0] / 72
    right = 0.6 + max(style.text_size(name, 9)[0] for name in names) / 72
    below = 1.0 if (table.shares % 1).any() else 0.6
    listed = 0.19 * sum(1 + name.count("\n") for name in names)
    height = max(down + below, listed) + 0.1
    width = left + across + right
    figure = Figure(figsize=(width, height))
    box = left / width, 1 - (down + 0.1) / height, across / width, down / height
    return figure.add_axes(box)


def _table(source: Source) -> _Table:
    from xarray import DataTree

    if isinstance(source, DataTree):
        draws = Draws.of(source)
        users = [str(u) for u in draws.users]
        return _Table(users, style.counted(draws.steps), *modal_compositions(draws))
    rows = source if isinstance(source, Mapping) else {"": source}
    longest = max((len(steps) for steps in rows.values()), default=0)
    labels = [
        [_label_of(step) for step in steps] + [None] * (longest - len(steps))
        for steps in rows.values()
    ]
    shares = np.array([[label is not None for label in row] for row in labels], dtype=float)
    return _Table([str(u) for u in rows], style.counted(range(longest)), labels, shares)


def _label_of(step: Step) -> str:
    """Return the label of a selected composition."""
    return step.label() if isinstance(step, Selection) else str(step)


def _sorted(table: _Table, frequent: Sequence[str]) -> _Table:
    """Return the table with users sorted by their last composition, then by earlier ones."""
    rank = {label: i for i, label in enumerate(frequent)} | {None: len(frequent)}
    order = sorted(
        range(len(table.users)), key=lambda u: [rank[label] for label in table.labels[u][::-1]]
    )
    users, labels = [table.users[u] for u in order], [table.labels[u] for u in order]
    return _Table(users, table.steps, labels, table.shares[order])


def _letters(frequent: Sequence[str], colours: Mapping[str, str]) -> dict[str, str]:
    """Return a letter for each composition that has a colour."""
    coloured = [label for label in frequent if label in colours]
    return dict(zip(coloured, "abcdefghijklmnopqrstuvwxyz", strict=False))


def _draw_tiles(
    ax: Axes, table: _Table, colours: Mapping[str, str], letters: Mapping[str, str]
) -> None:
    n_users, n_steps = table.shares.shape
    ax.set(xlim=(-0.5, n_steps - 0.5), ylim=(n_users - 0.5, -0.5), xlabel="time step")
    ax.set_aspect("equal", anchor="NW")
    room = ax.get_window_extent()
    cell = min(room.height / n_users, room.width / n_steps) / ax.figure.dpi
    every = ceil(LEAST_TICK / cell)
    for (u, t), share in np.ndenumerate(table.shares):
        label = table.labels[u][t]
        if label is None:
            continue
        side = 0.94 * np.sqrt(share)
        ax.add_patch(_tile((t - side / 2, u - side / 2), side, label, colours))
        if label in letters and cell * side > 0.13:
            place: style.Style = {"ha": "center", "va": "center", "fontsize": "x-small"}
            ax.text(t, u, letters[label], **place, color=style.ink_on(colours[label]))
    ax.set_xticks(range(0, n_steps, every), table.steps[::every])
    if cell < NAMED:
        ax.set_yticks([])
        ax.set_ylabel(f"{n_users} users")
    elif table.users != [""]:
        ax.set_yticks(range(n_users), table.users, fontsize="small" if cell > 0.15 else "xx-small")
        ax.set_ylabel("user")
    else:
        ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def _tile(
    corner: tuple[float, float], side: float, label: str, colours: Mapping[str, str]
) -> Rectangle:
    if label in colours:
        return Rectangle(corner, side, side, facecolor=colours[label], edgecolor="none")
    frame: style.Style = {"facecolor": style.OTHER, "edgecolor": style.MUTED, "linewidth": 0.5}
    return Rectangle(corner, side, side, **frame, hatch="/////")


def _legend(
    counts: Counter[str],
    colours: Mapping[str, str],
    letters: Mapping[str, str],
    study: style.Named | None,
) -> tuple[list[Rectangle], list[str]]:
    """Return the legend's tiles and names of the compositions, the most frequent first."""
    handles = [_tile((0, 0), 1, label, colours) for label in letters]
    features = () if study is None else study.features
    names = [
        f"{letter}   {style.balanced(_typeset(label, features), 30)}".replace("\n", "\n     ")
        for label, letter in letters.items()
    ]
    others = [label for label in counts if label not in letters]
    if others:
        handles.append(_tile((0, 0), 1, others[0], colours))
        names.append(f"{len(others)} other{'s' * (len(others) > 1)}")
    return handles, names


def _typeset(label: str, features: Sequence[str]) -> str:
    if len(features) < 2:
        return style.spelled(label)
    return style.named(Composition.parse(label, len(features)), features)
