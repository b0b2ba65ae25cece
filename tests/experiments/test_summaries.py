import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp, ttest_rel

from kem_pymc.experiments.summaries import by_step, gains, interval, plus_minus, tidy


def table(trials):
    rng = np.random.default_rng(0)
    rows = [
        {
            "study": "s",
            "trial": trial,
            "method": method,
            "user": str(user),
            "time_step": step,
            "value": rng.normal(step + (method == "A"), 1 + trial),
        }
        for trial in range(trials)
        for method in ("A", "B")
        for user in range(5)
        for step in range(2)
    ]
    return pd.DataFrame(rows)


def test_interval_is_students():
    values = np.random.default_rng(1).normal(size=9)
    low, high = ttest_1samp(values, 0).confidence_interval(0.95)
    assert interval(values) == pytest.approx((high - low) / 2)
    assert np.isnan(interval([1.0]))


def test_trials_are_what_varies():
    data = table(4)
    rows = by_step(data, "value").set_index(["method", "time_step"])
    own = data[(data["method"] == "A") & (data["time_step"] == 1)]
    means = own.groupby("trial")["value"].mean()
    assert rows.loc[("A", 1), "units"] == 4
    assert rows.loc[("A", 1), "mean"] == pytest.approx(means.mean())
    assert rows.loc[("A", 1), "half"] == pytest.approx(interval(means))


def test_users_are_where_there_is_one_trial():
    assert set(by_step(table(1), "value")["units"]) == {5}


def test_gains_are_paired():
    data = table(4)
    row = gains(data, "value", "A").set_index("time_step").loc[1]
    means = data[data["time_step"] == 1].groupby(["method", "trial"])["value"].mean()
    low, high = ttest_rel(means["A"], means["B"]).confidence_interval(0.95)
    assert row["other"] == "B"
    assert row["gain"] == pytest.approx((low + high) / 2)
    assert row["half"] == pytest.approx((high - low) / 2)


def test_a_tidy_row_holds_one_value():
    data = table(1).rename(columns={"value": "score"}).assign(other=np.nan)
    long = tidy(data, "score", "other")
    assert len(long) == len(data)
    assert list(long.columns[-2:]) == ["quantity", "value"]


def test_text():
    assert plus_minus(1.234, 0.5) == "1.23 ± 0.50"
    assert plus_minus(1.234, float("nan")) == "1.23"
    assert plus_minus(float("nan"), 1.0) == ""
