"""Compositions by time step: shares that add up, names, the order of frequency."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from kem_pymc.errors import InputError
from kem_pymc.plots import composition_colours, compositions

WALKS = {
    "ann": ["WHITE", "LIN0", "LIN0 + PER0"],
    "bob": ["SE0", "SE0", "SE0"],
    "cyd": ["LIN0", "LIN0", "LIN0 + PER0"],
    "dan": ["SE0", "SE0"],
}
TABLE = pd.DataFrame(
    [
        (method, truth, step, name)
        for method in ("KEM", "ARD")
        for truth in ("LIN0", "SE0")
        for step in (0, 1)
        for name in ("SE0", "SE0", truth, "PER0" if method == "KEM" else "LIN0 x PER0")
    ],
    columns=["method", "truth", "time_step", "composition"],
)


def bars(ax):
    return [bar.get_width() for bar in ax.patches]


def names(ax, texts):
    return [text for text in texts(ax) if "%" not in text]


def test_users_with_each_composition_are_counted(texts):
    axes = compositions(WALKS)
    assert axes.shape == (1, 3)
    assert [ax.get_title() for ax in axes[0]] == [f"time step {t}" for t in (1, 2, 3)]
    assert bars(axes[0, 0]) == [0.5, 0.25, 0.25]
    assert names(axes[0, 0], texts) == ["SE0", "noise only", "LIN0"]
    np.testing.assert_allclose(bars(axes[0, 2]), [2 / 3, 1 / 3])
    assert "67%" in texts(axes[0, 2])
    assert axes[0, 0].get_xlabel() == "share of users"


def test_colours_are_those_of_compositions():
    ax = compositions(WALKS)[0, 1]
    colours = composition_colours(["SE0", "LIN0"])
    assert [to_hex(bar.get_facecolor()) for bar in ax.patches] == [colours["LIN0"], colours["SE0"]]
    ax = compositions(WALKS, colours={"SE0": "#123456"})[0, 1]
    assert [bar.get_hatch() for bar in ax.patches] == ["/////", None]


def test_the_rest_is_one_bar_and_all_add_up(texts):
    for ax in compositions(WALKS, most=1)[0]:
        assert sum(bars(ax)) == pytest.approx(1)
    assert names(compositions(WALKS, most=1)[0, 0], texts) == ["SE0", "2 others"]


def test_a_posterior_is_counted_over_users_and_draws(posterior, texts):
    axes = compositions(posterior, time_steps=[2, 0])
    # At step 2 user 7 has PER0 too, in 3 draws of 4; user 9 isn't there.
    np.testing.assert_allclose(bars(axes[0, 0]), [5 / 8, 3 / 8])
    assert names(axes[0, 0], texts) == ["LIN0", "LIN0 + PER0"]
    assert bars(axes[0, 1]) == [1]


def test_methods_stand_side_by_side_and_truths_below_each_other(texts):
    axes = compositions(TABLE, columns="method", rows="truth", label="share of test users")
    assert axes.shape == (4, 2)
    assert [ax.get_title() for ax in axes[0]] == ["KEM", "ARD"]
    assert axes[0, 0].get_ylabel() == "LIN0\ntime step 0"
    assert axes[3, 0].get_ylabel() == "SE0\ntime step 1"
    assert bars(axes[0, 0]) == [0.5, 0.25, 0.25]
    assert bars(axes[2, 0]) == [0.75, 0.25]
    assert names(axes[2, 1], texts) == ["SE0", "LIN0 x PER0"]
    assert axes[3, 1].get_xlabel() == "share of test users"


def test_where_nobody_is():
    table = TABLE[~((TABLE["method"] == "ARD") & (TABLE["time_step"] == 1))]
    ax = compositions(table, columns="method")[1, 1]
    assert [text.get_text() for text in ax.texts] == ["no users"]


def test_at_most_four_time_steps_from_first_to_last():
    axes = compositions({"ann": ["SE0"] * 10})
    assert [ax.get_title() for ax in axes[0]] == [f"time step {t}" for t in (1, 4, 7, 10)]


def test_long_names_are_cut_to_the_panel(drawn):
    long = " + ".join(f"LIN{i} x SE{i}" for i in range(10))
    axes = compositions({"ann": [long, long]}, figure=Figure((5, 3), layout="constrained"))
    renderer = drawn(axes[0, 0])
    for ax in axes[0]:
        name, share = ax.texts
        assert name.get_text().endswith("\N{HORIZONTAL ELLIPSIS}")
        ends = name.get_window_extent(renderer).x1, share.get_window_extent(renderer).x0
        assert ends[0] < ends[1]


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ({}, {}, "no compositions to draw"),
        (WALKS, {"most": 0}, "no compositions to draw"),
        (WALKS, {"time_steps": [7]}, "no time step 7 to draw"),
        (WALKS, {"time_steps": []}, "no time step in time_steps="),
        (TABLE, {"columns": "metod"}, "no column 'metod'"),
        (TABLE.drop(columns="time_step"), {}, "no column 'time_step'"),
    ],
)
def test_what_cant_be_drawn_is_refused(source, options, message):
    with pytest.raises(InputError, match=message):
        compositions(source, **options)
