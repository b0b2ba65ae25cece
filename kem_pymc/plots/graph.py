"""Plot of the graph of learned evolutions (paper, fig. 2)."""

import heapq
from collections.abc import Mapping
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import BoxStyle, FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from kem_pymc.errors import InputError
from kem_pymc.evolutions.children import Child
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.composition import Composition
from kem_pymc.plots import style
from kem_pymc.plots.layout import Box, layered
from kem_pymc.plots.paths import bow, curve, label_places

#: Sizes in points: text, small text, padding of boxes, gaps (columns, boxes), outer margin.
TEXT, SMALL, PADDING, GAP, MARGIN = 9.0, 7.5, 5.0, (52.0, 13.0), 6.0

#: Width and height of an edge's number, in points.
LABEL = (24.0, 9.5)

#: Smallest factor by which text is shrunk to fit given axes; below it compositions are left out.
LEAST_SCALE = 0.7

#: Probability below which an evolution is negligible.
NEGLIGIBLE = 1e-3

#: Least probability of a final composition that has a second frame; distance of the frames.
LEAST_END, OUTSIDE = 0.05, 2.5

type Edge = tuple[Composition, Composition]


def evolution_graph(
    evolutions: Evolutions,
    *,
    minimum_probability: float = 0.05,
    max_nodes: int = 20,
    features: bool = False,
    colours: Mapping[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the graph of compositions and their evolutions, from WHITE on the left (paper, fig. 2).

    An arrow leads from parent to child; its width and number are the predictive probability of the
    evolution. A box gives the number of pilot datasets that have the composition (posterior mean),
    which is also its shade, and the probability that the composition stays the same. A box is one
    column to the right of the parent from which most datasets reach its composition. Compositions
    with which pilot users end up have a second frame, if they were learned as well (``final=``).

    Parameters
    ----------
    evolutions : Evolutions
    minimum_probability : float
        Less probable evolutions aren't drawn, nor those that occur in a smaller share of the
        posterior draws. The threshold is halved while no evolution from WHITE reaches it.
    max_nodes : int
        Maximum number of compositions; those on the most frequent paths from WHITE are drawn, and
        fewer if `ax` is too small for them. A caption below the graph says what was left out.
    features : bool
        Whether to write features by name, ``SE(age)``, instead of by index.
    colours : mapping of str to str, optional
        Colours of the boxes' frames, by composition; see :func:`composition_colours`.
    ax : Axes, optional
        Axes to draw on; the graph is fitted to their present size. By default the axes of a new
        figure, as large as the graph needs.

    Returns
    -------
    Axes

    Raises
    ------
    InputError
        If `minimum_probability` isn't between 0 and 1, or `max_nodes` is below 2.
    """
    if not 0 <= minimum_probability <= 1 or max_nodes < 2:
        raise InputError(
            f"There is no graph with minimum_probability={minimum_probability} and "
            f"max_nodes={max_nodes}. Give a probability from 0 to 1, and at least 2 nodes."
        )
    columns, minimum = _shown(evolutions, minimum_probability, max_nodes)
    attempt = partial(Drawing, evolutions, minimum, features)
    drawing = attempt(columns, narrow=False)
    while ax is not None and drawing.scale_in(ax) < LEAST_SCALE and len(columns) > 2:
        if drawing.narrow:
            columns.popitem()
        drawing = attempt(columns, narrow=True)
    colours = style.composition_colours(evolutions) if colours is None else colours
    return drawing.draw(ax, colours)


def graph_drawing(
    evolutions: Evolutions,
    minimum_probability: float = 0.05,
    max_nodes: int = 20,
    features: bool = False,
) -> "Drawing":
    """Return the layout of the graph that :func:`evolution_graph` draws, as a Drawing."""
    columns, minimum = _shown(evolutions, minimum_probability, max_nodes)
    return Drawing(evolutions, minimum, features, columns, narrow=False)


def narrow_drawing(
    evolutions: Evolutions,
    width: float,
    minimum_probability: float = 0.05,
    max_nodes: int = 20,
    features: bool = False,
) -> "Drawing":
    """Return the layout of the graph for a narrow screen, at most `width` points wide.

    Compositions in the last columns are left out, the least frequent first, until the graph fits.
    WHITE and all compositions of the next column are kept even if they don't fit.
    """
    columns, minimum = _shown(evolutions, minimum_probability, max_nodes)
    drawing = Drawing(evolutions, minimum, features, columns, narrow=True)
    while np.ptp(drawing.x) > width and max(columns.values()) > 1:
        last = max(columns.values())
        del columns[[node for node, column in columns.items() if column == last][-1]]
        drawing = Drawing(evolutions, minimum, features, columns, narrow=True)
    return drawing


def _shown(
    evolutions: Evolutions, minimum: float, max_nodes: int
) -> tuple[dict[Composition, int], float]:
    """Return the columns of compositions, and the probability below which none is drawn."""
    columns = _travelled(evolutions, minimum, max_nodes)
    while len(columns) < 2 and minimum > NEGLIGIBLE:
        minimum /= 2
        columns = _travelled(evolutions, minimum, max_nodes)
    return columns, minimum


def _travelled(evolutions: Evolutions, minimum: float, max_nodes: int) -> dict[Composition, int]:
    """Return compositions and their columns, found from WHITE along the most frequent evolutions.

    Removing the last entries gives the result for a smaller number of nodes.
    """
    columns: dict[Composition, int] = {}
    frontier = [(0.0, Composition(), 0)]
    while frontier and len(columns) < max_nodes:
        _, composition, column = heapq.heappop(frontier)
        if composition in columns:
            continue
        columns[composition] = column
        occupied = len(evolutions.draws_with(composition)) / evolutions.n_draws
        for child in evolutions.children(composition):
            if _is_drawn(child, minimum):
                travellers = child.count * occupied
                heapq.heappush(frontier, (-travellers, child.composition, column + 1))
    return columns


def _is_drawn(child: Child, minimum: float) -> bool:
    """Return whether an evolution is probable enough and occurs in enough posterior draws."""
    return child.probability >= minimum and child.occurrence >= minimum


class Drawing:
    """Layout of a graph: boxes, edges and caption, with lengths in points and y upwards.

    Attributes
    ----------
    names, datasets, texts, boxes : dict by composition
        Label of a composition, number of pilot datasets that have it, title and note in its box,
        and the box.
    edges, curves, labels : dict by (parent, child)
        Probability of an evolution, vertices of the Bézier curves from border to border, and
        position of the number.
    ends : set of Composition
        Compositions with which pilot users end up.
    caption : str
        Text below the graph: the meaning of second frames, and what the graph leaves out.
    x, y : (float, float)
        Horizontal and vertical range of graph and caption.
    """

    def __init__(
        self,
        evolutions: Evolutions,
        minimum: float,
        features: bool,
        columns: Mapping[Composition, int],
        narrow: bool,
    ) -> None:
        self.narrow = narrow
        datasets = style.datasets_of(evolutions)
        self.names = {node: evolutions.label(node) for node in columns}
        self.datasets = {node: datasets.get(name, 0.0) for node, name in self.names.items()}
        self.edges: dict[Edge, float] = {}
        self.texts: dict[Composition, tuple[str, str]] = {}
        for node, name in self.names.items():
            stays = 0.0
            for child in evolutions.children(node):
                if child.composition == node:
                    stays = child.probability
                elif child.composition in columns and _is_drawn(child, minimum):
                    self.edges[node, child.composition] = child.probability
            title = style.with_features(node, evolutions.features) if features else name
            note = f"{self.datasets[node]:.1f} datasets"
            if stays >= 0.005:
                note += f"{'\n' if narrow else ' · '}stays {stays:.2f}"
            self.texts[node] = style.balanced(style.spelled(title), 17 if narrow else 26), note
        self.boxes, routes = layered(
            columns, {n: _box_size(*t) for n, t in self.texts.items()}, list(self.edges), GAP
        )
        self.curves = {
            edge: bow(*route) if columns[edge[0]] == columns[edge[1]] else curve(route)
            for edge, route in routes.items()
        }
        self.labels = label_places(self.curves, self.edges, self.boxes.values(), LABEL)
        hidden = [count for name, count in datasets.items() if name not in self.names.values()]
        share = sum(hidden) / sum(datasets.values())
        self.ends = _ends(evolutions) & set(columns)
        caption = _caption(evolutions.n_draws, minimum, len(hidden), share)
        if self.ends:
            reason = (
                f"final composition of pilot users with a probability of at least {LEAST_END:g}"
            )
            caption = f"Second frame: {reason}. {caption}"
        self._frame(caption)

    def _frame(self, caption: str) -> None:
        """Place the caption below the graph, and set the ranges of both."""
        corners = [(x, y) for box in self.boxes.values() for x in box.x_range for y in box.y_range]
        corners += [(x + w, y) for x, y in self.labels.values() for w in (-LABEL[0], LABEL[0])]
        points = np.concatenate([corners, *self.curves.values()])
        (left, bottom), (right, top) = points.min(axis=0), points.max(axis=0)
        self.caption = style.wrapped(caption, max(int((right - left) / (0.52 * SMALL)), 48))
        width, height = style.text_size(self.caption, SMALL)
        self.caption_at = (left, bottom - PADDING)
        self.x = (left - MARGIN, max(right, left + width) + MARGIN)
        self.y = (bottom - PADDING - height - MARGIN, top + MARGIN)

    def scale_in(self, ax: Axes) -> float:
        """Return the factor by which the drawing is shrunk to fit the axes; at most 1."""
        room = ax.get_window_extent()
        pixels = ax.figure.dpi / 72
        return min(room.width / pixels / np.ptp(self.x), room.height / pixels / np.ptp(self.y), 1.0)

    def draw(self, ax: Axes | None, colours: Mapping[str, str]) -> Axes:
        """Draw boxes and arrows, by default in a new figure of the drawing's size."""
        if ax is None:
            figure = Figure(figsize=(np.ptp(self.x) / 72, np.ptp(self.y) / 72))
            ax = figure.add_axes((0, 0, 1, 1))
        scale = self.scale_in(ax)
        ax.set(xlim=self.x, ylim=self.y, aspect="equal")
        ax.set_axis_off()
        for edge, probability in self.edges.items():
            ax.add_patch(_arrow(self.curves[edge], probability, scale))
            ax.text(
                *self.labels[edge],
                f"{probability:.2f}",
                ha="center",
                va="center",
                fontsize=SMALL * scale,
                color=style.MUTED,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6 * scale},
                zorder=3,
            )
        most = max(self.datasets.values())
        for node, box in self.boxes.items():
            frame = colours.get(self.names[node], style.FAINT)
            # Only the lightest third of the shades is used, where black text has full contrast.
            ax.add_patch(_framed(box, style.SHADES(0.36 * self.datasets[node] / most), frame))
            if node in self.ends:
                ax.add_patch(_framed(box, "none", style.INK, OUTSIDE))
            self._write(ax, box, *self.texts[node], scale)
        ax.text(*self.caption_at, self.caption, va="top", fontsize=SMALL * scale, color=style.MUTED)
        return ax

    def _write(self, ax: Axes, box: Box, title: str, note: str, scale: float) -> None:
        middle = box.y_range[1] - PADDING - style.text_size(title, TEXT)[1] / 2
        lower = box.y_range[0] + PADDING + style.text_size(note, SMALL)[1] / 2
        for text, y, size, colour in (
            (title, middle, TEXT, style.INK),
            (note, lower, SMALL, style.MUTED),
        ):
            font: style.Look = {
                "size": size * scale,
                "color": colour,
                "ha": "center",
                "va": "center",
            }
            ax.text(box.x, y, text, zorder=5, **font)


def _ends(evolutions: Evolutions) -> set[Composition]:
    """Return the compositions with which pilot users end up; empty if they aren't known."""
    if evolutions.final is None:
        return set()
    children = evolutions.final.children(Composition())
    return {child.composition for child in children if child.probability >= LEAST_END}


def _caption(n_draws: int, minimum: float, hidden: int, share: float) -> str:
    """Return the caption: number of draws, and what the graph leaves out."""
    text = (
        f"Posterior of {n_draws} draw{'s' * (n_draws > 1)}. "
        f"Not shown: evolutions with a probability below {minimum:g}, or that occur in a smaller "
        "share of draws"
    )
    if hidden:
        text += f"; {hidden} composition{'s' * (hidden > 1)}, with {share:.0%} of the datasets"
    return f"{text}."


def _box_size(title: str, note: str) -> tuple[float, float]:
    title_size, note_size = style.text_size(title, TEXT), style.text_size(note, SMALL)
    widest = max(title_size[0], note_size[0])
    return widest + 2 * PADDING, title_size[1] + note_size[1] + 2 * PADDING


def _arrow(curve: np.ndarray, probability: float, scale: float) -> FancyArrowPatch:
    return FancyArrowPatch(
        path=Path(curve, [Path.MOVETO] + [Path.CURVE4] * (len(curve) - 1)),
        arrowstyle="-|>",
        mutation_scale=(6 + 4 * probability) * scale,
        linewidth=(0.6 + 4 * probability) * scale,
        color="#7a828a",
        capstyle="butt",
        joinstyle="miter",
        zorder=1,
    )


def _framed(
    box: Box, face: tuple[float, ...] | str, frame: str, outside: float = 0.0
) -> FancyBboxPatch:
    (left, _), (bottom, _) = box.x_range, box.y_range
    return FancyBboxPatch(
        (left, bottom),
        box.width,
        box.height,
        boxstyle=BoxStyle.Round(pad=outside, rounding_size=4 + outside),
        facecolor=face,
        edgecolor=frame,
        linewidth=0.9 if outside else 1.6,
        zorder=4,
    )
