"""Contrast of text in both modes, computed from the variables of the style."""

import re
from importlib.resources import files

import pytest

from kem_pymc.plots import style


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("text", "ground"),
    [
        *(("ink", "page"), ("muted", "page"), ("link", "page")),
        *(("ink", "care-ground"), ("care", "care-ground"), ("link", "care-ground")),
    ],
)
def test_text_can_be_read(mode, text, ground):
    css = files("kem_pymc.plots.report").joinpath("page_files", "style.css").read_text("utf-8")
    rules = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[mode]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", rules))
    assert contrast(colours[text], colours[ground]) >= 4.5


def test_letters_on_tiles_can_be_read():
    for colour in (*style.PALETTE, style.NOTHING):
        ink = {"white": "#ffffff"}.get(style.ink_on(colour), style.INK)
        assert contrast(ink, colour) >= 4.5


def test_contrast_is_that_of_the_guidelines():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)
