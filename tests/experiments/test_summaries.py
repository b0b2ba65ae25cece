"""Means, gains and their intervals: over distinct users, trials averaged within them."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from kem_pymc.comparison.summaries import (
    by_step,
    errors,
    gains,
    half_interval,
    interval,
    mean_gains,
    plus_minus,
    tidy,
)

STEPS = 3
#: By how much A is ahead at each time step, and on average.
GAIN = np.array([0.2, 0.0, -0.1])


def table(rng, users=12, deals=10, own=0.3, chance=0.2, everyone=False):
    """Return selections of methods A and B: users' own gains, and chance in every deal.

    Half of the users are test users of a deal, or everyone: a balanced layout.
    """
    kept = users if everyone else users // 2
    test = [rng.permutation(users)[:kept] for _ in range(deals)]
    index = pd.MultiIndex.from_tuples(
        [
            (deal, user, step)
            for deal in range(deals)
            for user in test[deal]
            for step in range(STEPS)
        ],
        names=["trial", "user", "time_step"],
    )
    frame = index.to_frame(index=False)
    hard = rng.normal(-1, 3, len(frame))  # in common to both methods
    ahead = GAIN[frame["time_step"]] + rng.normal(0, own, users)[frame["user"]]
    ahead += rng.normal(0, chance, len(frame))
    frame = frame.assign(
        study="s", user=frame["user"].astype(str), person=frame["user"].astype(str)
    )
    methods = {"A": hard + ahead, "B": hard}
    return pd.concat(
        [frame.assign(method=name, value=value) for name, value in methods.items()],
        ignore_index=True,
    )


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def test_interval_is_students():
    values = np.random.default_rng(1).normal(size=9)
    low, high = ttest_1samp(values, 0).confidence_interval(0.95)
    assert interval(values) == pytest.approx((high - low) / 2)
    assert np.isnan(interval([1.0]))


class TestBootstrap:
    def test_error_is_the_closed_form_in_a_balanced_layout(self, rng):
        """Fails where deals of a user count as users, or the n - 1 is forgotten."""
        data = table(rng, users=8, everyone=True)
        own = mean_gains(data, "value", "A", rng).iloc[0]
        wide = data.pivot_table(index=["person"], columns="method", values="value")
        per_user = wide["A"] - wide["B"]
        expected = per_user.std(ddof=1) / np.sqrt(8)
        assert own["gain"] == pytest.approx(per_user.mean())
        assert own["half"] == pytest.approx(half_interval(expected, 8), rel=0.06)
        assert (own["users"], own["trials"]) == (8, 10)

    def test_error_is_that_of_the_users_who_are_there(self, rng):
        """A user without a time step is left out there, not counted as zero."""
        values = rng.normal(5, 1, (30, 3))
        values[:20, 1] = np.nan
        values[1:, 2] = np.nan
        found = errors(values, rng, resamples=6000)
        assert found[0] == pytest.approx(values[:, 0].std(ddof=1) / np.sqrt(30), rel=0.05)
        # How many of the ten a resample holds varies, too.
        assert found[1] == pytest.approx(values[20:, 1].std(ddof=1) / np.sqrt(10), rel=0.15)
        assert np.isnan(found[2])
        assert np.isnan(errors(values[:1], rng)).all()

    def test_intervals_cover_in_an_unbalanced_layout(self, rng):
        """With known effects of users: deals of a user taken for users would cover far less."""
        held = []
        for _ in range(100):
            (own,) = mean_gains(table(rng, own=0.4), "value", "A", rng).to_dict("records")
            held.append(abs(own["gain"] - GAIN.mean()) < own["half"])
        # Three standard errors of a share of 100; of rows taken for users .5 would be held.
        assert abs(np.mean(held) - 0.95) < 0.065


class TestGains:
    def test_are_paired_and_averaged_within_users(self, rng):
        data = table(rng)
        row = gains(data, "value", "A", rng).set_index("time_step").loc[1]
        own = data[data["time_step"] == 1].set_index(["trial", "person"])
        difference = own.loc[own["method"] == "A", "value"] - own.loc[own["method"] == "B", "value"]
        per_user = difference.groupby("person").mean()
        assert row["other"] == "B"
        assert row["gain"] == pytest.approx(per_user.mean())
        assert row["half"] == pytest.approx(interval(per_user), rel=0.06)
        assert row["users"] == 12

    def test_a_user_in_many_trials_is_one_user(self):
        rows = [
            {"study": "s", "trial": trial, "person": person, "time_step": 0, "method": method}
            | {"value": value if method == "A" else 0.0}
            for person, value, trials in (("often", 1.0, 9), ("once", -1.0, 1))
            for trial in range(trials)
            for method in ("A", "B")
        ]
        rng = np.random.default_rng(0)
        assert gains(pd.DataFrame(rows), "value", "A", rng)["gain"].tolist() == [0.0]
        assert mean_gains(pd.DataFrame(rows), "value", "A", rng)["gain"].tolist() == [0.0]

    def test_what_one_method_lacks_is_no_pair(self, rng):
        data = table(rng, users=4, everyone=True)
        data.loc[(data["method"] == "B") & (data["time_step"] == 2), "value"] = np.nan
        assert gains(data, "value", "A", rng)["time_step"].tolist() == [0, 1]
        assert gains(data[data["method"] == "B"], "value", "A", rng).empty


def test_means_by_step_are_over_users(rng):
    data = table(rng)
    rows = by_step(data, "value", rng).set_index(["method", "time_step"])
    own = data[(data["method"] == "A") & (data["time_step"] == 1)]
    means = own.groupby("person")["value"].mean()
    assert rows.loc[("A", 1), "users"] == 12
    assert rows.loc[("A", 1), "mean"] == pytest.approx(means.mean())
    assert rows.loc[("A", 1), "half"] == pytest.approx(interval(means), rel=0.06)


def test_a_tidy_row_holds_one_value(rng):
    data = table(rng).rename(columns={"value": "score"}).assign(other=np.nan)
    long = tidy(data, "score", "other")
    assert len(long) == len(data)
    assert list(long.columns[-2:]) == ["quantity", "value"]


def test_text():
    assert plus_minus(1.234, 0.5) == "1.23 ± 0.50"
    assert plus_minus(-0.004, 0.5) == "0.00 ± 0.50"
    assert plus_minus(1.234, float("nan")) == "1.23"
    assert plus_minus(float("nan"), 1.0) == ""
