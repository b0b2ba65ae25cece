"""Probabilities of evolutions by hand, overall and by chain."""

import numpy as np
import pytest

from kem_pymc.diagnostics.diagnosis import diagnose
from kem_pymc.diagnostics.edges import edge_table
from kem_pymc.diagnostics.quantities import Draws
from tests.diagnostics.conftest import mixing, posterior_of


def test_edges_have_the_probability_that_evolutions_have():
    # Two users, two steps. Chain 0: WHITE -> LIN0 -> LIN0. Chain 1: WHITE -> SE0, and in every
    # second draw the first user goes on to LIN0 instead of staying.
    inclusion = np.zeros((2, 4, 2, 2, 3), dtype=bool)
    inclusion[0, ..., 0] = True
    inclusion[1, ..., 2] = True
    inclusion[1, ::2, 0, 1] = [True, False, False]
    tree = posterior_of(inclusion, np.tile(np.arange(4).reshape(2, 2), (2, 4, 1, 1)))
    table = edge_table(Draws.of(tree)).set_index(["parent", "child"])
    root = table.loc[("WHITE", "LIN0")]
    assert root["probability"] == pytest.approx(0.5 * 2 / 3)
    assert (root["lower"], root["upper"]) == pytest.approx((0, 2 / 3))
    assert (root["chain 0"], root["chain 1"]) == pytest.approx((2 / 3, 0))
    assert (root["datasets"], root["occurrence"]) == (1, 0.5)
    assert root["difference"] == pytest.approx(2 / 3)
    left = table.loc[("SE0", "LIN0")]
    assert left["probability"] == pytest.approx(0.5 * 1 / 3)
    assert np.isnan(left["chain 0"])
    assert float(diagnose(tree).edges["difference"].max()) == pytest.approx(2 / 3)


def test_graphs_are_not_different_for_what_few_draws_have():
    # In four draws of a hundred of one chain everybody is elsewhere.
    inclusion = np.zeros((2, 100, 30, 2, 3), dtype=bool)
    inclusion[..., 0] = True
    inclusion[0, :4, :, :, 1] = True
    inclusion[0, :4, :, 1, 0] = False
    tree = posterior_of(inclusion, np.tile(np.arange(60).reshape(30, 2), (2, 100, 1, 1)))
    found = diagnose(tree)
    table = found.edges.set_index(["parent", "child"])
    rare = table.loc[("LIN0 + PER0", "PER0")]
    assert rare["datasets"] == pytest.approx(30 * 4 / 200)
    assert rare["chain 0"] == pytest.approx(30 / 31)
    assert rare["difference"] == pytest.approx(0.04 * 30 / 31)
    assert found.warnings == ()


def test_edges_use_the_alpha_of_every_draw():
    # One user, one step, one cluster.
    inclusion = np.ones((2, 3, 1, 1, 3), dtype=bool)
    alpha = np.array([[0.5, 1, 2], [3, 4, 5]])
    tree = posterior_of(inclusion, np.zeros((2, 3, 1, 1), dtype=int), concentration=alpha)
    table = edge_table(Draws.of(tree))
    assert table["probability"].tolist() == pytest.approx([np.mean(1 / (alpha + 1))])
    assert table["chain 1"].tolist() == pytest.approx([np.mean(1 / (alpha[1] + 1))])


def test_edges_skip_time_steps_that_a_user_lacks():
    inclusion, assignment = mixing(users=2, steps=3, draws=5)
    assignment[:, :, 1, 1:] = -1
    table = edge_table(Draws.of(posterior_of(inclusion, assignment)))
    assert table["datasets"].sum() == pytest.approx(4)
