import numpy as np
import pandas as pd

from kem_pymc import Cohort
from kem_pymc.selection.horizon import points_ahead
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
    refused(lambda: points_ahead(cohort(), 10**8), "more than 1000000")
    refused(lambda: points_ahead(features, 1), "isn't a feature", "future=")
