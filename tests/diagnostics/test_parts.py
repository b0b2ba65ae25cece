"""Probabilities of parts at users' last time steps, by hand."""

import arviz as az
import numpy as np
import pytest

from kem_pymc.diagnostics.convergence import RHAT
from kem_pymc.diagnostics.diagnosis import describe, diagnose, disagreements
from kem_pymc.diagnostics.parts import headline, part_table
from kem_pymc.diagnostics.quantities import Draws
from tests.diagnostics.conftest import mixing, posterior_of

LIN, PER, SE = range(3)


def draws(inclusion, assignment):
    return Draws.of(posterior_of(inclusion, assignment))


@pytest.fixture
def modes_say_noise():
    """Three users, two time steps, one of them without the second: noise only is every mode.

    Of ten draws at a user's last time step four have no part; LIN0 and PER0 are in three each.
    """
    inclusion = np.zeros((2, 10, 3, 2, 3), dtype=bool)
    assignment = np.broadcast_to(np.arange(2), (2, 10, 3, 2)).copy()
    assignment[:, :, 2, 1] = -1
    for user, last in ((0, 1), (1, 1), (2, 0)):
        inclusion[:, 4:7, user, last, LIN] = True
        inclusion[:, 7:, user, last, PER] = True
    return inclusion, assignment


def test_probabilities_are_over_draws_at_each_users_last_time_step(modes_say_noise):
    """Catches reading modes, the last column for users who lack it, and sums over features."""
    table = part_table(draws(*modes_say_noise)).set_index("name")
    assert table["kind"].tolist() == ["part", "part", "part", "feature", "nothing"]
    assert table.loc["LIN0", "probability"] == pytest.approx(0.3)
    assert table.loc["SE0", "probability"] == 0
    assert table.loc["week", "probability"] == pytest.approx(0.6)
    assert table.loc["noise only", "probability"] == pytest.approx(0.4)
    assert table.loc["SE0", ["above 0.9", "below 0.1"]].tolist() == [0, 3]
    assert table.loc["week", ["above 0.9", "below 0.1"]].tolist() == [0, 0]


def test_the_headline_names_parts_where_modes_have_none(modes_say_noise):
    found = diagnose(posterior_of(*modes_say_noise))
    message = " ".join(headline(found.parts))
    mean = "as a mean over users, is 0.30 for a straight line in week, 0.30 for a rhythm in week."
    assert mean in message
    assert "Whatever its shape, it is 0.60 for some part in week." in message
    assert "noise only, without any part, has probability 0.40." in message
    assert message in repr(found).replace("\n", " ")
    assert "beyond what all users share" in headline(found.parts, shares=True)[0]


def test_final_kernels_are_those_of_their_own_posterior(modes_say_noise):
    """Fails where the parts are those of another posterior than new users' kernels are from."""
    inclusion, assignment = modes_say_noise
    final = np.broadcast_to([False, False, True], (2, 10, 3, 1, 3))
    seats = np.zeros((2, 10, 3, 1), dtype=int)
    ends = posterior_of(final, seats)
    table = diagnose(posterior_of(inclusion, assignment), final=ends).parts.set_index("name")
    assert table.loc["SE0", ["probability", "above 0.9"]].tolist() == [1, 3]


def test_the_verdict_is_that_of_final_kernels_too():
    """Fails where "the chains agree" is said of a posterior from which no probability is.

    In the posterior of final kernels one chain has SE0 in most draws and the other in few.
    """
    rng = np.random.default_rng(2)
    final = np.zeros((2, 200, 2, 1, 3), dtype=bool)
    final[..., SE] = rng.random((2, 200, 1, 1)) < np.array([0.8, 0.3])[:, None, None, None]
    ends = posterior_of(final, np.zeros((2, 200, 2, 1), dtype=int))
    found = diagnose(posterior_of(*mixing(chains=2)), final=ends)
    (warning,) = found.warnings
    assert "which parts matter: SE(week)" in warning
    table = found.convergence.set_index("quantity")
    row = found.convergence[table.index == "final inclusion"].iloc[1]
    assert row["r_hat"] == pytest.approx(float(az.rhat(final[:, :, 1, 0, SE].astype(float))))
    assert (table.loc["inclusion", "r_hat"] < RHAT).all()
    assert found.summary.loc["final inclusion", "r_hat_beyond"] == 2
    assert describe(row, ["week"]) == "final inclusion SE(week) of user u1"


def test_without_likely_parts_that_is_what_is_said(modes_say_noise):
    inclusion, assignment = modes_say_noise
    inclusion[:, 1:] = False
    message = headline(part_table(draws(inclusion, assignment)))
    assert "no part is likely" in message[0]
    assert "has probability 1.00" in message[-1]


def test_chains_that_disagree_in_parts_are_reported_with_what_helps():
    inclusion, assignment = mixing(chains=2)
    assert disagreements(diagnose(posterior_of(inclusion, assignment))) == []
    # Of the graph both have one edge; at the last time step one chain has PER0, the other not.
    inclusion[0, ..., PER], inclusion[1, ..., PER] = True, False
    found = diagnose(posterior_of(inclusion, assignment))
    graph, parts = disagreements(found)
    assert "different graphs: they differ in noise only -> LIN(week)" in graph
    assert "which parts matter: PER(week) (0.00 to 1.00, R-hat inf, ESS -)." in parts
    assert "kem.diagnostics.stack" in graph
    assert all("--draws" in text for text in found.warnings[:2])
    # Both chains have it in half of the draws, but change once: their means agree by chance.
    inclusion[0, ..., PER] = (np.arange(200) < 100)[:, None, None]
    inclusion[1, ..., PER] = (np.arange(200) >= 100)[:, None, None]
    (parts,) = disagreements(diagnose(posterior_of(inclusion, assignment)))
    row = part_table(draws(inclusion, assignment)).set_index("name").loc["PER0"]
    assert row["ess"] == pytest.approx(float(az.ess(inclusion[..., 0, 1, PER].astype(float))))
    assert f"PER(week) (0.50 to 0.50, R-hat {row['r_hat']:.2f}, ESS {row['ess']:.0f})" in parts
    few = posterior_of(inclusion[:, :20], assignment[:, :20])
    assert disagreements(diagnose(few)) == []
