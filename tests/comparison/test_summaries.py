"""Means, gains, intervals and verdicts: over distinct users, trials averaged within them."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import ttest_1samp
from sklearn.calibration import calibration_curve

from kem_pymc.comparison.summaries import (
    LEAST_TRIALS,
    LEAST_USERS,
    by_step,
    gains,
    interval,
    plus_minus,
    reliability,
    share_interval,
    tidy,
    verdict,
    verdicts,
)

STEPS = 3
#: By how much A is ahead at each time step, and on average.
GAIN = np.array([0.2, 0.0, -0.1])


def table(rng, users=12, deals=10, everyone=False):
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
    ahead = GAIN[frame["time_step"]] + rng.normal(0, 0.3, users)[frame["user"]]
    ahead += rng.normal(0, 0.2, len(frame))
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


class TestErrors:
    def test_error_is_the_closed_form(self, rng):
        """Fails where deals of a user count as users, or the n - 1 is forgotten."""
        data = table(rng, users=8, everyone=True)
        own = verdicts(data, "A", "value").iloc[0]
        wide = data.pivot_table(index=["person"], columns="method", values="value")
        per_user = wide["A"] - wide["B"]
        assert own["mean"] == pytest.approx(per_user.mean())
        assert own["half"] == pytest.approx(interval(per_user))
        assert (own["users"], own["trials"]) == (8, 10)

    def test_error_is_that_of_the_users_who_are_there(self, rng):
        """A user without a time step is left out there, not counted as zero."""
        data = table(rng, users=12, everyone=True)
        data.loc[(data["time_step"] == 1) & (data["user"].astype(int) < 8), "value"] = np.nan
        data.loc[(data["time_step"] == 2) & (data["user"] != "3"), "value"] = np.nan
        found = by_step(data, "value").query("method == 'A'").set_index("time_step")
        assert found["users"].tolist() == [12, 4, 1]
        there = data.query("method == 'A' and time_step == 1").groupby("person")["value"].mean()
        assert found.loc[1, "mean"] == pytest.approx(there.mean())
        assert found.loc[1, "half"] == pytest.approx(interval(there.dropna()))
        assert np.isnan(found.loc[2, "half"])


class TestGains:
    def test_are_paired_and_averaged_within_users(self, rng):
        data = table(rng)
        row = gains(data, "value", "A").set_index("time_step").loc[1]
        own = data[data["time_step"] == 1].set_index(["trial", "person"])
        difference = own.loc[own["method"] == "A", "value"] - own.loc[own["method"] == "B", "value"]
        per_user = difference.groupby("person").mean()
        assert row["other"] == "B"
        assert row["mean"] == pytest.approx(per_user.mean())
        assert row["half"] == pytest.approx(interval(per_user))
        assert row["users"] == 12

    def test_a_user_in_many_trials_is_one_user(self):
        rows = [
            {"study": "s", "trial": trial, "person": person, "time_step": 0, "method": method}
            | {"value": value if method == "A" else 0.0}
            for person, value, trials in (("often", 1.0, 9), ("once", -1.0, 1))
            for trial in range(trials)
            for method in ("A", "B")
        ]
        assert gains(pd.DataFrame(rows), "value", "A")["mean"].tolist() == [0.0]
        assert verdicts(pd.DataFrame(rows), "A", "value")["mean"].tolist() == [0.0]

    def test_what_one_method_lacks_is_no_pair(self, rng):
        data = table(rng, users=4, everyone=True)
        data.loc[(data["method"] == "B") & (data["time_step"] == 2), "value"] = np.nan
        assert gains(data, "value", "A")["time_step"].tolist() == [0, 1]
        assert gains(data[data["method"] == "B"], "value", "A").empty


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


class TestClasses:
    def test_shares_are_scikit_learns(self):
        """Of all points of a class, in fifths; rows without a next batch are left out."""
        rng = np.random.default_rng(2)
        p = rng.uniform(size=(60, 3)).round(3)
        y = (rng.uniform(size=p.shape) < p) + 4.0
        frame = pd.DataFrame({"study": "s", "method": "KEM", "person": np.arange(60) % 20})
        frame["observed"] = [str(each) for each in y.tolist()]
        frame["classes"] = [str({4: (1 - each).tolist(), 5: each.tolist()}) for each in p]
        last = frame.iloc[:5].assign(observed=np.nan, classes=np.nan)
        found = reliability(pd.concat([frame, last]))
        assert found["rows"].sum() == 2 * p.size
        for level, each in ((4, 1 - p), (5, p)):
            own = found[found["level"] == level]
            share, predicted = calibration_curve(
                y.ravel() == level, each.ravel(), n_bins=5, strategy="quantile"
            )
            np.testing.assert_allclose(own["share"], share)
            np.testing.assert_allclose(own["predicted"], predicted)
        alike = frame.assign(classes=str({5: [0.5] * 3}))  # all the same: one part
        assert len(reliability(alike)) == 1

    @pytest.mark.parametrize(("sd", "centre"), [(0.0, -1.5), (1.5, 0.0), (1.5, -4.0)])
    def test_intervals_cover_where_rows_of_users_are_alike(self, sd, centre):
        """600 tables of 20 users; fails where rows are counted as independent."""
        rng = np.random.default_rng(1)
        truth = expit(centre + sd * rng.normal(size=100_000)).mean()
        covered = []
        for _ in range(600):
            own = expit(centre + sd * rng.normal(size=20))
            person = np.repeat(np.arange(20), rng.integers(2, 9, 20))
            seen = (rng.uniform(size=len(person)) < own[person]).astype(float)
            low, high = share_interval(pd.Series(seen), pd.Series(person))
            covered.append(low <= truth <= high)
        assert 0.93 <= np.mean(covered) <= 0.99

    def test_a_single_user_has_no_interval(self):
        assert np.isnan(share_interval(pd.Series([0.0, 1.0]), pd.Series([1, 1]))).all()


TRIALS, USERS = 6, 20


def selections(gains, spread=0.002, users=USERS, trials=TRIALS):
    """Return KEM and Other with these mean gains by time step; users lie evenly around them."""
    around = spread * np.linspace(-1, 1, users)
    index = pd.MultiIndex.from_product(
        [range(trials), range(users), range(len(gains))], names=["trial", "user", "time_step"]
    )
    frame = index.to_frame(index=False).assign(study="s")
    gain = np.asarray(gains)[frame["time_step"]] + around[frame["user"]]
    frame["user"] = frame["person"] = frame["user"].astype(str)
    return pd.concat(
        [
            frame.assign(method="KEM", log_likelihood=gain),
            frame.assign(method="Other", log_likelihood=0.0),
        ],
        ignore_index=True,
    )


def found(*arguments, **options):
    table = selections(*arguments, **options)
    (row,) = verdicts(table, "KEM").to_dict("records")
    return row


@pytest.mark.parametrize(
    ("gains", "spread", "expected"),
    [
        # The mean, known to .001: half the interval is .0006 (spread .002).
        ([-0.024, -0.024], 0.002, "behind"),
        ([-0.018, -0.018], 0.002, "not behind"),
        ([-0.020, -0.020], 0.002, "not behind"),  # the interval isn't wholly below
        ([0.010, 0.010], 0.002, "ahead"),
        # Half the interval is .027 (spread .1).
        ([-0.010, -0.010], 0.1, "undecided"),
        ([0.020, 0.020], 0.1, "not behind"),  # its end is above -.02, and it holds 0
        ([0.040, 0.040], 0.1, "ahead"),
        ([-0.060, -0.060], 0.1, "behind"),
        # One time step, whatever the mean.
        ([0.200, -0.060], 0.002, "behind"),
        ([0.200, -0.048], 0.002, "ahead"),
        ([0.200, -0.060], 0.15, "behind"),
        ([0.400, -0.060], 0.25, "ahead"),  # half its interval is more than .06
    ],
)
def test_flips_where_it_should(gains, spread, expected):
    row = found(gains, spread)
    assert row["verdict"] == expected
    assert row["worst_step"] == int(np.argmin(gains))
    assert row["worst_gain"] == pytest.approx(min(gains))


def test_many_time_steps_are_bonferronis():
    """At 95 % the first step would be behind for certain; one of ten by chance is not enough."""
    steps = pd.DataFrame({"mean": [-0.06, *[0.1] * 9], "error": 0.025, "users": 40})
    assert verdict(0.08, 0.02, steps, 40, 10) == "ahead"
    assert verdict(0.08, 0.02, steps[:2], 40, 10) == "behind"


def test_says_nothing_from_little():
    """Fails where two trials of many users, or ten of two users, are taken for evidence."""
    assert found([-1.0], trials=2)["verdict"] == "2 trials are too few"
    assert found([-1.0], trials=1)["verdict"] == "1 trial is too few"
    assert found([-1.0], users=LEAST_USERS - 1)["verdict"] == "5 users are too few"
    assert found([-1.0], users=LEAST_USERS, trials=LEAST_TRIALS)["verdict"] == "behind"
