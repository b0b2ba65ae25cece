"""Plot of the composition of each user at each time step."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import zip_longest
from string import ascii_lowercase
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from xarray import DataTree

from kem_pymc._system.display import plural
from kem_pymc._system.options import checked
from kem_pymc.diagnostics.quantities import Draws, compositions
from kem_pymc.diagnostics.representative import modes
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import named
from kem_pymc.plots import style
from kem_pymc.selection.selection import Selection

type Step = Selection | Composition | str
type Source = DataTree | Mapping[Hashable, Sequence[Step]] | Sequence[Step]

#: Sizes in inches: least cell with a user label, least cell with a letter, cell, tallest plot.
NAMED, LETTER, CELL, TALLEST = 0.09, 0.13, 0.27, 9.0

NOTE = "The most probable compositions; a tile's area is the probability."


@checked
def trajectories(
    source: Source,
    *,
    colours: Mapping[str, str] | None = None,
    study: style.Named | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the composition of every user at every time step as coloured tiles.

    Users are ordered by their last composition, then by earlier ones.

    Parameters
    ----------
    source : DataTree, mapping of user to sequence, or sequence
        The posterior of an ``EvolutionModel``, of which each dataset's most probable composition is
        drawn, with the probability as the tile's area; or the selections of each user, or of one
        user, one per time step, as Selection, Composition or label.
    colours : mapping of str to str, optional
        Colours by composition, see :func:`composition_colours`; tiles of compositions without a
        colour are hatched.
    study : Cohort or Evolutions, optional
        Source of the features' names in the legend; a posterior has them.
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
    users, labels, shares, features = _table(source)
    features = features if study is None else study.features
    counts = Counter(label for row in labels for label in row if label is not None)
    if not counts:
        raise InputError("There are no compositions to draw. Give at least one time step.")
    frequent = sorted(counts, key=lambda label: (-counts[label], label))
    rank = {label: i for i, label in enumerate([*frequent, None])}
    order = sorted(range(len(users)), key=lambda u: [rank[label] for label in labels[u][::-1]])
    users, ranks = [users[u] for u in order], np.array([[*map(rank.get, labels[u])] for u in order])
    sides = 0.94 * np.sqrt(np.array(shares, dtype=float)[order])
    colours = style.composition_colours(frequent) if colours is None else colours
    coloured = (label for label in frequent if label in colours)
    drawn = dict(zip(coloured, ascii_lowercase, strict=False))

    n_users, n_steps = ranks.shape
    cell = min(CELL, TALLEST / n_users)
    wide = 3.6 + style.text_size(max(users, key=len), 10)[0] / 72
    ax = style.axes_or_new(ax, wide + cell * n_steps, 0.8 + max(cell * n_users, 0.25 * len(counts)))
    ax.set(xlim=(0.5, n_steps + 0.5), ylim=(n_users - 0.5, -0.5), xlabel="time step")
    ax.set_aspect("equal", anchor="NW")
    room = ax.get_window_extent()
    cell = min(room.height / n_users, room.width / n_steps) / ax.figure.dpi
    for label, letter in drawn.items():
        chosen = ranks == rank[label]
        name = named(label, features) if features else style.spelled(label)
        name = style.balanced(name, 30).replace("\n", "\n     ")
        _draw_tiles(ax, chosen, sides, f"{letter}   {name}", color=colours[label])
        for i, j in np.argwhere(chosen):
            if cell * sides[i, j] > LETTER:
                place: style.Style = {"ha": "center", "va": "center", "fontsize": "x-small"}
                ax.text(j + 1, i, letter, **place, color=style.ink_on(colours[label]))
    others = [rank[label] for label in frequent if label not in drawn]
    if others:
        frame: style.Style = {"facecolor": style.OTHER, "edgecolor": style.MUTED, "linewidth": 0.5}
        name = f"{len(others)} other{'s' * (len(others) > 1)}"
        _draw_tiles(ax, np.isin(ranks, others), sides, name, hatch="/////", **frame)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    labelled = cell >= NAMED and users != [""]
    ax.set_yticks(range(n_users) if labelled else [], users if labelled else [], fontsize="small")
    if users != [""]:
        ax.set_ylabel("user" if labelled else plural(n_users, "user"))
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    style.legend(ax, beside=True, handlelength=1, handleheight=1)
    if isinstance(shares, np.ndarray):
        style.note(ax, NOTE)
    return ax


def _table(
    source: Source,
) -> tuple[list[str], Sequence[Sequence[str | None]], "np.ndarray | list", Sequence[str]]:
    """Return users, labels (U, T), None where a user lacks the time step, probabilities, features.

    There are no features if the source doesn't have their names.
    """
    from xarray import DataTree

    if isinstance(source, DataTree):
        draws = Draws.of(source)
        code, distinct = compositions(draws)
        modal, shares = modes(code.reshape(-1, *draws.present.shape))
        names = np.array([draws.label(c) for c in distinct], dtype=object)
        labels = np.where(draws.present, names[modal], np.array(None)).tolist()
        shares, features = np.where(draws.present, shares, 0.0), draws.settings["features"]
        return [str(u) for u in draws.users], labels, shares, features
    rows = source if isinstance(source, Mapping) else {"": source}
    steps = zip(*zip_longest(*([*map(_label_of, steps)] for steps in rows.values())), strict=True)
    labels = [[*row] for row in steps] or [[] for _ in rows]
    shown = [[label is not None for label in row] for row in labels]
    return [str(u) for u in rows], labels, shown, ()


def _label_of(step: Step) -> str:
    """Return the label of a selected composition."""
    return step.label() if isinstance(step, Selection) else str(step)


def _draw_tiles(ax: Axes, chosen: np.ndarray, sides: np.ndarray, label: str, **look: Any) -> None:
    """Draw the squares of one composition: where `chosen` (U, T) is true."""
    u, t = np.nonzero(chosen)
    ax.bar(t + 1, sides[u, t], sides[u, t], u - sides[u, t] / 2, label=label, **look)
