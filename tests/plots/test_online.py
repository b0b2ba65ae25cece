"""Predictions of one user by time step: what is seen, what follows, and which rows are refused."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from kem_pymc.errors import InputError
from kem_pymc.plots import online_predictions
from kem_pymc.plots.online import AHEAD, SEEN
from kem_pymc.selection import online


@pytest.fixture
def table():
    """Two time steps of three points each, in the columns of a table of predictions."""
    rows = []
    for step, n in ((0, 6), (1, 6)):
        for point in range(n):
            ends = {name: point + 10 * p for name, p in online.QUANTILES.items()}
            row = {"user": "ann", "time_step": step, "point": point, "seen": point < 3 * (step + 1)}
            rows.append(row | {"observed": float(point), "week": 6.0 - point} | ends)
    return pd.DataFrame(rows)


def bars(ax, colour):
    """Return x and both ends of the bars of a colour, the wide intervals first."""
    lines = [one for one in ax.lines if to_hex(one.get_color()) == colour]
    return [np.column_stack(one.get_data()) for one in lines]


def test_each_time_step_has_what_was_seen_and_what_follows(table):
    first, second = online_predictions(table, feature="week", target="steps")
    assert [ax.get_title() for ax in (first, second)] == ["time step 1", "time step 2"]
    assert (first.get_xlabel(), first.get_ylabel()) == ("week", "steps")
    assert [ax.yaxis.get_visible() for ax in (first, second)] == [True, False]
    wide, narrow = bars(first, AHEAD)
    np.testing.assert_allclose(wide[:2], [[3, 3.25], [3, 12.75]])
    np.testing.assert_allclose(narrow[:2], [[3, 5.5], [3, 10.5]])
    assert np.isnan(wide[2, 1])  # no line from one point to the next
    assert [
        len(own[0]) for own in (bars(first, SEEN), bars(second, SEEN), bars(second, AHEAD))
    ] == [*(9, 18, 0)]
    crosses, rings = first.lines[-2:]
    np.testing.assert_allclose(crosses.get_xydata(), [[6, 0], [5, 1], [4, 2]])
    np.testing.assert_allclose(rings.get_xydata(), [[3, 3], [2, 4], [1, 5]])


def test_points_are_in_order_of_arrival_by_default(table):
    ax = online_predictions(table)[0]
    assert ax.get_xlabel() == "point, in order of arrival"
    np.testing.assert_allclose(ax.lines[-1].get_xdata(), [4, 5, 6])


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda t: t.drop(columns="low_95"), {}, "without low_95"),
        (lambda t: t, {"feature": "age"}, "without age"),
        (lambda t: t.assign(user=range(len(t))), {}, "one user"),
        (lambda t: t[:0], {}, "one user"),
    ],
)
def test_another_table_is_refused(table, change, options, words):
    with pytest.raises(InputError, match=words):
        online_predictions(change(table), **options)
