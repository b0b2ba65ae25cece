"""Helpers that all plots share: colours, typeset compositions, new figures.

The colours of compositions can be distinguished with every common form of colour blindness
(simulated distance of at least 16 in CIELAB between any two); those of lines have a contrast of at
least 3 against white. Colour is never the only cue: tiles have letters as well, lines have markers.
"""

import textwrap
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import FontProperties
from matplotlib.legend import Legend
from matplotlib.textpath import text_to_path

from kem_pymc._system.options import checked
from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import NOISE_ONLY, TIMES

NBSP = "\N{NO-BREAK SPACE}"

type Panel = Figure | SubFigure
type Style = dict[str, Any]

#: Text and data; secondary text; frames and background marks.
INK, MUTED, FAINT = "#1a1a1a", "#595959", "#d9d9d9"

#: Colours of WHITE, and of compositions beyond the palette.
NOTHING, OTHER = "#d4d4d4", "#ffffff"

PALETTE = (
    *("#0072b2", "#e69f00", "#009e73", "#56b4e9", "#d55e00"),
    *("#cc79a7", "#f0e442", "#332288", "#882255"),
)

#: Colours and markers of lines; those of the paper's methods are fixed.
LINES = (
    *(("#d55e00", "o"), ("#0072b2", "s"), ("#332288", "D"), ("#cc79a7", "^"), ("#661100", "v")),
    *(("#994455", "P"), ("#000000", "X")),
)
#: Dashes of lines, in their order; none at first.
DASHES = ("", "--", ":", "-.")
METHODS = dict(zip(("KEM", "Final", "ARD", "Memoryless", "Stratified"), LINES, strict=False))

#: Colours of probabilities: zero is white, and text is legible on every shade.
SHADES = LinearSegmentedColormap.from_list(
    "probability", ["#ffffff", "#d6e6f4", "#9ecae1", "#3f8fc5", "#08519c", "#08306b"]
).with_extremes(bad="#eeeeee")


@runtime_checkable
class Named(Protocol):
    """Object with the names of a study's columns, such as a Cohort or Evolutions."""

    @property
    def features(self) -> tuple[str, ...]: ...

    @property
    def target(self) -> str: ...


@checked
def composition_colours(
    compositions: Evolutions | Iterable[Composition | str],
) -> dict[str, str]:
    """Return a colour for each of the most important compositions.

    Pass the result as ``colours`` to several plots to give a composition the same colour in all of
    them. ``WHITE`` always has the same colour.

    Parameters
    ----------
    compositions : Evolutions, or iterable of Composition or str
        Compositions, the most important first; those of evolutions are ordered by their number of
        pilot datasets.

    Returns
    -------
    dict of str to str
        Colours by label: at most 9, in addition to that of ``WHITE``.
    """
    if isinstance(compositions, Evolutions):
        datasets = datasets_of(compositions)
        names = sorted(datasets, key=lambda label: -datasets[label])
    else:
        names = [str(composition) for composition in compositions]
    labels = [name for name in dict.fromkeys(names) if name != "WHITE"]
    return {"WHITE": NOTHING} | dict(zip(labels, PALETTE, strict=False))


def datasets_of(evolutions: Evolutions) -> dict[str, float]:
    """Return the posterior mean number of pilot datasets of each composition, by label."""
    datasets: dict[Composition, float] = {}
    for cluster in evolutions.clusters:
        share = cluster.count / evolutions.n_draws
        datasets[cluster.child] = datasets.get(cluster.child, 0.0) + share
    return {evolutions.label(c): count for c, count in datasets.items()}


def line_styles(names: Sequence[str]) -> dict[str, Style]:
    """Return the look of each line, a fixed one of the paper's methods; many lines have dashes."""
    taken = {METHODS[name] for name in names if name in METHODS}
    dashes = chain(DASHES, repeat(DASHES[-1]))
    free = ((c, m, dash) for dash in dashes for c, m in LINES if dash or (c, m) not in taken)
    looks = {name: (*METHODS[name], "") if name in METHODS else next(free) for name in names}
    return {
        name: {"color": colour, "marker": marker} | ({"linestyle": dash} if dash else {})
        for name, (colour, marker, dash) in looks.items()
    }


def spelled(label: str) -> str:
    """Return a label typeset, for want of names of features: "noise only" is for WHITE."""
    return NOISE_ONLY if label == "WHITE" else label.replace(" x ", TIMES)


def counted(steps: Iterable[Any]) -> list[str]:
    """Return time steps as text, counted from 1; arrays and tables count them from 0."""
    return [str(int(step) + 1) for step in steps]


def wrapped(text: str, characters: int) -> str:
    """Return text wrapped to lines of at most the given number of characters."""
    return textwrap.fill(text, characters, break_long_words=False, break_on_hyphens=False)


def balanced(label: str, characters: int) -> str:
    """Return a typeset composition in lines of about equal length, broken before a plus."""
    text = label.replace(" + ", f" +{NBSP}")
    lines = wrapped(text, characters).count("\n")
    fitting = (w for w in range(1, characters + 1) if wrapped(text, w).count("\n") == lines)
    return wrapped(text, next(fitting))


def text_size(text: str, size: float, **font: Any) -> tuple[float, float]:
    """Return the width and height of a text in points; no figure is needed."""
    lines = text.split("\n")
    properties = FontProperties(size=size, **font)
    measure = text_to_path.get_text_width_height_descent
    width = max(measure(line, properties, ismath=False)[0] for line in lines)
    return float(width), 1.25 * size * len(lines)


def ink_on(colour: Any) -> str:
    """Return the text colour, black or white, with more contrast on a background."""
    rgb = np.asarray(to_rgb(colour), dtype=np.float64)
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return INK if linear @ (0.2126, 0.7152, 0.0722) > 0.2 else "white"


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """Return `ax`, or the axes of a new figure of this size in inches."""
    if ax is not None:
        return ax
    return new_figure(width, height, layout="constrained").add_subplot()


def new_figure(width: float, height: float, **how: Any) -> Figure:
    """Return a new figure of this size in inches, which is pyplot's current one."""
    from matplotlib import pyplot

    return pyplot.figure(figsize=(width, height), **how)


def close(figure: Figure) -> None:
    """Close a figure that was saved, so that pyplot doesn't keep it."""
    from matplotlib import pyplot

    pyplot.close(figure)


def panels(
    count: int,
    width: float,
    height: float,
    columns: int = 3,
    figure: Panel | None = None,
    **shared: Any,
) -> tuple[Any, np.ndarray]:
    """Return a figure with a grid of panels, and their axes (count,).

    Parameters
    ----------
    count : int
        Number of panels.
    width, height : float
        Size of a panel in inches.
    columns : int
        Maximum number of panels side by side.
    figure : Figure or SubFigure, optional
        By default a new one.
    **shared
        `sharex` and `sharey`, see :meth:`matplotlib.figure.Figure.subplots`.
    """
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = figure or new_figure(width * columns, height * rows, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **shared).ravel()
    for ax in axes[count:]:
        ax.remove()
    return figure, axes[:count]


def tidy(ax: Axes) -> Axes:
    """Remove the top and right spines, mute the other two, and return the axes."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(MUTED)
    ax.tick_params(color=MUTED, labelcolor=INK)
    return ax


def note(ax: Axes, text: str) -> None:
    """Write a note below the label of the horizontal axis, wrapped to the width of the axes."""
    room = ax.get_window_extent().width / ax.figure.dpi * 72
    ax.annotate(
        wrapped(text, max(int(room / 4), 30)),
        *((0, 0), (0, -36)),
        xycoords="axes fraction",
        textcoords="offset points",
        va="top",
        fontsize="small",
        color=MUTED,
    )


def legend(ax: Axes, *, beside: bool, **options: Any) -> None:
    """Put a legend to the right of the axes, where it covers no data, or inside them.

    Axes given by a user may have no room next to them.
    """
    inside: Style = {"framealpha": 0.8, "edgecolor": "none"}
    right: Style = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
    ax.legend(fontsize="small", **(right | {"frameon": False} if beside else inside), **options)


def legend_below(figure: Panel, ax: Axes, title: str | None = None) -> Legend:
    """Put one legend, of the artists in `ax`, below all axes of a figure."""
    handles, labels = ax.get_legend_handles_labels()
    wide = max(text_size(label, 9)[0] for label in labels) + 45  # points, with its handle
    columns = max(int(figure.bbox.width / figure.dpi * 72 / wide), 1)
    options: Style = {"loc": "outside lower center", "frameon": False, "fontsize": "small"}
    return figure.legend(handles, labels, ncols=columns, title=title, **options)


def names(study: Named | None, dimension: int) -> tuple[tuple[str, ...], str]:
    """Return the names of features and target; x, or x0, x1, ..., and y, if no study is given.

    Raises
    ------
    InputError
        If the study's number of features isn't `dimension`.
    """
    if study is None:
        return (("x",) if dimension == 1 else tuple(f"x{d}" for d in range(dimension))), "y"
    if len(study.features) != dimension:
        raise InputError(
            f"The number of features is {len(study.features)} in the study, but {dimension} in the "
            "selection. "
            "Give the cohort or the evolutions that the selection comes from."
        )
    return tuple(study.features), study.target
