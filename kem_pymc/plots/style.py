"""What all pictures share: colours, the spelling of compositions, figures without pyplot.

The colours of compositions can be told apart with every common form of colour blindness (simulated
distance of at least 16 in CIELAB between any two); those of lines have a contrast of at least 3
against white. Neither carries a meaning alone: tiles have letters as well, lines have markers.
"""

import textwrap
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import FontProperties
from matplotlib.legend import Legend
from matplotlib.textpath import text_to_path

from kem_pymc.errors import InputError
from kem_pymc.evolution.evolutions import Evolutions
from kem_pymc.kernels.composition import Candidate, Composition
from kem_pymc.kernels.prose import readable

NBSP = "\N{NO-BREAK SPACE}"

type Panel = Figure | SubFigure
type Look = dict[str, Any]

#: Text and data; secondary text; frames and what isn't there.
INK, MUTED, FAINT = "#1a1a1a", "#595959", "#d9d9d9"

#: WHITE, and compositions beyond the palette.
NOTHING, OTHER = "#d4d4d4", "#ffffff"

PALETTE = (
    *("#0072b2", "#e69f00", "#009e73", "#56b4e9", "#d55e00"),
    *("#cc79a7", "#f0e442", "#332288", "#882255"),
)

#: Compositions of the paper's synthetic study, which keep their colours from picture to picture.
RESERVED = dict(
    zip(
        (
            *("LIN0", "LIN0 + PER0", "SE0", "PER0", "LIN0 x PER0"),
            *("LIN0 + SE0", "PER0 + SE0", "LIN0 + PER0 + SE0", "LIN0 x SE0"),
        ),
        PALETTE,
        strict=True,
    )
)

#: Colour and marker of lines; the methods of the paper keep theirs.
LINES = (
    *(("#d55e00", "o"), ("#0072b2", "s"), ("#332288", "D"), ("#cc79a7", "^"), ("#661100", "v")),
    *(("#994455", "P"), ("#000000", "X")),
)
METHODS = dict(zip(("KEM", "Final", "ARD", "Memoryless", "Stratified"), LINES, strict=False))

#: Probabilities: white is none, and text stays legible on every shade.
SHADES = LinearSegmentedColormap.from_list(
    "probability", ["#ffffff", "#d6e6f4", "#9ecae1", "#3f8fc5", "#08519c", "#08306b"]
).with_extremes(bad="#eeeeee")


class Named(Protocol):
    """Whatever knows the names of a study's columns: a Cohort or Evolutions."""

    @property
    def features(self) -> tuple[str, ...]: ...

    @property
    def target(self) -> str: ...


def composition_colours(
    compositions: Evolutions | Iterable[Composition | str],
) -> dict[str, str]:
    """Return a colour for each of the most important compositions.

    Hand the result to the ``colours`` of several pictures, and a composition looks the same in
    all of them. ``WHITE`` and the compositions of the paper's synthetic study always look the
    same.

    Parameters
    ----------
    compositions : Evolutions, or iterable of Composition or str
        The most important first; those of evolutions are ordered by their pilot datasets.

    Returns
    -------
    dict of str to str
        Colours by label: at most 9, and that of ``WHITE``.
    """
    if isinstance(compositions, Evolutions):
        datasets = datasets_of(compositions)
        names = sorted(datasets, key=lambda label: -datasets[label])
    else:
        names = [str(composition) for composition in compositions]
    labels = [name for name in dict.fromkeys(names) if name != "WHITE"][: len(PALETTE)]
    colours = {label: RESERVED[label] for label in labels if label in RESERVED}
    free = (colour for colour in PALETTE if colour not in colours.values())
    colours |= {label: next(free) for label in labels if label not in colours}
    return {"WHITE": NOTHING} | colours


def datasets_of(evolutions: Evolutions) -> dict[str, float]:
    """Return how many pilot datasets each composition has, by label: the posterior mean."""
    datasets: dict[Composition, float] = {}
    for cluster in evolutions.clusters:
        share = cluster.count / evolutions.n_draws
        datasets[cluster.child] = datasets.get(cluster.child, 0.0) + share
    return {evolutions.label(c): count for c, count in datasets.items()}


def line_styles(names: Sequence[str]) -> dict[str, Look]:
    """Return colour and marker of each line, those of the paper's methods as ever."""
    taken = {METHODS[name] for name in names if name in METHODS}
    free = chain((style for style in LINES if style not in taken), repeat((MUTED, "o")))
    styles = {name: METHODS[name] if name in METHODS else next(free) for name in names}
    return {name: {"color": c, "marker": m} for name, (c, m) in styles.items()}


def spelled(label: str) -> str:
    """Return a composition's label as print has it: a multiplication sign, and WHITE in words."""
    return readable(label).replace(" x ", f"{NBSP}\N{MULTIPLICATION SIGN}{NBSP}")


def counted(steps: Iterable[Any]) -> list[str]:
    """Return time steps as people read them, counted from 1; in arrays and tables from 0."""
    return [str(int(step) + 1) for step in steps]


def with_features(composition: Iterable[Candidate], features: Sequence[str]) -> str:
    """Return a composition with features by name instead of by index: ``SE(age)``."""

    def one(candidate: Candidate) -> str:
        if candidate.label(len(features)) == "ARD":
            return "ARD"
        factors = (f"{f.base}({features[f.dimension]})" for f in candidate.factors)
        return " x ".join(factors) or str(candidate)

    return " + ".join(map(one, composition)) or "WHITE"


def wrapped(text: str, characters: int) -> str:
    """Return text in lines of at most so many characters."""
    return textwrap.fill(text, characters, break_long_words=False, break_on_hyphens=False)


def balanced(label: str, characters: int) -> str:
    """Return a spelled composition in lines of about equal length, broken before a plus."""
    text = label.replace(" + ", f" +{NBSP}")
    lines = wrapped(text, characters).count("\n")
    fitting = (w for w in range(1, characters + 1) if wrapped(text, w).count("\n") == lines)
    return wrapped(text, next(fitting))


def text_size(text: str, size: float, **font: Any) -> tuple[float, float]:
    """Return width and height of a text in points, whatever it will be drawn on."""
    lines = text.split("\n")
    properties = FontProperties(size=size, **font)
    measure = text_to_path.get_text_width_height_descent
    width = max(measure(line, properties, ismath=False)[0] for line in lines)
    return float(width), 1.25 * size * len(lines)


def shortened(text: str, size: float, width: float) -> str:
    """Return a text, its end cut off if it is wider than so many points."""
    if text_size(text, size)[0] <= width:
        return text
    while text and text_size(f"{text}\N{HORIZONTAL ELLIPSIS}", size)[0] > width:
        text = text[:-1]
    return f"{text.rstrip(' +')}\N{HORIZONTAL ELLIPSIS}"


def ink_on(colour: Any) -> str:
    """Return black or white, whichever has more contrast on a background."""
    rgb = np.asarray(to_rgb(colour), dtype=np.float64)
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return INK if linear @ (0.2126, 0.7152, 0.0722) > 0.2 else "white"


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """Return `ax`, or the axes of a new figure of this size in inches."""
    if ax is not None:
        return ax
    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def figure_or_new(figure: Panel | None, width: float, height: float) -> Panel:
    """Return `figure`, or a new one of this size in inches."""
    return figure or Figure(figsize=(width, height), layout="constrained")


def tidy(ax: Axes) -> Axes:
    """Take away what isn't data: two spines, and the weight of the other two."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(MUTED)
    ax.tick_params(color=MUTED, labelcolor=INK)
    return ax


def note(ax: Axes, text: str) -> None:
    """Write a remark below the axes' own label, wrapped to their width."""
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


def legend_inside(ax: Axes, **options: Any) -> None:
    """Put a legend into the axes: it may not count on room beside axes that a user made."""
    ax.legend(framealpha=0.8, edgecolor="none", fontsize="small", **options)


def legend_beside(ax: Axes, **options: Any) -> None:
    """Put a legend to the right of the axes, where it covers nothing."""
    options |= {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
    ax.legend(frameon=False, fontsize="small", **options)


def legend_below(figure: Panel, ax: Axes) -> Legend:
    """Put one legend of what `ax` shows below all axes of a figure."""
    handles, labels = ax.get_legend_handles_labels()
    options: Look = {"loc": "outside lower center", "ncols": len(labels)}
    return figure.legend(handles, labels, frameon=False, fontsize="small", **options)


def feature_names(study: Named | None, dimension: int) -> tuple[str, ...]:
    """Return the features' names; x, or x0, x1, ..., where no study tells.

    Raises
    ------
    InputError
        If the study has another number of features.
    """
    if study is None:
        return ("x",) if dimension == 1 else tuple(f"x{d}" for d in range(dimension))
    if len(study.features) != dimension:
        raise InputError(
            f"The study names {len(study.features)} features, the kernels look at {dimension}. "
            "Give the cohort or the evolutions that the selection comes from."
        )
    return tuple(study.features)


def target_name(study: Named | None) -> str:
    """Return the target's name; y where no study tells."""
    return "y" if study is None else study.target
