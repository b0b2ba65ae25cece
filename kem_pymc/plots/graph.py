"""Plot of the graph of learned evolutions (paper, fig. 2)."""

import heapq
from collections.abc import Mapping
from itertools import pairwise

import igraph
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import BoxStyle, FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path
from matplotlib.transforms import Bbox

from kem_pymc.errors import InputError
from kem_pymc.evolutions.children import Child
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.composition import Composition
from kem_pymc.plots import style

#: Sizes in points: text, small text, padding of boxes, gaps (columns, boxes), outer margin.
TEXT, SMALL, PADDING, GAP, MARGIN = 9.0, 7.5, 5.0, (52.0, 13.0), 6.0

#: Width and height of an edge's number, in points.
LABEL = (24.0, 9.5)

#: Distance of ports; extra space right of a column for each edge beyond the fourth, and for each
#: row that an edge within the column passes.
PORT, CROWDED, PASSED = 9.0, 4.0, 10.0

#: Largest number of characters in a line of a box, in a figure of its own and in given axes.
WIDE, NARROW = 26, 17

#: Smallest factor by which text is shrunk to fit given axes; below it compositions are left out.
LEAST_SCALE = 0.7

#: Probability below which an evolution is negligible.
NEGLIGIBLE = 1e-3

#: Least probability of a final composition that has a second frame; distance of the frames.
LEAST_END, OUTSIDE = 0.05, 2.5

#: Positions along an edge where its number may be put, in order of preference.
PLACES = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8)

type Edge = tuple[Composition, Composition]
type Point = tuple[float, float]


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
        The box of a composition is a patch whose ``gid`` is the composition's label.

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
    columns = _travelled(evolutions, minimum_probability, max_nodes)
    while len(columns) < 2 and minimum_probability > NEGLIGIBLE:
        minimum_probability /= 2
        columns = _travelled(evolutions, minimum_probability, max_nodes)
    characters = WIDE if ax is None else NARROW
    drawing = _Drawing(evolutions, minimum_probability, features, columns, characters)
    while ax is not None and drawing.scale_in(ax) < LEAST_SCALE and len(columns) > 2:
        columns.popitem()
        drawing = _Drawing(evolutions, minimum_probability, features, columns, characters)
    colours = style.composition_colours(evolutions) if colours is None else colours
    return drawing.draw(ax, colours)


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


class _Drawing:
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
        characters: int,
    ) -> None:
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
                note += f"{'\n' if characters == NARROW else ' · '}stays {stays:.2f}"
            self.texts[node] = style.balanced(style.spelled(title), characters), note
        sizes = {node: _box_size(*text) for node, text in self.texts.items()}
        self.boxes, self.curves = _layout(columns, sizes, list(self.edges))
        self.labels = _label_places(self.curves, self.edges, list(self.boxes.values()))
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
        corners = [box.get_points() for box in self.boxes.values()]
        corners += [
            np.array([(x - LABEL[0], y), (x + LABEL[0], y)]) for x, y in self.labels.values()
        ]
        points = np.concatenate([*corners, *self.curves.values()])
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
            patch = _framed(box, style.SHADES(0.36 * self.datasets[node] / most), frame)
            patch.set_gid(self.names[node])
            ax.add_patch(patch)
            if node in self.ends:
                ax.add_patch(_framed(box, "none", style.INK, OUTSIDE))
            title, note = self.texts[node]
            centred: style.Style = {"ha": "center", "va": "center", "zorder": 5}
            middle = (box.x0 + box.x1) / 2
            y = box.y1 - PADDING - style.text_size(title, TEXT)[1] / 2
            ax.text(middle, y, title, size=TEXT * scale, color=style.INK, **centred)
            y = box.y0 + PADDING + style.text_size(note, SMALL)[1] / 2
            ax.text(middle, y, note, size=SMALL * scale, color=style.MUTED, **centred)
        ax.text(*self.caption_at, self.caption, va="top", fontsize=SMALL * scale, color=style.MUTED)
        return ax


def _layout(
    columns: Mapping[Composition, int],
    sizes: Mapping[Composition, tuple[float, float]],
    edges: list[Edge],
) -> tuple[dict[Composition, Bbox], dict[Edge, np.ndarray]]:
    """Return the boxes, and the Bézier curves (n, 2) of the edges from border to border.

    Sugiyama's method places boxes, and where edges pass the columns that they skip, in rows. All
    boxes of a column have the same width. Edges within a column bow out to its right.
    """
    nodes = {node: i for i, node in enumerate(columns)}
    graph = igraph.Graph(len(nodes), [(nodes[a], nodes[b]) for a, b in edges], directed=True)
    placed = graph.layout_sugiyama(layers=list(columns.values()), maxiter=1000)
    room = max(height for _, height in sizes.values()) + GAP[1]
    y = {node: -room * placed[i][0] for node, i in nodes.items()}
    widths, gaps = [], []
    for c in range(max(columns.values()) + 1):
        widths.append(max(sizes[node][0] for node in nodes if columns[node] == c))
        crossed = sum(
            min(columns[a], columns[b]) <= c < max(columns[a], columns[b]) for a, b in edges
        )
        passed = [abs(y[a] - y[b]) / room for a, b in edges if columns[a] == columns[b] == c]
        gaps.append(GAP[0] + CROWDED * max(crossed - 4, 0) + PASSED * max(passed, default=0.0))
    right = np.cumsum(widths) + np.cumsum([0.0, *gaps[:-1]])
    boxes = {
        node: Bbox.from_bounds(
            right[c] - widths[c], y[node] - sizes[node][1] / 2, widths[c], sizes[node][1]
        )
        for node, c in columns.items()
    }
    routes: dict[Edge, list[Point]] = {}
    for (a, b), bends in zip(edges, placed.edge_routing, strict=True):
        routes[a, b] = [
            (x, -room * bend)
            for bend, c in bends
            for x in sorted(
                (right[int(c)] - widths[int(c)], right[int(c)]), reverse=columns[a] > columns[b]
            )
        ]
        if columns[a] == columns[b]:
            middle = (y[a] + y[b]) / 2
            out = right[columns[a]] + 1.5 * PASSED + PASSED * abs(y[a] - y[b]) / room
            routes[a, b] = [(out, middle)]
    _add_ports(columns, boxes, routes)
    return boxes, {
        (a, b): _bow(*route) if columns[a] == columns[b] else _curve(route)
        for (a, b), route in routes.items()
    }


def _add_ports(
    columns: Mapping[Composition, int],
    boxes: Mapping[Composition, Bbox],
    routes: dict[Edge, list[Point]],
) -> None:
    """Add both ends to each route, in such an order on the border of a box that few cross."""
    ends: dict[tuple[Composition, bool], list[tuple[float, Edge, bool]]] = {}
    for (a, b), route in routes.items():
        for node, other, leaves in ((a, b, True), (b, a, False)):
            on_right = columns[node] <= columns[other]
            towards = route[0 if leaves else -1][1] if route else _middle(boxes[other])
            ends.setdefault((node, on_right), []).append((towards, (a, b), leaves))
    for (node, on_right), here in ends.items():
        box = boxes[node]
        spacing = min(PORT, 0.8 * box.height / len(here))
        for i, (_, edge, leaves) in enumerate(sorted(here, key=lambda end: end[0])):
            y = _middle(box) + spacing * (i - (len(here) - 1) / 2)
            place = 0 if leaves else len(routes[edge])
            routes[edge].insert(place, (box.x1 if on_right else box.x0, y))


def _middle(box: Bbox) -> float:
    return float(box.y0 + box.y1) / 2


def _curve(route: list[Point]) -> np.ndarray:
    """Return the vertices of Bézier curves through a route, horizontal at each of its points."""
    vertices = [route[0]]
    for (x0, y0), (x1, y1) in pairwise(route):
        middle = (x0 + x1) / 2
        vertices += [(middle, y0), (middle, y1), (x1, y1)]
    return np.array(vertices)


def _bow(start: Point, apex: Point, end: Point) -> np.ndarray:
    """Return the vertices of two Bézier curves, from start to apex and from apex to end."""
    ends = np.array([start, end])
    leaving = np.column_stack([ends[:, 0] + 0.6 * (apex[0] - ends[:, 0]), ends[:, 1]])
    turning = np.column_stack([[apex[0]] * 2, apex[1] + 0.3 * (ends[:, 1] - apex[1])])
    return np.array([ends[0], leaving[0], turning[0], apex, turning[1], leaving[1], ends[1]])


def _label_places(
    curves: Mapping[Edge, np.ndarray], weights: Mapping[Edge, float], boxes: list[Bbox]
) -> dict[Edge, Point]:
    """Return the centre of each edge's number: on the edge, if possible without overlaps.

    Numbers are placed in descending order of the weights of their edges.
    """
    taken, places = list(boxes), {}
    for edge in sorted(weights, key=lambda e: -weights[e]):
        spots = [_point_on(curves[edge], share) for share in PLACES]
        labels = [Bbox.from_bounds(x - LABEL[0] / 2, y - LABEL[1] / 2, *LABEL) for x, y in spots]
        overlaps = [sum(_overlap(label, other) for other in taken) for label in labels]
        best = int(np.argmin(overlaps))
        taken.append(labels[best])
        places[edge] = spots[best]
    return places


def _point_on(curve: np.ndarray, share: float) -> Point:
    """Return the point at a fraction of the way along Bézier curves."""
    pieces = (len(curve) - 1) // 3
    piece = min(int(share * pieces), pieces - 1)
    t = share * pieces - piece
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
    x, y = np.array(weights) @ curve[3 * piece : 3 * piece + 4]
    return float(x), float(y)


def _overlap(a: Bbox, b: Bbox) -> float:
    """Return the area that two boxes have in common."""
    common = Bbox.intersection(a, b)
    return 0.0 if common is None else common.width * common.height


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
    box: Bbox, face: tuple[float, ...] | str, frame: str, outside: float = 0.0
) -> FancyBboxPatch:
    return FancyBboxPatch(
        (box.x0, box.y0),
        box.width,
        box.height,
        boxstyle=BoxStyle.Round(pad=outside, rounding_size=4 + outside),
        facecolor=face,
        edgecolor=frame,
        linewidth=0.9 if outside else 1.6,
        zorder=4,
    )
