"""The graph of evolutions as SVG, with links from boxes and arrows to their descriptions."""

from collections.abc import Callable

import numpy as np
from markupsafe import Markup

from kem_pymc.kernels.composition import Composition
from kem_pymc.plots.graph import OUTSIDE, PADDING, SMALL, TEXT, Drawing
from kem_pymc.plots.style import text_size

type Edge = tuple[Composition, Composition]

#: Pixels per point of the drawing, large enough for its text to be legible.
SCALE = 1.6

#: Length and half width of an arrow's head.
HEAD = 7.0, 3.2


def graph(
    drawing: Drawing,
    address: Callable[[Composition | Edge], str],
    tip: Callable[[Composition | Edge], str],
    classes: Callable[[Composition], str],
) -> Markup:
    """Return a graph as SVG.

    Parameters
    ----------
    drawing : Drawing
    address : callable
        Function that returns the identifier of the page element that a box or an arrow links to.
    tip : callable
        Function that returns the text of its tooltip and of its label for screen readers.
    classes : callable
        Function that returns the CSS class of a composition's colour.
    """
    left, right = drawing.x
    bottom = min(box.y_range[0] for box in drawing.boxes.values())
    bottom = min([bottom, *(curve[:, 1].min() for curve in drawing.curves.values())]) - 8
    top = drawing.y[1]
    parts = []
    most = max(drawing.datasets.values()) or 1.0
    for node in drawing.boxes:
        body = _node(drawing, node, classes(node), drawing.datasets[node] / most, top)
        parts.append(_link("node", address(node), tip(node), body))
        for edge in drawing.edges:
            if edge[0] == node:
                parts.append(_link("edge", address(edge), tip(edge), _edge(drawing, edge, top)))
    return Markup(
        '<svg class="graph" role="group" aria-label="Graph of evolutions" '
        'viewBox="{:.1f} 0 {:.1f} {:.1f}" width="{:.0f}" height="{:.0f}">{}</svg>'
    ).format(
        left,
        right - left,
        top - bottom,
        SCALE * (right - left),
        SCALE * (top - bottom),
        Markup("").join(parts),
    )


def _link(kind: str, address: str, tip: str, body: Markup) -> Markup:
    return Markup('<a class="{}" href="#{}" aria-label="{}" data-tip="{}">{}</a>').format(
        kind, address, tip.replace("\n", ". "), tip, body
    )


def _node(drawing: Drawing, node: Composition, colour: str, share: float, top: float) -> Markup:
    box = drawing.boxes[node]
    title, note = drawing.texts[node]
    x, y = box.x_range[0], top - box.y_range[1]
    size = Markup('x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="5"').format(
        x, y, box.width, box.height
    )
    lines = [
        *((line, TEXT, "title", i) for i, line in enumerate(title.split("\n"))),
    ]
    texts = [
        Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(
            kind, box.x, y + PADDING + (i + 0.82) * 1.25 * height, line
        )
        for line, height, kind, i in lines
    ]
    below = y + PADDING + text_size(title, TEXT)[1]
    texts += [
        Markup('<text class="note" x="{:.1f}" y="{:.1f}">{}</text>').format(
            box.x, below + (i + 0.82) * 1.25 * SMALL, line
        )
        for i, line in enumerate(note.split("\n"))
    ]
    return Markup(
        '<rect class="ground" {0}/><rect class="shade" {0} fill-opacity="{1:.2f}"/>'
        '<rect class="border {2}" {0}/>{3}{4}'
    ).format(size, 0.22 * share, colour, _end(drawing, node, x, y), Markup("").join(texts))


def _end(drawing: Drawing, node: Composition, x: float, y: float) -> Markup:
    """Return the second frame of a composition with which pilot users end up."""
    if node not in drawing.ends:
        return Markup("")
    box, more = drawing.boxes[node], 2 * OUTSIDE
    return Markup(
        '<rect class="end" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="7"/>'
    ).format(x - OUTSIDE, y - OUTSIDE, box.width + more, box.height + more)


def _edge(drawing: Drawing, edge: Edge, top: float) -> Markup:
    curve = drawing.curves[edge] * (1, -1) + (0, top)
    probability = drawing.edges[edge]
    width = 0.8 + 4 * probability
    length, half = HEAD[0] + width, HEAD[1] + 0.6 * width
    end = curve[-1]
    way = 1.0 if end[0] >= curve[-2][0] else -1.0  # arrows end horizontally
    shaft = curve.copy()
    shaft[-1, 0] -= 0.8 * way * length
    path = f"M{_at(shaft[0])}" + "".join(
        f"C{_at(a)} {_at(b)} {_at(c)}" for a, b, c in shaft[1:].reshape(-1, 3, 2)
    )
    base, side = end - (way * length, 0), np.array([0, half])
    head = f"M{_at(end)}L{_at(base + side)}L{_at(base - side)}Z"
    x, y = drawing.labels[edge]
    return Markup(
        '<path class="hit" d="{0}"/><path class="line" d="{0}" stroke-width="{1:.1f}"/>'
        '<path class="head" d="{2}"/><rect class="ground" x="{3:.1f}" y="{4:.1f}" width="19" '
        'height="9"/><text class="number" x="{5:.1f}" y="{6:.1f}">{7:.2f}</text>'
    ).format(
        *(path, width, head, x - 9.5, top - y - 4.5),
        *(x, top - y + 0.35 * SMALL, probability),
    )


def _at(point: np.ndarray) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"
