"""Plot of the graph of learned evolutions (paper, fig. 2)."""

import heapq
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import igraph
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import BoxStyle, FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path
from matplotlib.transforms import Bbox

from kem_pymc._system.options import checked
from kem_pymc.errors import InputError
from kem_pymc.evolutions.children import Child
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import named
from kem_pymc.plots import style

#: Sizes in points: text, small text, padding of boxes, gaps (columns, boxes), outer margin.
TEXT, SMALL, PADDING, GAP, MARGIN = 9.0, 7.5, 5.0, (52.0, 13.0), 6.0

#: Width and height of an edge's number, in points.
LABEL = (24.0, 9.5)

#: Extra space right of a column for each edge beyond the fourth that crosses it, and for each row
#: that an edge within the column passes.
CROWDED, PASSED = 4.0, 10.0

#: Maximum number of characters in a line of a box, in a figure of its own and in given axes.
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


class _Drawing(NamedTuple):
    """A graph with its places in points, y upwards.

    Attributes
    ----------
    boxes : dict by composition
    texts : dict by composition
        Title and note in the box.
    edges : dict by (parent, child)
        Probability of an evolution, and its path from border to border.
    numbers : dict by (parent, child)
        Boxes of the numbers at the edges.
    extent : Bbox
        Of graph and caption.
    caption : str
        Text below the graph: the meaning of second frames, and what the graph leaves out.
    """

    boxes: dict[Composition, Bbox]
    texts: dict[Composition, tuple[str, str]]
    edges: dict[Edge, tuple[float, Path]]
    numbers: dict[Edge, Bbox]
    extent: Bbox
    caption: str

    def scale_in(self, ax: Axes) -> float:
        """Return the factor by which the drawing is shrunk to fit the axes; at most 1."""
        room, pixels = ax.get_window_extent(), ax.figure.dpi / 72
        across, down = room.width / self.extent.width, room.height / self.extent.height
        return float(min(across / pixels, down / pixels, 1.0))


@checked
def evolution_graph(
    evolutions: Evolutions,
    *,
    minimum_probability: float = 0.05,
    max_nodes: int = 20,
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
    datasets = style.datasets_of(evolutions)
    drawing = _arranged(evolutions, datasets, minimum_probability, columns, ax is not None)
    while ax is not None and drawing.scale_in(ax) < LEAST_SCALE and len(columns) > 2:
        columns.popitem()
        drawing = _arranged(evolutions, datasets, minimum_probability, columns, True)
    if ax is None:
        size = drawing.extent.width / 72, drawing.extent.height / 72
        ax = style.new_figure(*size).add_axes((0, 0, 1, 1))
    scale, extent = drawing.scale_in(ax), drawing.extent
    ax.set(xlim=extent.intervalx, ylim=extent.intervaly, aspect="equal")
    ax.set_axis_off()
    small: style.Style = {"fontsize": SMALL * scale, "color": style.MUTED}
    centred: style.Style = {"ha": "center", "va": "center"}
    for edge, (probability, path) in drawing.edges.items():
        ax.add_patch(_arrow(path, probability, scale))
        x, y = drawing.numbers[edge].get_points().mean(axis=0)
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.6 * scale}
        ax.text(x, y, f"{probability:.2f}", bbox=ground, zorder=3, **centred, **small)
    colours = style.composition_colours(evolutions) if colours is None else colours
    ends, most = _ends(evolutions), max(datasets.values())
    for node, box in drawing.boxes.items():
        name = evolutions.label(node)
        # Only the lightest third of the shades is used, where black text has full contrast.
        shade = style.SHADES(0.36 * datasets.get(name, 0.0) / most)
        patch = _framed(box, shade, colours.get(name, style.FAINT))
        patch.set_gid(name)
        ax.add_patch(patch)
        if node in ends:
            ax.add_patch(_framed(box, "none", style.INK, OUTSIDE))
        title, note = drawing.texts[node]
        middle, centred["zorder"] = (box.x0 + box.x1) / 2, 5
        y = box.y1 - PADDING - style.text_size(title, TEXT)[1] / 2
        ax.text(middle, y, title, size=TEXT * scale, color=style.INK, **centred)
        y = box.y0 + PADDING + style.text_size(note, SMALL)[1] / 2
        ax.text(middle, y, note, **centred, **small)
    ax.text(extent.x0 + MARGIN, extent.y0 + MARGIN, drawing.caption, va="bottom", **small)
    return ax


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
        for child in evolutions.children(composition):
            if _is_drawn(child, minimum):
                heapq.heappush(frontier, (-child.count, child.composition, column + 1))
    return columns


def _is_drawn(child: Child, minimum: float) -> bool:
    """Return whether an evolution is probable enough and occurs in enough posterior draws."""
    return child.probability >= minimum and child.occurrence >= minimum


def _arranged(
    evolutions: Evolutions,
    datasets: Mapping[str, float],
    minimum: float,
    columns: Mapping[Composition, int],
    narrow: bool,
) -> _Drawing:
    """Return the drawing of the compositions in `columns`."""
    probabilities: dict[Edge, float] = {}
    texts = {}
    for node in columns:
        stays = 0.0
        for child in evolutions.children(node):
            if child.composition == node:
                stays = child.probability
            elif child.composition in columns and _is_drawn(child, minimum):
                probabilities[node, child.composition] = child.probability
        title = style.balanced(named(node, evolutions.features), NARROW if narrow else WIDE)
        note = f"{datasets.get(evolutions.label(node), 0.0):.1f} datasets"
        if stays >= 0.005:
            note += f"{'\n' if narrow else ' · '}stays {stays:.2f}"
        texts[node] = title, note
    boxes, paths = _layout(columns, texts, list(probabilities))
    numbers: dict[Edge, Bbox] = {}
    for edge in sorted(probabilities, key=lambda edge: -probabilities[edge]):
        taken = [*boxes.values(), *numbers.values()]
        along = np.asarray(paths[edge].to_polygons(closed_only=False)[0])
        length = np.insert(np.cumsum(np.hypot(*np.diff(along, axis=0).T)), 0, 0.0)
        spots = []
        for share in PLACES:
            x, y = (np.interp(share * length[-1], length, places) for places in along.T)
            spots.append(Bbox.from_bounds(x - LABEL[0] / 2, y - LABEL[1] / 2, *LABEL))
        numbers[edge] = min(spots, key=lambda spot: spot.count_overlaps(taken))
    curves = [Bbox(path.get_extents().get_points()) for path in paths.values()]
    graph = Bbox.union([*boxes.values(), *numbers.values(), *curves])
    caption = _caption(evolutions, datasets, minimum, columns)
    caption = style.wrapped(caption, max(int(graph.width / (0.52 * SMALL)), 48))
    width, height = style.text_size(caption, SMALL)
    below = Bbox.from_bounds(graph.x0, graph.y0 - PADDING - height, width, height)
    edges = {edge: (probabilities[edge], path) for edge, path in paths.items()}
    extent = Bbox.union([graph, below]).padded(MARGIN)
    return _Drawing(boxes, texts, edges, numbers, extent, caption)


def _layout(
    columns: Mapping[Composition, int],
    texts: Mapping[Composition, tuple[str, str]],
    edges: list[Edge],
) -> tuple[dict[Composition, Bbox], dict[Edge, Path]]:
    """Return the boxes, and the paths of the edges from border to border, Bézier curves.

    Sugiyama's method places boxes, and where edges pass the columns that they skip, in rows. All
    boxes of a column have the same width. Edges within a column bow out to its right.
    """
    sizes = {}
    for node, (title, note) in texts.items():
        both = np.array([style.text_size(title, TEXT), style.text_size(note, SMALL)])
        sizes[node] = both[:, 0].max() + 2 * PADDING, both[:, 1].sum() + 2 * PADDING
    nodes = {node: i for i, node in enumerate(columns)}
    graph = igraph.Graph(len(nodes), [(nodes[a], nodes[b]) for a, b in edges], directed=True)
    placed = graph.layout_sugiyama(layers=list(columns.values()), maxiter=1000)
    room = max(height for _, height in sizes.values()) + GAP[1]
    y = {node: -room * placed[i][0] for node, i in nodes.items()}
    widths, gaps = [], []
    for c in range(max(columns.values()) + 1):
        widths.append(max(sizes[node][0] for node in nodes if columns[node] == c))
        ends = [sorted((columns[a], columns[b])) for a, b in edges]
        crossed = sum(low <= c < high for low, high in ends)
        passed = [abs(y[a] - y[b]) / room for a, b in edges if columns[a] == columns[b] == c]
        gaps.append(GAP[0] + CROWDED * max(crossed - 4, 0) + PASSED * max(passed, default=0.0))
    right = np.cumsum(widths) + np.cumsum([0.0, *gaps[:-1]])
    left = right - widths
    boxes = {}
    for node, c in columns.items():
        height = sizes[node][1]
        boxes[node] = Bbox.from_bounds(left[c], y[node] - height / 2, widths[c], height)

    def port(node: Composition, on_right: bool, towards: float, back: bool) -> tuple[float, float]:
        """Return the end of an edge at a box: higher up for edges that come from higher up.

        Edges back end further down, so that they are apart from those there.
        """
        box, share = boxes[node], np.clip((towards - y[node]) / (3 * room), -1, 1)
        return (box.x1 if on_right else box.x0), y[node] + 0.3 * box.height * (share - 0.6 * back)

    paths = {}
    for (a, b), bends in zip(edges, placed.edge_routing, strict=True):
        within = columns[a] == columns[b]
        back = y[a] < y[b] if within else columns[a] > columns[b]
        route = [
            (x, -room * bend)
            for bend, c in bends
            for x in sorted((left[int(c)], right[int(c)]), reverse=back)
        ]
        start = port(a, within or not back, route[0][1] if route else y[b], back)
        end = port(b, within or back, route[-1][1] if route else y[a], back)
        vertices = [start]
        if within:
            out = start[0] + (2 + back + abs(y[a] - y[b]) / room) * PASSED
            vertices += [(out, start[1]), (out, end[1]), end]
        else:  # horizontal at each point of the route
            for (x0, y0), (x1, y1) in pairwise([start, *route, end]):
                vertices += [((x0 + x1) / 2, y0), ((x0 + x1) / 2, y1), (x1, y1)]
        paths[a, b] = Path(vertices, [Path.MOVETO] + [Path.CURVE4] * (len(vertices) - 1))
    return boxes, paths


def _ends(evolutions: Evolutions) -> set[Composition]:
    """Return the compositions with which pilot users end up; empty if they aren't known."""
    final = [] if evolutions.final is None else evolutions.final.children(Composition())
    return {child.composition for child in final if child.probability >= LEAST_END}


def _caption(
    evolutions: Evolutions,
    datasets: Mapping[str, float],
    minimum: float,
    columns: Mapping[Composition, int],
) -> str:
    """Return the caption: the meaning of second frames, number of draws, and what is left out."""
    text, n = "", evolutions.n_draws
    if _ends(evolutions) & set(columns):
        text = (
            "Second frame: final kernel of pilot users with a probability of at least "
            f"{LEAST_END:g}. "
        )
    text += (
        f"Posterior of {n} draw{'s' * (n > 1)}. Not shown: evolutions with a probability below "
        f"{minimum:g}, or that occur in a smaller share of draws"
    )
    shown = {evolutions.label(node) for node in columns}
    hidden = [count for name, count in datasets.items() if name not in shown]
    if hidden:
        share = sum(hidden) / sum(datasets.values())
        many = "s" * (len(hidden) > 1)
        text += f"; {len(hidden)} kernel{many}, with {100 * share:.0f} % of the datasets"
    return f"{text}."


def _arrow(path: Path, probability: float, scale: float) -> FancyArrowPatch:
    return FancyArrowPatch(
        path=path,
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
