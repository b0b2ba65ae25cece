"""Figures as SVG to embed in a page, and tables as HTML."""

import re
from collections.abc import Mapping
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup, escape
from matplotlib import rc_context

from kem_pymc._system.display import Displayed

#: Settings under which pictures are drawn: text stays text, and a dollar sign is one.
SETTINGS: Any = {"svg.fonttype": "none", "text.parse_math": False}

#: What matplotlib would write about itself and the time.
METADATA: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))

#: What a page doesn't need: styles of matplotlib's, names of artists, rotations by nothing, spaces.
_SHORTER = {
    r"(?s)<defs>\s*<style.*?</style>\s*</defs>": "",
    r'<g id="[^"]*"': "<g",
    r' transform="rotate\(-0 [^"]*"| target="_blank"': "",
    r"xlink:href": "href",
    r">[ \n]+<": "><",
    r"[ \n]+": " ",
}

#: Identifiers of markers and clips, which matplotlib makes of hashes.
_IDS = re.compile(r"\b[mph][0-9a-f]{10}\b")

#: Attributes with coordinates, whose digits beyond a hundredth of a point are dropped.
_COORDINATES = re.compile(r' (?:d|x|y|transform|width|height)="[^"]*"')
_DIGITS = re.compile(r"\d+\.\d{3,}")


class Pictures:
    """Pictures of one page, with the rules of style that they share.

    The same figures give the same text, and no two pictures share an identifier.
    """

    def __init__(self) -> None:
        self._classes: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._count = 0

    def svg(self, drawn: Any, title: str) -> Markup:
        """Return a picture as an SVG element, with a title for screen readers.

        Parameters
        ----------
        drawn : Axes, array of Axes, or PlotCollection
            What a function of :mod:`kem_pymc.plots` returned.
        title : str
            Text alternative of the picture.
        """
        figure = drawn.viz["figure"].item() if hasattr(drawn, "viz") else np.ravel(drawn)[0].figure
        self._count += 1
        written = StringIO()
        with rc_context({"svg.hashsalt": f"picture {self._count}"}):
            figure.savefig(written, format="svg", metadata=METADATA)
        text = written.getvalue()
        text = text[text.index("<svg") :]
        for pattern, instead in _SHORTER.items():
            text = re.sub(pattern, instead, text)
        text = _COORDINATES.sub(
            lambda match: _DIGITS.sub(lambda digits: f"{float(digits[0]):.2f}", match[0]), text
        )
        text = _IDS.sub(lambda match: self._ids.setdefault(match[0], f"i{len(self._ids)}"), text)
        named = f'<svg role="img" aria-label="{escape(title)}" '
        return self._with_classes(text.replace("<svg ", named, 1))

    def html(self, shown: Displayed) -> Markup:
        """Return what an object displays in notebooks."""
        return self._with_classes(shown._repr_html_())

    def _with_classes(self, text: str) -> Markup:
        """Return HTML with references to shared rules in place of styles."""
        return Markup(re.sub(r' style="([^"]*)"', self._styled, text))

    def _styled(self, match: re.Match[str]) -> str:
        """Return an attribute that refers to a rule, in place of the style itself."""
        name = self._classes.setdefault(match[1], f"p{len(self._classes)}")
        return f' class="{name}"'

    @property
    def css(self) -> str:
        """Rules of style that the pictures refer to."""
        return "\n".join(f".{name} {{ {rule} }}" for rule, name in self._classes.items())


def table(frame: pd.DataFrame, caption: str, forms: Mapping[str, str] | None = None) -> Markup:
    """Return a table as HTML, with numbers as text of two digits, or as `forms` says by column."""
    numeric = frame.select_dtypes("float")
    forms = {name: (forms or {}).get(name, "{:.2f}") for name in numeric}
    with pd.option_context("display.max_colwidth", None):
        html = frame.to_html(
            index=False,
            border=0,
            na_rep="\N{EN DASH}",
            formatters={name: form.format for name, form in forms.items()},
        )
    html = re.sub(r' (style="text-align: right;"|class="dataframe")', "", html)
    # Columns of numbers are aligned by the page's style, which knows them by their cells.
    html = re.sub(
        r"<td>(-?[\d.]+(%| of \d+| to -?[\d.]+)?|\N{EN DASH})</td>", r'<td class="n">\1</td>', html
    )
    html = html.replace("<thead>", f"<caption>{escape(caption)}</caption>\n<thead>", 1)
    return Markup(
        f'<div class="wide" role="region" aria-label="{escape(caption)}" tabindex="0">{html}</div>'
    )
