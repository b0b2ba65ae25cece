"""Figures as SVG to embed in a page, and tables as HTML."""

import re
from collections.abc import Mapping
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup, escape
from matplotlib import rc_context

from kem_pymc._system.display import Listing
from kem_pymc.plots import style

#: Settings under which pictures are drawn: text stays text, and a dollar sign is one. One font,
#: because every text names all of them.
SETTINGS: Any = {
    **{"svg.fonttype": "none", "text.parse_math": False},
    **{"font.family": ["sans-serif"], "font.sans-serif": ["DejaVu Sans"]},
}

#: What matplotlib would write about itself and the time.
METADATA: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))

#: What a page doesn't need: styles of matplotlib's, names of artists, links that open another
#: window, the font (the page's style names it), turns by nothing, spaces, and digits of coordinates
#: beyond a tenth of a point.
_SHORTER = {
    r"(?s)<defs>\s*<style.*?</style>\s*</defs>": "",
    r'<g id="[^"]*"': "<g",
    r' target="_blank"': "",
    r"xlink:href": "href",
    r' font-family: [^;"]*;?': "",
    r' transform="rotate\(-0 [^"]*"': "",
    r"\s+": " ",
    r"> <": "><",
    r"(?<=[:;]) (?=[^<>]*>)": "",
    r"(\d\d\.\d|\d\.\d\d)\d+(?=[^<>]*>)": r"\1",
}


def svg(drawn: Any, title: str) -> Markup:
    """Return a picture as an SVG element.

    The same figure gives the same text.

    Parameters
    ----------
    drawn : Axes, array of Axes, or PlotCollection
        What a function of :mod:`kem_pymc.plots` returned.
    title : str
        Text alternative of the picture, for screen readers. No other picture of the page may have
        it, because identifiers within the picture are made of it.
    """
    figure = drawn.viz["figure"].item() if hasattr(drawn, "viz") else np.ravel(drawn)[0].figure
    written = StringIO()
    with rc_context({"svg.hashsalt": title}):
        figure.savefig(written, format="svg", metadata=METADATA)
    style.close(figure)
    text = written.getvalue().partition("<svg ")[2]
    for pattern, instead in _SHORTER.items():
        text = re.sub(pattern, instead, text)
    return Markup(f'<svg role="img" aria-label="{escape(title)}" {text}')


def table(
    frame: pd.DataFrame, caption: str, forms: Mapping[str, str | int] | None = None
) -> Markup:
    """Return a table as HTML, with numbers as text of two digits, or as `forms` says by column."""
    forms = {**dict.fromkeys(frame.select_dtypes("float"), ".2f"), **(forms or {})}
    rows = list(frame.itertuples(index=False, name=None))
    html = Listing(tuple(frame), rows, forms, caption).html()
    return Markup(
        f'<div class="wide" role="region" aria-label="{escape(caption)}" tabindex="0">{html}</div>'
    )
