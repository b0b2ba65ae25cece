"""What users share: which features are drawn, in which units, and with which band."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from kem_pymc.errors import InputError
from kem_pymc.plots import mean_process
from tests.plots.test_curves import band, line


def test_the_most_relevant_feature_is_first_and_unused_ones_are_left_out(sharing):
    panels = mean_process(sharing)
    assert [ax.get_xlabel() for ax in panels] == ["age", "week"]
    assert [ax.get_title() for ax in panels] == ["42% of the variance", "11% of the variance"]
    assert panels[0].get_ylabel() == "steps"


def test_curves_are_the_mean_process_in_the_users_units(sharing):
    """Catches scaled units, a band of one sd, and others than in the middle of their range."""
    (ax,) = mean_process(sharing, ["week"])
    mean = line(ax, "mean")
    np.testing.assert_allclose(mean.get_xdata()[[0, -1]], [0, 8])
    np.testing.assert_allclose(mean.get_ydata()[[0, -1]], [10 + 4 * 0.5, 10 + 4 * 1.5])
    # 0.01 of the level, 0.01 / 4 of the slope at the ends, 0.09 of the curve in age.
    reach = 2 * 4 * np.sqrt(0.01 + 0.0025 + 0.09)
    assert band(ax, "function ± 2 sd")[8.0] == pytest.approx((16 - reach, 16 + reach))


def test_other_features_can_be_asked_for(sharing):
    panels = mean_process(sharing, ["dose", 0])
    assert [ax.get_xlabel() for ax in panels] == ["dose", "week"]
    assert np.ptp(line(panels[0], "mean").get_ydata()) == 0


def test_earlier_files_lack_the_relevance(sharing):
    panels = mean_process(replace(sharing, settings={}))
    assert [ax.get_xlabel() for ax in panels] == ["week", "age"]
    assert [ax.get_title() for ax in panels] == ["", ""]


def test_a_given_figure_is_used_and_rows_are_no_wider_than_three(sharing):
    figure = Figure()
    panels = mean_process(sharing, [0, 1, 2, 0], figure=figure)
    assert figure.axes == list(panels)
    assert [ax.get_ylabel() for ax in panels] == ["steps", "", "", "steps"]


def test_what_cannot_be_drawn_is_refused(sharing):
    with pytest.raises(InputError, match=r"share nothing in these evolutions.*from_cohort"):
        mean_process(replace(sharing, shared=None))
    with pytest.raises(InputError, match="no feature 'height'"):
        mean_process(sharing, ["height"])
    with pytest.raises(InputError, match="features= is empty"):
        mean_process(sharing, [])
