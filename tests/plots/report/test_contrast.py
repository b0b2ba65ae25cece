"""Contrast of text in both modes, computed from the variables of the style."""

import re
from importlib.resources import files

import pytest

from kem_pymc.plots import style
from tests.plots.test_style import linear


def luminance(colour):
    return linear(colour) @ (0.2126, 0.7152, 0.0722)


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
        assert contrast(style.ink_on(colour), colour) >= 4.5
