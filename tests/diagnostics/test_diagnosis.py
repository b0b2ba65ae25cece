from io import StringIO

import arviz as az
import numpy as np
import pytest
from rich.console import Console

from kem_pymc.diagnostics.convergence import RHAT, convergence, scalar_r_hats, summary
from kem_pymc.diagnostics.diagnosis import diagnose
from kem_pymc.diagnostics.edges import edge_agreement, edge_table
from kem_pymc.diagnostics.modes import composition_distance, find_modes
from kem_pymc.diagnostics.quantities import Draws
from kem_pymc.errors import InputError
from tests.diagnostics.conftest import mixing, posterior_of


def levels(*means, draws=200):
    """Return log joint densities (K, draws) of unit variance around a mean for each chain."""
    noise = np.random.default_rng(3).normal(size=(len(means), draws))
    return noise + np.array(means)[:, None]


def test_convergence_is_arvizs_of_what_varies(mixed):
    table = convergence(Draws.of(mixed))
    # Three numbers, then size, noise and PER0 of four datasets; LIN0 and SE0 are settled.
    assert table["quantity"].tolist()[:3] == ["log joint", "clusters", "mean size"]
    assert len(table) == 3 + 3 * 4
    inclusion = table[table["quantity"] == "inclusion"]
    assert set(inclusion["candidate"]) == {"PER0"}
    row = inclusion[(inclusion["user"] == "u1") & (inclusion["time_step"] == "0")].iloc[0]
    values = mixed["posterior"]["inclusion"].sel(user="u1", time_step=0, candidate="PER0").values
    assert row["r_hat"] == pytest.approx(float(az.rhat(values.astype(float))))
    assert row["ess_bulk"] == pytest.approx(float(az.ess(values.astype(float))))
    noise = np.log(mixed["posterior"]["noise"].sel(user="u0", time_step=1).values)
    row = table[(table["quantity"] == "log noise") & (table["time_step"] == "1")].iloc[0]
    assert row["ess_bulk"] == pytest.approx(float(az.ess(noise, method="bulk")))


def test_chains_that_never_change_but_differ_are_infinitely_apart():
    inclusion, assignment = mixing(chains=2)
    inclusion[0, ..., 1], inclusion[1, ..., 1] = False, True
    table = convergence(Draws.of(posterior_of(inclusion, assignment)))
    stuck = table["quantity"].isin(["size", "mean size", "inclusion"])
    assert np.isinf(table.loc[stuck, "r_hat"]).all()
    assert table.loc[table["quantity"] == "clusters", "r_hat"].isna().all()  # always 2
    assert summary(table).loc["inclusion", "r_hat_beyond"] == 4


def test_agreement_leaves_nothing_to_warn_of(mixed):
    found = diagnose(mixed)
    assert found.warnings == ()
    assert found.modes[0].chains == (0, 1, 2, 3)
    assert found.acceptance.loc["add"].tolist() == [0.25] * 4
    assert found.acceptance.loc["path"].isna().all()
    assert found.factorisations == 8000
    assert "No warnings" in repr(found)


def test_modes_are_chains_at_one_level():
    inclusion, assignment = mixing()
    tree = posterior_of(inclusion, assignment, log_joint=levels(0, -20, 0.1, -20.1))
    modes = find_modes(Draws.of(tree))
    assert [mode.chains for mode in modes] == [(0, 2), (1, 3)]
    assert modes[0].log_joint == pytest.approx(0, abs=0.2)
    message = diagnose(tree).warnings
    assert "2 modes: chains 0, 2 at log joint" in message[0]
    assert "kem.diagnostics.stack" in message[0]


def test_no_mode_holds_chains_that_are_apart():
    # Each is 0.8 from the next, so the ends are 1.6 apart.
    tree = posterior_of(*mixing(chains=3), log_joint=levels(0, 0.8, 1.6))
    modes = find_modes(Draws.of(tree))
    assert len(modes) == 2
    assert not any({0, 2} <= set(mode.chains) for mode in modes)


def test_outlying_draws_do_not_hide_modes():
    log_joint = levels(0, -20)
    log_joint[:, ::50] -= 5000
    modes = find_modes(Draws.of(posterior_of(*mixing(chains=2), log_joint=log_joint)))
    assert [mode.chains for mode in modes] == [(0,), (1,)]


def test_few_draws_and_dead_chains_are_told():
    log_joint = levels(0, 0, 0, draws=20)
    log_joint[1] = -5.0
    log_joint[2, 7] = -np.inf
    tree = posterior_of(*mixing(chains=3, draws=20), log_joint=log_joint)
    message = "\n".join(diagnose(tree, planned_chains=4).warnings)
    assert "1 of 4 chains have no draws" in message
    assert "Chain 1 never moved" in message
    assert "Chain 2 failed" in message
    assert "3 x 20 draws are too few" in message
    assert "Chain 0" not in message


def test_failed_factorisations_are_told():
    counts = {"factorisations": np.full((4, 200), 100)}
    few = posterior_of(*mixing(), **counts, failed_factorisations=np.zeros((4, 200), int))
    many = posterior_of(*mixing(), **counts, failed_factorisations=np.ones((4, 200), int))
    assert not any("factorisations" in w for w in diagnose(few).warnings)
    assert any("800 of 80000 factorisations failed" in w for w in diagnose(many).warnings)


def test_few_effective_draws_and_different_graphs_are_told():
    inclusion, assignment = mixing(chains=2, draws=100)
    inclusion[0, ..., 1] = np.arange(100)[:, None, None] < 90  # one long stay in each state
    inclusion[1, ..., 1] = np.arange(100)[:, None, None] < 10
    message = "\n".join(diagnose(posterior_of(inclusion, assignment)).warnings)
    assert "Chains disagree: R-hat of" in message
    assert "fewer than 200 effective draws" in message
    assert "Chains learned different graphs: noise only -> LIN0" in message


def test_distance_counts_candidates():
    inclusion, assignment = mixing(chains=3, draws=10)
    inclusion[..., 1] = False
    inclusion[1, ..., 1] = True  # one candidate more, at all datasets
    inclusion[2, :, 0, :, 2] = True  # one more, for one user of two
    inclusion[2, :5, :, :, 0] = False  # in one half of the draws
    distance = composition_distance(Draws.of(posterior_of(inclusion, assignment)))
    np.testing.assert_allclose(distance, [[0, 1, 1], [1, 0, 2], [1, 2, 1]])


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
    assert edge_agreement(table.reset_index()) == pytest.approx(2 / 3)


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
    assert not any("different graphs" in warning for warning in found.warnings)


def test_edges_use_the_alpha_of_every_draw():
    # One user, one step, one cluster.
    inclusion = np.ones((2, 3, 1, 1, 3), dtype=bool)
    alpha = np.array([[0.5, 1, 2], [3, 4, 5]])
    tree = posterior_of(inclusion, np.zeros((2, 3, 1, 1), dtype=int), concentration=alpha)
    table = edge_table(Draws.of(tree))
    assert table["probability"].tolist() == pytest.approx([np.mean(1 / (alpha + 1))])
    assert table["chain 1"].tolist() == pytest.approx([np.mean(1 / (alpha[1] + 1))])


def test_a_learned_concentration_is_a_quantity(mixed):
    assert "concentration" not in diagnose(mixed).convergence["quantity"].tolist()
    alpha = np.random.default_rng(0).gamma(2, size=(4, 200))
    alpha[3] += 5
    tree = posterior_of(*mixing(), concentration=alpha)
    row = diagnose(tree).convergence.set_index("quantity").loc["concentration"]
    assert row["mean"] == pytest.approx(alpha.mean())
    assert row["r_hat"] > RHAT


def test_a_learned_concentration_has_to_be_there():
    tree = posterior_of(*mixing(), concentration=np.ones((4, 200)))
    tree["posterior"] = tree["posterior"].to_dataset().drop_vars("concentration")
    with pytest.raises(InputError, match="lacks the concentration"):
        diagnose(tree)


def test_edges_skip_time_steps_that_a_user_lacks():
    inclusion, assignment = mixing(users=2, steps=3, draws=5)
    assignment[:, :, 1, 1:] = -1
    table = edge_table(Draws.of(posterior_of(inclusion, assignment)))
    assert table["datasets"].sum() == pytest.approx(4)


def test_it_shows_itself(mixed):
    console = Console(width=100, file=StringIO())
    console.print(diagnose(mixed))
    text = console.file.getvalue()
    assert "inclusion" in text
    assert "R-hat" in text


def test_something_else_is_refused(mixed):
    tree = mixed.copy()
    tree["posterior"] = tree["posterior"].to_dataset().drop_vars("noise")
    with pytest.raises(InputError, match="lacks variables"):
        diagnose(tree)


def test_r_hats_of_scalars_are_known_or_none():
    inclusion, assignment = mixing()
    tree = posterior_of(inclusion, assignment, log_joint=levels(0, 0, 0, 5))
    found = scalar_r_hats(tree)
    assert found["log_joint"] > RHAT
    assert found["log_joint"] == pytest.approx(
        float(az.rhat(tree["posterior"]["log_joint"].values))
    )
    assert found["n_clusters"] is None  # always two
    single = tree.isel(chain=[0])
    assert set(scalar_r_hats(single).values()) == {None}
