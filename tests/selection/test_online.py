from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection import online
from kem_pymc.selection.ablations import StratifiedSelector
from kem_pymc.selection.departure import DepartureSelector
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.online import predictions, select_online
from tests.refusals import refused
from tests.selection.pilots import user


def test_features_need_columns_of_their_own():
    cohort = Cohort(("a",), (np.ones((2, 1)),), (np.ones(2),), (np.array([2]),), ("mean",))
    refused(lambda: predictions({"a": []}, cohort), "'mean'")


def test_the_table_has_the_moments_and_quantiles_of_every_prediction(learned):
    """Catches an interval with another probability, and points that a selection hadn't seen."""
    x, y = user(8)
    cohort = Cohort(("a",), (x,), (y,), (np.array([3, 6, 8]),), ("week",))
    trajectories = select_online(KEMSelector(learned), cohort)
    table = predictions(trajectories, cohort)
    ends, upto = (3, 6, 8), (6, 8, 8)
    assert table.groupby("time_step").size().tolist() == list(upto)
    probabilities = {
        **{"low_95": 0.025, "low_80": 0.1, "low_50": 0.25, "median": 0.5},
        **{"high_50": 0.75, "high_80": 0.9, "high_95": 0.975},
    }
    for step, rows in table.groupby("time_step"):
        points = x[: upto[step]]
        expected = trajectories["a"][step].predict(points, include_noise=True)
        assert rows["seen"].tolist() == [k < ends[step] for k in range(upto[step])]
        np.testing.assert_array_equal(rows["observed"], y[: upto[step]])
        np.testing.assert_array_equal(rows["week"], points[:, 0])
        np.testing.assert_allclose(rows["mean"], expected.mean, rtol=1e-12)
        np.testing.assert_allclose(rows["sd"], expected.sd, rtol=1e-12)
        np.testing.assert_allclose(rows["sd_function"], expected.sd_function, rtol=1e-12)
        for name, probability in probabilities.items():
            np.testing.assert_allclose(rows[name], expected.quantile(probability), rtol=1e-10)


def test_long_trajectories_are_made_in_parts_which_are_reported(learned, monkeypatch):
    """Catches users who begin anew in each part, and silence until ten users are complete."""
    data = [user(8), user(5)]
    ends = (np.arange(1, 9), np.array([2, 5]))
    cohort = Cohort(("a", "b"), *map(tuple, zip(*data, strict=True)), ends, ("week",))
    parts, rows = [], []
    for longest in (2.0, 0.0):
        monkeypatch.setattr(online, "LONGEST", longest)
        parts.append([])
        made = select_online(KEMSelector(learned), cohort, callback=parts[-1].append)
        rows.append([[s.to_row() | {"run_time": 0} for s in path] for path in made.values()])
    assert [[len(found) for found in part] for part in parts] == [[10], [1] * 10]
    assert rows[0] == rows[1]
    assert [len(path) for path in rows[0]] == [8, 2]


@pytest.mark.parametrize(("pilots", "new"), [("numbers", "dates"), ("dates", "numbers")])
def test_times_of_another_kind_are_refused(learned, pilots, new):
    """Fails where seven days pass for week 7: by all selectors that scale, and by a file."""
    table = pd.DataFrame({"id": "a", "week": [0, 7, 14], "y": user(3)[1]})
    if new == "dates":
        table["week"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(table["week"], unit="D")
    roles = {"user": "id", "time": "week", "target": "y", "scope": "new"}
    cohort = Cohort.from_frame(table, **roles)
    assert len(select_online(KEMSelector(learned), cohort)["a"]) == 3  # it isn't known
    scaling = Scaling.from_dict(learned.scaling.to_dict() | {"time_kind": pilots})
    learned = replace(learned, scaling=scaling)
    first = replace(
        learned, clusters=tuple(c for c in learned.clusters if c.parent == Composition())
    )
    words = f"week has {new}, but it had {pilots} for the pilot users"
    for selector in (
        KEMSelector(learned),
        DepartureSelector(KEMSelector(learned), learned),
        StratifiedSelector([first], [3]),
    ):
        refused(lambda selector=selector: select_online(selector, cohort), words)
    refused(lambda: scaling.apply(cohort), words)
    refused(lambda: replace(scaling, time_kind="weeks"), "no time of 'weeks'")


@pytest.mark.parametrize("horizon", [1, 2, 9])
def test_points_of_the_next_time_steps_are_predicted(learned, horizon):
    x, y = user(8)
    cohort = Cohort(("a",), (x,), (y,), (np.array([3, 6, 8]),), ("week",))
    trajectories = select_online(KEMSelector(learned), cohort)
    future = {"a": np.array([[21.0], [22.0]])}
    table = predictions(trajectories, cohort, future, horizon)
    sizes = {1: [6, 8, 10], 2: [8, 8, 10], 9: [8, 8, 10]}
    assert table.groupby("time_step").size().tolist() == sizes[horizon]
    assert table["observed"].isna().sum() == 2
    assert table["week"].tolist()[-2:] == [21.0, 22.0]
