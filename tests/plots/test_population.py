"""Pictures of a population model's answers."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

import kem_pymc as kem
from kem_pymc import plots
from tests.population.trial import cohort_of, trial


def of_one_draw(table):
    """Return a posterior given one draw of a model of lines."""
    model = kem.PopulationModel(cohort_of(table), ["arm", "week"], ["level"])
    draws = {"personal level.sd": np.ones(1), "noise.sd": np.ones(1)}
    return kem.population.PopulationPosterior(model, draws, np.ones(1), -np.inf, np.nan)


def test_points_have_the_colour_of_the_group_they_were_in():
    """Of users who change groups, as in a crossover trial, too."""
    table = trial().drop(columns="base")
    late = table["week"] > 2
    table["arm"] = np.where(late == (table["user"] > "u05"), "a", "b")
    posterior = of_one_draw(table)
    ax = plots.mean_curves(posterior, "arm")
    colours = {line.get_label(): to_hex(line.get_color()) for line in ax.lines[-2:]}
    assert set(colours) == {"a", "b"}
    drawn = [
        (*point, to_hex(line.get_color())) for line in ax.lines[:-2] for point in line.get_xydata()
    ]
    expected = [(row.week, row.y, colours[row.arm]) for row in table.itertuples()]
    assert sorted(drawn) == sorted(expected)


def test_of_targets_that_are_0_or_1_the_shares_of_groups_are_drawn():
    table = trial().drop(columns="base")
    table["y"] = (table["y"] > table["y"].median()).astype(int)
    model = kem.PopulationModel(cohort_of(table, family="binary"), ["arm", "week"], ["level"])
    draws = {"personal level.sd": np.ones(1), "noise.sd": np.ones(1)}
    posterior = kem.population.PopulationPosterior(model, draws, np.ones(1), -np.inf, np.nan)
    ax = plots.mean_curves(posterior, "arm")
    for shares, curve in zip(ax.lines[::2], ax.lines[1::2], strict=True):
        expected = table[table["arm"] == curve.get_label()].groupby("week")["y"].mean()
        np.testing.assert_allclose(shares.get_xydata(), expected.reset_index())


def test_curves_end_where_their_group_was_last_seen():
    table = trial().drop(columns="base")
    first = table["arm"].iloc[0]
    table = table[(table["arm"] != first) | (table["week"] <= 3)]
    with pytest.warns(kem.errors.DataWarning, match="how long users were followed"):
        posterior = of_one_draw(table)
    ax = plots.mean_curves(posterior, "arm")
    labelled = {line.get_label(): line.get_xdata().max() for line in ax.lines}
    ends = table.groupby("arm")["week"].max()
    assert {arm: labelled[arm] for arm in ends.index} == ends.to_dict()
    assert len(set(ends)) == 2
