"""Colours of compositions and methods, and the spelling of labels."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from kem_pymc.plots import composition_colours
from kem_pymc.plots.style import (
    LINES,
    PALETTE,
    balanced,
    line_styles,
    spelled,
    text_size,
)

#: Linear RGB as people without one kind of cone see it (Machado et al. 2009, severity 1).
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


def linear(colour):
    rgb = np.array(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    to_xyz = np.array(
        [[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]]
    )
    x, y, z = np.cbrt(to_xyz @ np.clip(rgb, 1e-3, 1) / [0.9505, 1, 1.0888])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("kind", BLINDNESS)
@pytest.mark.parametrize("colours", [PALETTE, [colour for colour, _ in LINES]])
def test_colours_differ_for_the_colour_blind(kind, colours):
    seen = np.array([lab(np.array(BLINDNESS[kind]) @ linear(c)) for c in colours])
    distance = np.linalg.norm(seen[:, None] - seen[None], axis=-1)
    assert distance[~np.eye(len(colours), dtype=bool)].min() > 15


def test_lines_stand_out_from_white():
    for colour, _ in LINES:
        assert 1.05 / (linear(colour) @ (0.2126, 0.7152, 0.0722) + 0.05) >= 3


def test_looks_of_many_lines_differ():
    looks = line_styles(["KEM", *map(str, range(25)), "Final"])
    assert len({str(look) for look in looks.values()}) == 27
    assert looks["KEM"] == line_styles(["KEM"])["KEM"]


def test_there_are_nine_colours_for_the_most_important():
    colours = composition_colours(["WHITE", *(f"SE{i}" for i in range(20))])
    assert colours["WHITE"] == composition_colours([])["WHITE"]
    assert list(colours)[1:] == [f"SE{i}" for i in range(9)]
    assert len(set(colours.values())) == 10


def test_compositions_of_evolutions_are_ranked_by_their_datasets(make_evolutions):
    rows = [("WHITE", f"SE{i}", 1 + i) for i in range(11)]
    colours = composition_colours(make_evolutions(rows, features=tuple("abcdefghijk")))
    assert set(colours) == {"WHITE", *(f"SE{i}" for i in range(2, 11))}


def test_long_labels_are_broken_evenly_before_a_plus_and_never_in_a_product(typed):
    label = "LIN0 x PER0 + LIN0 x SE0 + PER0 + PER0 x PER0 + SE0"
    lines = balanced(spelled(label), 30).split("\n")
    assert typed(" ".join(lines)) == label
    assert len(lines) == 2
    assert max(map(len, lines)) <= 30
    assert lines[1].startswith("+")
    assert abs(len(lines[0]) - len(lines[1])) < 12


def test_text_is_measured_by_its_longest_line():
    width, height = text_size("LIN0", 9)
    assert text_size("LIN0\nSE", 9) == (width, 2 * height)
    assert text_size("LIN0", 18)[0] == pytest.approx(2 * width, rel=0.05)
    assert text_size("", 9)[0] == 0


def test_the_package_alone_imports_no_matplotlib():
    code = "import sys, kem_pymc; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
