"""The model card: numbers by hand, and limits where they hold."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from kem_pymc.evolutions.evolutions import DISAGREE
from kem_pymc.gp.calibration import NORMAL, Calibration, Outcome, share_interval
from kem_pymc.plots.report import card
from tests.evolutions.by_hand import evolutions


def test_data_are_those_of_the_pilot_users():
    """Fails where draws are counted for users, or scaled values shown for the users' own."""
    learned = evolutions()
    first = [c.count for c in learned.clusters if c.draw == 0]
    rows = dict(card.data(learned))
    assert "Pilot users" not in rows
    assert rows["Data sets: users and their time steps"] == str(sum(first))
    assert rows["Feature week"] == "0.1 to 7.3"
    assert rows["Target steps"] == "mean 0.3333, sd 0.2857"
    assert rows["Hash of the content"] == learned.content_hash
    whole = replace(learned, final=learned)
    assert dict(card.data(whole))["Pilot users"] == str(sum(first))


def test_coverage_is_a_mean_over_users():
    """Of two users, one of whom has three times the rows of the other. Fails with rows' weights."""
    outcomes = [
        *(Outcome(0, step, 2, 1, 2, 2, 0.0, 0.0, 0.0) for step in (1, 2, 3)),
        Outcome(1, 1, 2, 0, 1, 2, 0.0, 0.0, 0.0),
    ]
    found = card.coverage(evolutions(held_out=tuple(outcomes))).set_index("interval")
    assert found["within"].to_dict() == {"50 %": 0.25, "80 %": 0.75, "95 %": 1.0}
    low, high = share_interval(np.array([0.5, 0.0]))
    assert (found.loc["50 %", "low 95 %"], found.loc["50 %", "high 95 %"]) == (low, high)


@pytest.mark.parametrize("inside", [0, 3, 20])
def test_intervals_of_shares_are_clopper_and_pearsons(inside):
    """Of persons with one row each, but for Student's t for the normal quantile."""
    values = np.repeat([1.0, 0.0], [inside, 20 - inside])
    expected = binomtest(inside, 20).proportion_ci(0.95, "exact")
    np.testing.assert_allclose(share_interval(values), expected, atol=0.03)


def test_limits_hold_where_they_are_said():
    learned = evolutions(settings={"feedback": "cut", DISAGREE: "The chains differ in x."})
    said = " ".join(card.limits(replace(learned, final=learned)))
    assert "The chains differ in x." in said
    assert "pilot users. With fewer than 10" in said
    assert "aren't calibrated" in said
    outcome = Outcome(0, 1, 2, 2, 2, 2, 0.0, 0.0, 0.0)
    binary = card.card(evolutions(held_out=(outcome,)))
    assert "0 or 1 aren't calibrated" in " ".join(binary["limits"])
    assert "recorded" not in " ".join(binary["limits"])
    assert binary["coverage"] == ""
    sure = evolutions(calibration=Calibration(tuple(NORMAL), 30))
    assert card.card(replace(sure, held_out=(outcome,)))["coverage"]
    said = " ".join(card.limits(sure))
    assert "differ" not in said
    assert "fewer" not in said
    assert "further ahead" in said
