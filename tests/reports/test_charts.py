"""Small plots: numbers as text, axes that show everything, lines of chains."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from kem_pymc.reports import charts
from kem_pymc.reports.intervals import Band


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.0, "0.00"), (1.234, "1.23"), (12.34, "12.3"), (-123.4, "\N{MINUS SIGN}123")),
        *((0.0123, "0.012"), (0.00012, "1.2e-04"), (123456.0, "1.2e+05"), (99999.0, "99999")),
        *((np.nan, charts.DASH), (np.inf, charts.DASH)),
    ],
)
def test_numbers_have_three_digits(value, text):
    assert charts.number(value) == text


def test_axes_are_linear_and_upwards():
    frame = charts.Frame((0, 10), (-1, 1), "x", "y")
    across = charts.WIDTH - charts.LEFT - charts.RIGHT
    np.testing.assert_allclose(
        frame.px(np.array([0, 5, 10])) - charts.LEFT, [0, across / 2, across]
    )
    bottom, middle, top = frame.py(np.array([-1, 0, 1]))
    assert (bottom, top) == (charts.HEIGHT - charts.BOTTOM, charts.TOP)
    assert middle == (bottom + top) / 2


def predicted(observed):
    band = Band(np.array([1.0, 9.0]), np.zeros(2), np.zeros((2, 2)), np.array(observed))
    points = np.array([[2.0, -1.0], [3.0, 1.0]])
    return SimpleNamespace(seen=points, following=points[:1], curve=band, ahead=band)


def test_axes_of_a_user_show_all_intervals():
    """Fails where a band is cut off, or where one that isn't a number leaves no axes."""
    wide = predicted([[-7.0, np.nan], [5.0, np.inf]])
    narrow = predicted([[-0.1, -0.1], [0.1, 0.1]])
    frame = charts.frame_of([narrow, wide], "week", "steps")
    assert frame.y == pytest.approx((-7 - 0.02 * 12, 5 + 0.02 * 12))
    assert frame.x == pytest.approx((1 - 0.16, 9 + 0.16))
    # Points alone have room of a quarter of their range.
    assert charts.frame_of([narrow], "", "").y == pytest.approx((-1.5 - 0.06, 1.5 + 0.06))


def test_traces_leave_out_what_failed():
    """One line for each chain whose draws are all numbers; none of a single draw."""
    values = np.random.default_rng(0).normal(size=(3, 600))
    values[1, 5] = -np.inf
    svg = charts.traces(values, "<label>")
    lines = re.findall(r'class="chain chain-(\d)" d="M([^"]*)"', svg)
    assert [number for number, _ in lines] == ["0", "2"]
    assert all(len(path.split("L")) == 300 for _, path in lines)
    assert "&lt;label&gt;" in svg
    assert charts.traces(values[:, :1], "") == charts.traces(np.full((2, 9), np.nan), "") == ""
