"""A verdict flips where it should, and isn't given where little is known."""

import numpy as np
import pandas as pd
import pytest

from kem_pymc.comparison.verdicts import LEAST_TRIALS, LEAST_USERS, verdict, verdicts

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
    (row,) = verdicts(table, "KEM", np.random.default_rng(0)).to_dict("records")
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
    steps = pd.DataFrame({"gain": [-0.06, *[0.1] * 9], "error": 0.025, "users": 40})
    assert verdict(0.08, 0.02, steps, 40, 10) == "ahead"
    assert verdict(0.08, 0.02, steps[:2], 40, 10) == "behind"


def test_says_nothing_from_little():
    """Fails where two trials of many users, or ten of two users, are taken for evidence."""
    assert found([-1.0], trials=2)["verdict"] == "2 trials are too few"
    assert found([-1.0], trials=1)["verdict"] == "1 trial is too few"
    assert found([-1.0], users=LEAST_USERS - 1)["verdict"] == "5 users are too few"
    assert found([-1.0], users=LEAST_USERS, trials=LEAST_TRIALS)["verdict"] == "behind"


def test_true_gains_are_found():
    """With power: of 20 studies where KEM loses .15, and of 20 where it gains .15, nearly all."""
    rng = np.random.default_rng(8)
    said = {-0.15: [], 0.15: []}
    for gain, words in said.items():
        for _ in range(20):
            table = selections([gain, gain], 0.0, users=30)
            own = rng.normal(0, 0.2, 30)[table["user"].astype(int)]
            by_chance = rng.normal(0, 0.2, len(table))
            ours = table["method"] == "KEM"
            table.loc[ours, "log_likelihood"] += (own + by_chance)[ours]
            words.append(verdicts(table, "KEM", rng)["verdict"].item())
    assert said[0.15].count("ahead") > 16
    assert said[-0.15].count("behind") > 16
    assert "behind" not in said[0.15]
    assert "ahead" not in said[-0.15]
