"""With lines only, and variances given, the model is lme4's, to rounding errors."""

import numpy as np
import pytest

import kem_pymc as kem
from kem_pymc.population import PopulationPosterior
from tests.population.trial import cohort_of, trial

# lmer(y ~ arm * tc + base + (tc | user)) of lme4 1.1-31 on the trial, with tc the week less its
# mean over rows: sds of level, slope and noise, and their correlation, by REML.
LEVEL, SLOPE, CORRELATION, NOISE = 2.504890386824, 0.4580973084, -0.76939337297, 1.385496560958

#: Estimates and standard errors of lme4, by question.
CONTRAST = -1.18935812613, 1.76947407333  # placebo - high at the mean week
LOW = -1.20411423443, 1.98628775955  # low - high at the mean week
LAST = 1.91620967077, 1.43471186737  # placebo - high in week 5
WEEK = -1.542572314490, 0.164080286549  # slope, averaged over rows
BASE = -0.0186746632779, 0.0735894440420
MEAN = 20.95788518893, 1.06325727478  # of high in week 5, at the mean base

#: Predicted deviations of the first users: level at the mean week, and slope (ranef).
USERS = [
    (-1.773757532071, 0.2380563180908),
    (-0.101078590997, -0.0022066676757),
    (1.505941434392, -0.4815790670371),
]


@pytest.fixture(scope="module")
def at_reml(mixed):
    """The posterior given REML's variances."""
    sd, week = mixed.target_sd, mixed.shared.feature("week").sd
    draws = {
        "personal level.sd": np.array([LEVEL / sd]),
        "personal week.sd": np.array([SLOPE * week / sd]),
        "personal week.correlation": np.array([CORRELATION]),
        "noise.sd": np.array([NOISE / sd]),
    }
    return PopulationPosterior(mixed, draws, np.ones(1), -np.inf, np.nan)


def test_estimates_and_standard_errors_are_those_of_lme4(at_reml):
    """A wrong contrast, centring or prior variance would be off by 1e-4 of a standard error."""
    pairs = at_reml.comparisons("arm").set_index("contrast")
    last = at_reml.comparisons("arm", over={"week": [5]}).set_index("contrast")
    found = {
        CONTRAST: pairs.loc["placebo - high"],
        LOW: pairs.loc["low - high"],
        LAST: last.loc["placebo - high"],
        WEEK: at_reml.slopes().iloc[0],
        BASE: at_reml.slopes("base").iloc[0],
    }
    for (estimate, error), row in found.items():
        assert abs(row["estimate"] - estimate) < 1e-5 * error
        assert row["sd"] == pytest.approx(error, rel=1e-5)
        assert row["high_95"] - row["estimate"] == pytest.approx(1.959963985 * error, rel=1e-5)
    curve = at_reml.predictions("arm", {"week": [5]}).set_index("group").loc["high"]
    assert curve["mean"] == pytest.approx(MEAN[0], abs=1e-5 * MEAN[1])
    assert curve["high_95"] - curve["mean"] == pytest.approx(1.959963985 * MEAN[1], rel=1e-5)


def test_users_deviations_are_those_of_lme4(at_reml):
    table = at_reml.users().set_index("user")
    for u, (level, line) in enumerate(USERS):
        row = table.loc[f"u{u:02d}"]
        assert (row["level"], row["line"]) == pytest.approx((level, line), abs=1e-5)


def test_a_users_curve_is_that_of_the_group_plus_the_users_own(at_reml):
    """Exact for lines: predictions for a user differ from the arm's by level and line."""
    at = {"week": [0.0, 5.0]}
    model = at_reml.model
    base = model.cohort.inputs[0][0, 2]
    own = at_reml.predictions(over=at, user="u00")["mean"].to_numpy()
    arm = at_reml.predictions("arm", at).set_index("group").loc["placebo", "mean"].to_numpy()
    arm = arm + BASE[0] * (base - np.concatenate(model.cohort.inputs)[:, 2].mean())
    week = model.shared.feature("week").mean
    level, line = USERS[0]
    assert own - arm == pytest.approx(level + line * (np.array([0, 5]) - week), abs=1e-5)


def test_the_answer_does_not_depend_on_how_the_arm_is_coded():
    """Two arms as words, swapped words, truth values, 0/1 and 1/2 give the same contrast."""
    table = trial()
    table = table[table["arm"] != "low"]
    found = []
    for high, placebo in (("high", "placebo"), ("z", "a"), (True, False), (0, 1), (1, 2)):
        arm = table["arm"].map({"high": high, "placebo": placebo})
        posterior = kem.PopulationModel(cohort_of(table.assign(arm=arm))).fit()
        row = posterior.comparisons("arm").iloc[0]
        later, earlier = sorted((high, placebo), reverse=True)
        assert row["contrast"] == f"{later} - {earlier}"
        ends = row[["low_95", "estimate", "high_95"]].to_numpy(dtype=float)
        found.append(ends if placebo == later else -ends[::-1])
    assert np.ptp(found, axis=0) == pytest.approx(np.zeros(3), abs=1e-6)
