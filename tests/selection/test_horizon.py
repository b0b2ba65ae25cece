import numpy as np
import pandas as pd
import pytest

from kem_pymc import Cohort, KEMSelector
from kem_pymc.selection.horizon import points_ahead
from kem_pymc.selection.online import predictions, select_online
from tests.refusals import refused


def cohort(**columns) -> Cohort:
    """Return users a, with distances 2, 1, 2 and 4 in time, and b, with one row."""
    frame = pd.DataFrame(
        {
            "id": [*"aaaaaa", "b"],
            "week": [0, 2, 3, 3, 5, 9, 4],
            "y": [0.0, 1.0, 2.0, 2.5, 3.0, 1.0, 2.0],
            "dose": [3.0] * 6 + [5.0],
        }
    ).assign(**columns)
    roles = {"user": "id", "time": "week", "target": "y", "gaps": "skip", "scope": "new"}
    return Cohort.from_frame(frame, **roles)


def test_times_go_on_as_before_and_the_rest_stays():
    ahead = points_ahead(cohort(), 2)
    assert ahead["a"].tolist() == [[11, 3], [13, 3]]
    assert ahead["b"].tolist() == [[6, 5], [8, 5]]  # no distance of its own
    assert len(points_ahead(cohort(), 2, batch=3)["a"]) == 6


def test_dates_go_on_in_days():
    dates = pd.Timestamp("2024-02-27") + pd.to_timedelta([0, 2, 3, 3, 5, 9, 4], "D")
    ahead = points_ahead(cohort(week=dates), 1)
    assert ahead["a"].tolist() == [[11, 3]]
    assert ahead["b"].tolist() == [[2, 5]]


def test_what_is_to_come_is_not_known():
    refused(lambda: points_ahead(cohort(dose=np.arange(7.0) ** 2), 1), "dose", "future=")
    one_each = cohort(id=list("abcdefg"))
    refused(lambda: points_ahead(one_each, 1), "no user has two different times", "future=")
    features = Cohort(("a",), (np.ones((2, 1)),), (np.ones(2),), (np.array([2]),), ("x",))
    refused(lambda: points_ahead(features, 1), "isn't a feature", "future=")


@pytest.mark.parametrize("horizon", [1, 2, 9])
def test_so_many_batches_of_the_table_are_predicted(learned, horizon):
    x = np.arange(8.0)[:, None]
    users = Cohort(("a",), (x,), (np.sin(x[:, 0]),), (np.array([2, 4, 5, 8]),), ("week",))
    trajectories = select_online(KEMSelector(learned), users)
    rows = predictions(trajectories, users, {"a": np.array([[8.0]])}, horizon)
    ends = [2, 4, 5, 8]
    assert rows.groupby("time_step").size().tolist() == [
        *(ends[min(step + horizon, 3)] for step in range(3)),
        9,  # what is to come follows the last time step alone
    ]
    assert not rows.isna().drop(columns="observed").any(axis=None)
