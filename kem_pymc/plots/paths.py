"""The curves that edges are drawn along, and the places of their labels."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from kem_pymc.plots.layout import Box, Edge, Point

#: Where along an edge its label may stand, in order of preference.
PLACES = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8)


def curve(route: Sequence[Point]) -> np.ndarray:
    """Return the vertices of Bézier curves through a route, level at each of its points."""
    vertices = [route[0]]
    for (x0, y0), (x1, y1) in pairwise(route):
        middle = (x0 + x1) / 2
        vertices += [(middle, y0), (middle, y1), (x1, y1)]
    return np.array(vertices)


def bow(start: Point, apex: Point, end: Point) -> np.ndarray:
    """Return the vertices of two Bézier curves, out to the apex and back."""
    ends = np.array([start, end])
    leaving = np.column_stack([ends[:, 0] + 0.6 * (apex[0] - ends[:, 0]), ends[:, 1]])
    turning = np.column_stack([[apex[0]] * 2, apex[1] + 0.3 * (ends[:, 1] - apex[1])])
    return np.array([ends[0], leaving[0], turning[0], apex, turning[1], leaving[1], ends[1]])


def _point_on(curve: np.ndarray, share: float) -> np.ndarray:
    """Return the point at a share of the way along Bézier curves."""
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
    """Return where the label of each edge stands: on the edge, and if possible on nothing else.

    Parameters
    ----------
    curves : mapping of edge to ndarray (n, 2)
    weights : mapping of edge to float
        The heaviest choose their places first.
    boxes : iterable of Box
    size : (width, height)
        Of a label.
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
    """Return the area that two rectangles (x, y, width, height) around x and y share."""
    across = (a[2] + b[2]) / 2 - abs(a[0] - b[0])
    along = (a[3] + b[3]) / 2 - abs(a[1] - b[1])
    return max(across, 0.0) * max(along, 0.0)
