"""Contrast of text in both modes, computed from the variables of the style."""

import re

import pytest

from kem_pymc.plots import style
from kem_pymc.reports.page import _read

#: Text and what it stands on, as variables of the style.
PAIRS = [
    *(("ink", "page"), ("ink", "card"), ("muted", "page"), ("muted", "card"), ("link", "page")),
    *(("link", "card"), ("good", "good-ground"), ("care", "care-ground"), ("tip-ink", "tip")),
    *(("ink", "good-ground"), ("ink", "care-ground")),
]


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def mixed(a, b, share):
    """Return a colour that is so much of `a`, the rest of `b`."""
    parts = (
        round(share * int(a[i : i + 2], 16) + (1 - share) * int(b[i : i + 2], 16))
        for i in (1, 3, 5)
    )
    return "#" + "".join(f"{p:02x}" for p in parts)


@pytest.fixture(params=["light", "dark"])
def colours(request):
    light, dark = re.findall(r":root \{(.*?)\}", _read("style.css"), re.DOTALL)
    text = light if request.param == "light" else dark
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", text))


@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_can_be_read(colours, text, ground):
    assert contrast(colours[text], colours[ground]) >= 4.5


def test_text_on_shades_can_be_read(colours):
    deepest = mixed(colours["accent"], colours["page"], 0.5)  # of the table of parts
    assert contrast(colours["ink"], deepest) >= 4.5
    box = mixed(colours["accent"], colours["card"], 0.22)  # of the graph
    assert contrast(colours["ink"], box) >= 4.5
    assert contrast(colours["muted"], box) >= 4.5
    over = mixed(colours["accent"], colours["card"], 0.1)
    assert contrast(colours["link"], over) >= 4.5


def test_lines_can_be_seen(colours):
    for line in ("accent", "ahead", "edge", "muted"):
        assert contrast(colours[line], colours["card"]) >= 3


def test_letters_on_tiles_can_be_read():
    for colour in (*style.PALETTE, style.NOTHING):
        ink = {"white": "#ffffff"}.get(style.ink_on(colour), style.INK)
        assert contrast(ink, colour) >= 4.5


def test_contrast_is_that_of_the_guidelines():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)
