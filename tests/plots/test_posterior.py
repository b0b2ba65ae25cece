"""Inclusion probabilities and co-clustering of a hand-made posterior (see conftest)."""

from itertools import pairwise

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from kem_pymc.errors import InputError
from kem_pymc.plots import co_clustering, inclusion


def table(ax):
    return np.ma.getdata(ax.images[0].get_array())


def test_inclusion_is_averaged_over_the_users_who_have_the_step(posterior, texts):
    ax = inclusion(posterior)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["LIN(week)", "PER(week)"]
    np.testing.assert_allclose(table(ax), [[1, 1, 1], [0, 0.25, 0.375]])
    assert {"1.00", "0.25", "0.38"} <= set(texts(ax))
    assert "0.00" not in texts(ax)
    assert "Parts that aren't shown, as less probable in every column: 1." in texts(ax)
    assert ax.get_title() == "Inclusion probability, mean of 3 users"
    assert len(inclusion(posterior, minimum=0).get_yticks()) == 3


def test_inclusion_by_user_is_at_each_users_last_step(posterior):
    """Catches the last column for a user who lacks it; user 9 has two steps."""
    ax = inclusion(posterior, by="user")
    columns = [label.get_text() for label in ax.get_xticklabels()]
    found = dict(zip(columns, table(ax).T.tolist(), strict=True))
    assert found == {"7": [1, 0.75], "8": [1, 0], "9": [1, 0]}
    assert columns[0] == "7"


def test_inclusion_of_one_user_leaves_missing_steps_blank(posterior):
    np.testing.assert_allclose(table(inclusion(posterior, 7)), [[1, 1, 1], [0, 0.75, 0.75]])
    last = inclusion(posterior, 9).images[0].get_array()[:, 2]
    assert np.ma.getmaskarray(last).all()


def test_one_time_step_leaves_room_for_long_names(posterior, drawn):
    one = posterior.isel(time_step=[0])
    setting = [
        'features: ["share_of_days_at_the_place_of_work", "age"]' if "features" in text else text
        for text in one["constant_data"]["setting"].values
    ]
    study = one["constant_data"].to_dataset().assign_coords(setting=setting)
    one["constant_data"] = xr.DataTree(dataset=study)
    ax = inclusion(one)
    assert ax.get_yticklabels()[0].get_text() == "LIN(share_of_days_at_the_place_of_work)"
    drawn(ax)  # matplotlib warns where axes collapse
    assert ax.get_window_extent().width > 72


def test_an_unknown_user_is_refused(posterior):
    with pytest.raises(InputError, match="no user 4"):
        inclusion(posterior, 4)


def test_another_posterior_is_refused():
    other = xr.DataTree.from_dict({"posterior": xr.Dataset({"mu": (("chain", "draw"), [[0.0]])})})
    for draw in (inclusion, co_clustering):
        with pytest.raises(InputError, match="no settings of a study"):
            draw(other)


def test_co_clustering_counts_draws_in_which_clusters_are_shared(posterior):
    ax = co_clustering(posterior)
    together = table(ax)
    # 8 datasets: by time step 3, 3 and 2; user 9, alone in half of the draws, is at one end.
    assert together.shape == (8, 8)
    np.testing.assert_allclose(np.diag(together), 1)
    np.testing.assert_allclose(together, together.T)
    assert sorted(together[0, :3].tolist() + together[2, :3].tolist()) == [0.5] * 3 + [1] * 3
    np.testing.assert_allclose(together[:3, 3:], 0)
    np.testing.assert_allclose(together[6:, 6:], 1)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2", "3"]
    assert ax.get_xlabel() == "time step"


def test_co_clustering_by_similarity_puts_clusters_together(posterior):
    ax = co_clustering(posterior, order="similarity", ax=Figure().add_subplot())
    labels = [label.get_text() for label in ax.get_xticklabels()]
    steps = [label[-1] for label in labels]
    assert sum(a != b for a, b in pairwise(steps)) == 2
    assert sorted(labels)[:2] == ["7, 1", "7, 2"]


def test_an_unknown_order_is_refused(posterior):
    with pytest.raises(InputError, match="no order 'random'"):
        co_clustering(posterior, order="random")
