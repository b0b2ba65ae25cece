"""Curves of the edges of a graph, and positions of the edge labels."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from kem_pymc.plots.layout import Box, Edge, Point

#: Positions along an edge where its label may be put, in order of preference.
PLACES = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8)


def curve(route: Sequence[Point]) -> np.ndarray:
    """Return the vertices of Bézier curves through a route, horizontal at each of its points."""
    vertices = [route[0]]
    for (x0, y0), (x1, y1) in pairwise(route):
        middle = (x0 + x1) / 2
        vertices += [(middle, y0), (middle, y1), (x1, y1)]
    return np.array(vertices)


def bow(start: Point, apex: Point, end: Point) -> np.ndarray:
    """Return the vertices of two Bézier curves, from start to apex and from apex to end."""
    ends = np.array([start, end])
    leaving = np.column_stack([ends[:, 0] + 0.6 * (apex[0] - ends[:, 0]), ends[:, 1]])
    turning = np.column_stack([[apex[0]] * 2, apex[1] + 0.3 * (ends[:, 1] - apex[1])])
    return np.array([ends[0], leaving[0], turning[0], apex, turning[1], leaving[1], ends[1]])


def _point_on(curve: np.ndarray, share: float) -> np.ndarray:
    """Return the point at a fraction of the way along Bézier curves."""
    pieces = (len(curve) - 1) // 3
    piece = min(int(share * pieces), pieces - 1)
    t = share * pieces - piece
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
    return np.array(weights) @ curve[3 * piece : 3 * piece + 4]


def label_places(
    curves: Mapping[Edge, np.ndarray],
    weights: Mapping[Edge, float],
    boxes: Iterable[Box],
    size: tuple[float, float],
) -> dict[Edge, Point]:
    """Return the position of each edge's label, on the edge and if possible without overlaps.

    Parameters
    ----------
    curves : mapping of edge to ndarray, shape (n, 2)
        Vertices of the Bézier curves of each edge.
    weights : mapping of edge to float
        Labels are placed in descending order of the weights of their edges.
    boxes : iterable of Box
        Boxes that labels should not overlap.
    size : (width, height)
        Size of a label.

    Returns
    -------
    dict of edge to (x, y)
        Centres of the labels.
    """
    taken = [(box.x, box.y, box.width, box.height) for box in boxes]
    places = {}
    for edge in sorted(weights, key=lambda e: -weights[e]):
        spots = [_point_on(curves[edge], share) for share in PLACES]
        x, y = min(spots, key=lambda p: sum(_overlap((*p, *size), o) for o in taken))
        taken.append((x, y, *size))
        places[edge] = (x, y)
    return places


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """Return the overlap area of two rectangles (x, y, width, height) centred at (x, y)."""
    across = (a[2] + b[2]) / 2 - abs(a[0] - b[0])
    along = (a[3] + b[3]) / 2 - abs(a[1] - b[1])
    return max(across, 0.0) * max(along, 0.0)
