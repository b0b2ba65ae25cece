"""Lines of scores: means, intervals, and the order of the legend."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.stats import t

from kem_pymc.errors import InputError
from kem_pymc.plots import log_likelihood


def table(methods=("KEM", "ARD"), trials=3):
    rows = [
        {"method": m, "time_step": step, "trial": trial, "value": i + step + trial**2 + user}
        for i, m in enumerate(methods)
        for step in range(4)
        for trial in range(trials)
        for user in (-0.5, 0.5)
    ]
    return pd.DataFrame(rows)


def drawn_lines(ax):
    return {c.get_label(): c for c in ax.containers}


def half_widths(container):
    segments = container.lines[2][0].get_segments()
    return [np.ptp(segment[:, 1]) / 2 for segment in segments if len(segment)]


def test_lines_are_means_over_units_with_students_intervals():
    ax = log_likelihood(table(), unit="trial")
    lines = drawn_lines(ax)
    for i, name in enumerate(("KEM", "ARD")):
        np.testing.assert_allclose(lines[name].lines[0].get_ydata(), i + np.arange(4) + 5 / 3)
        # Users are averaged within a trial first: 3 values of 0, 1 and 4.
        expected = t.ppf(0.975, 2) * np.std([0, 1, 4], ddof=1) / np.sqrt(3)
        np.testing.assert_allclose(half_widths(lines[name]), expected)
    assert "95 % interval over trials" in ax.get_ylabel()
    assert ax.get_xlabel() == "time step"
    assert log_likelihood(table(), unit="trial", label="seconds").get_ylabel()[:7] == "seconds"


def test_a_single_unit_has_no_interval():
    ax = log_likelihood(table(trials=1), unit="trial")
    assert ax.get_ylabel() == "test log-likelihood"
    assert not any(half_widths(c) for c in drawn_lines(ax).values())


def test_methods_stand_beside_each_other_and_differ_in_colour_and_marker():
    methods = ["KEM", "Final", "ARD", "Memoryless", "Stratified", "another"]
    ax = log_likelihood(table(methods), unit="trial")
    lines = [c.lines[0] for c in ax.containers]
    for get in ("get_color", "get_marker"):
        assert len({getattr(line, get)() for line in lines}) == 6
    starts = [line.get_xdata()[0] for line in lines]
    assert np.all(np.diff(starts) > 0)
    assert np.ptp(starts) < 0.5


def test_the_legend_lists_methods_as_their_lines_end():
    ax = log_likelihood(table(["KEM", "ARD", "Final"]), unit="trial")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["Final", "ARD", "KEM"]


def test_the_legend_of_given_axes_is_inside(drawn):
    ax = Figure().add_subplot()
    assert log_likelihood(table(), unit="trial", ax=ax) is ax
    assert ax.get_legend().get_window_extent(drawn(ax)).x1 <= ax.bbox.x1


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda frame: frame, {}, "no column 'unit'"),
        (lambda frame: frame.assign(value=-np.inf), {"unit": "trial"}, "aren't finite numbers"),
        (lambda frame: frame.assign(time_step="first"), {"unit": "trial"}, "'time_step' is empty"),
        (lambda frame: frame[:0], {"unit": "trial"}, "is empty"),
    ],
)
def test_unusable_tables_are_refused(change, options, message):
    with pytest.raises(InputError, match=message):
        log_likelihood(change(table()), **options)
