"""Layered layout of directed graphs with boxes: columns from left to right, few crossings.

The layout is Sugiyama's method: edges that skip columns run in lanes of dummy nodes, boxes are
ordered by the barycentres of their neighbours, and moved towards them as far as adjacent boxes
allow.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations, count, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

type Node = Any
type Edge = tuple[Node, Node]
type Point = tuple[float, float]
type Lane = list[Node]
type Near = Mapping[Node, Sequence[Node]]

#: Height of the lane of an edge that passes a column; distance of ports; extra space between
#: columns for each edge beyond the fourth, and for each parallel track of edges within a column.
LANE, PORT, CROWDED, TRACK = 8.0, 9.0, 4.0, 10.0

#: Number of sweeps over the columns.
SWEEPS = 12


class Box(NamedTuple):
    """Centre and size of the box of a node."""

    x: float
    y: float
    width: float
    height: float

    @property
    def x_range(self) -> tuple[float, float]:
        return self.x - self.width / 2, self.x + self.width / 2

    @property
    def y_range(self) -> tuple[float, float]:
        return self.y - self.height / 2, self.y + self.height / 2


class Layout(NamedTuple):
    """Boxes of the nodes, and the points that each edge passes.

    Attributes
    ----------
    boxes : dict of node to Box
        Boxes of the nodes; all boxes of a column have the same width.
    routes : dict of (parent, child) to list of (x, y)
        Points from the border of the parent to that of the child, through the lanes between. An
        edge within a column starts and ends on the column's right side, and turns back at the
        point between.
    """

    boxes: dict[Node, Box]
    routes: dict[Edge, list[Point]]


def layered(
    columns: Mapping[Node, int],
    sizes: Mapping[Node, tuple[float, float]],
    edges: Sequence[Edge],
    gap: tuple[float, float],
) -> Layout:
    """Return the layout of a graph.

    Parameters
    ----------
    columns : mapping of node to int
        Column of each node, numbered from 0 without gaps.
    sizes : mapping of node to (width, height)
    edges : sequence of (parent, child)
        Edges of the graph, none from a node to itself.
    gap : (float, float)
        Minimum space between columns, and between the boxes of a column.

    Returns
    -------
    Layout
    """
    column: dict[Node, int] = dict(columns)
    lanes = {edge: _lane(columns, edge) for edge in edges}
    column |= {(e, c): c for e, lane in lanes.items() for _, c in lane[1:-1]}
    near: dict[Node, list[Node]] = {item: [] for item in column}
    for lane in lanes.values():
        for a, b in pairwise(lane):
            near[a].append(b)
            near[b].append(a)
    ranks = _ordered(column, near)
    y = _heights(ranks, near, {i: sizes[i][1] if i in sizes else LANE for i in column}, gap[1])
    widths = [max(sizes[i][0] for i in rank if i in sizes) for rank in ranks]
    tracks = _tracks(column, edges, y)
    gaps = _gaps(ranks, near, column, tracks, gap[0])
    right = (np.cumsum(widths) + np.cumsum([0.0, *gaps])).tolist()
    boxes = {
        node: Box(right[c] - widths[c] / 2, y[node], widths[c], sizes[node][1])
        for node, c in columns.items()
    }
    inner: dict[Edge, list[Point]] = {}
    for edge, lane in lanes.items():
        forward = columns[edge[0]] < columns[edge[1]]
        borders = [(right[c] - widths[c], right[c]) for c in range(len(ranks))]
        inner[edge] = [
            (x, y[dummy])
            for dummy in lane[1:-1]
            for x in (borders[column[dummy]] if forward else reversed(borders[column[dummy]]))
        ]
        if edge in tracks:
            apex = right[columns[edge[0]]] + TRACK * (tracks[edge] + 1.5)
            inner[edge] = [(apex, (y[edge[0]] + y[edge[1]]) / 2)]
    return Layout(boxes, _with_ports(columns, boxes, inner))


def _lane(columns: Mapping[Node, int], edge: Edge) -> Lane:
    """Return parent, dummies (edge, column) and child, in this order."""
    start, end = columns[edge[0]], columns[edge[1]]
    step = 1 if end > start else -1
    return [edge[0], *((edge, c) for c in range(start + step, end, step)), edge[1]]


def _ordered(column: Mapping[Node, int], near: Near) -> list[Lane]:
    """Return the items of each column, ordered so that few edges cross."""
    ranks: list[Lane] = [[] for _ in range(max(column.values()) + 1)]
    for item, c in column.items():
        ranks[c].append(item)
    best, fewest = ranks, _crossings(ranks, near)
    for sweep in range(SWEEPS):
        side = -1 if sweep % 2 == 0 else 1
        ranks = list(ranks)
        for c in range(len(ranks))[::-side]:
            place = {item: i for rank in ranks for i, item in enumerate(rank)}
            centre = {
                item: _mean([place[o] for o in near[item] if column[o] == c + side], place[item])
                for item in ranks[c]
            }
            ranks[c] = sorted(ranks[c], key=centre.__getitem__)
        crossings = _crossings(ranks, near)
        if crossings < fewest:
            best, fewest = ranks, crossings
    return best


def _crossings(ranks: Sequence[Lane], near: Near) -> int:
    """Return the number of crossings of edges between neighbouring columns."""
    count = 0
    for rank, following in pairwise(ranks):
        place = {item: i for i, item in enumerate(following)}
        ends = [(i, place[o]) for i, item in enumerate(rank) for o in near[item] if o in place]
        count += sum((a - c) * (b - d) < 0 for (a, b), (c, d) in combinations(ends, 2))
    return count


def _heights(
    ranks: Sequence[Lane], near: Near, heights: Mapping[Node, float], gap: float
) -> dict[Node, float]:
    """Return y of each item, close to its neighbours, in order and without overlaps."""
    y: dict[Node, float] = dict.fromkeys(heights, 0.0)
    for sweep in range(SWEEPS):
        for rank in ranks[:: 1 if sweep % 2 == 0 else -1]:
            room = np.array([heights[item] + gap for item in rank])
            offset = np.cumsum(room) - room / 2
            wanted = np.array([_mean([y[o] for o in near[i]], y[i]) for i in rank])
            # Items don't overlap if and only if y + offset never increases.
            level = isotonic_regression(wanted + offset, increasing=False).x
            y.update(zip(rank, (level - offset).tolist(), strict=True))
    return y


def _tracks(
    column: Mapping[Node, int], edges: Sequence[Edge], y: Mapping[Node, float]
) -> dict[Edge, int]:
    """Return the track of each edge within a column, so that edges in a track don't overlap."""
    within = [edge for edge in edges if column[edge[0]] == column[edge[1]]]
    within.sort(key=lambda edge: abs(y[edge[0]] - y[edge[1]]))
    taken: dict[tuple[int, int], list[tuple[float, float]]] = {}
    tracks: dict[Edge, int] = {}
    for edge in within:
        low, high = sorted(y[node] for node in edge)
        for track in count():
            spans = taken.setdefault((column[edge[0]], track), [])
            if all(high <= start or end <= low for start, end in spans):
                spans.append((low, high))
                tracks[edge] = track
                break
    return tracks


def _gaps(
    ranks: Sequence[Lane],
    near: Near,
    column: Mapping[Node, int],
    tracks: Mapping[Edge, int],
    least: float,
) -> list[float]:
    """Return the space to the right of each column but the last, larger for more edges."""
    gaps = []
    for c, rank in enumerate(ranks[:-1]):
        crowd = sum(column[other] == c + 1 for item in rank for other in near[item])
        outermost = max((t for edge, t in tracks.items() if column[edge[0]] == c), default=-1)
        gaps.append(least + CROWDED * max(crowd - 4, 0) + TRACK * (outermost + 1))
    return gaps


def _mean(values: Sequence[float], default: float) -> float:
    return float(np.mean(values)) if values else default


def _with_ports(
    columns: Mapping[Node, int], boxes: Mapping[Node, Box], inner: Mapping[Edge, list[Point]]
) -> dict[Edge, list[Point]]:
    """Return routes with their two ends, ordered on the border of each box without crossings."""
    ends: dict[tuple[Node, int], list[tuple[float, Edge, int]]] = {}
    for (parent, child), points in inner.items():
        step = columns[child] - columns[parent]
        for end, node, other in ((0, parent, child), (-1, child, parent)):
            side = 1 if step == 0 or (step > 0) == (end == 0) else -1
            towards = points[end][1] if points else boxes[other].y
            ends.setdefault((node, side), []).append((towards, (parent, child), end))
    routes = {edge: [(0.0, 0.0), *points, (0.0, 0.0)] for edge, points in inner.items()}
    for (node, side), here in ends.items():
        box = boxes[node]
        spacing = min(PORT, 0.8 * box.height / len(here))
        for i, (_, edge, end) in enumerate(sorted(here, key=itemgetter(0))):
            y = box.y + spacing * (i - (len(here) - 1) / 2)
            routes[edge][end] = (box.x + side * box.width / 2, y)
    return routes
