"""R-hat and effective sample sizes against ArviZ's, of constants too; chains at one level."""

import arviz as az
import numpy as np
import pytest

from kem_pymc.diagnostics.convergence import (
    RHAT,
    convergence,
    find_modes,
    scalar_r_hats,
)
from kem_pymc.diagnostics.diagnosis import diagnose
from kem_pymc.diagnostics.quantities import Draws
from tests.diagnostics.conftest import levels, mixing, posterior_of


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
    found = diagnose(posterior_of(inclusion, assignment))
    table = found.convergence
    stuck = table["quantity"].isin(["size", "mean size", "inclusion"])
    assert np.isinf(table.loc[stuck, "r_hat"]).all()
    assert table.loc[table["quantity"] == "clusters", "r_hat"].isna().all()  # always 2
    assert found.summary.loc["inclusion", "r_hat_beyond"] == 4


def test_r_hats_of_scalars_are_finite_or_left_out():
    inclusion, assignment = mixing()
    tree = posterior_of(inclusion, assignment, log_joint=levels(0, 0, 0, 5))
    found = scalar_r_hats(tree)
    assert found["log_joint"] > RHAT
    assert found["log_joint"] == pytest.approx(
        float(az.rhat(tree["posterior"]["log_joint"].values))
    )
    assert "n_clusters" not in found  # always two
    assert scalar_r_hats(tree.isel(chain=[0])) == {}


def test_too_few_draws_or_chains_have_no_r_hat():
    """Fails where one chain is taken for chains that agree."""
    few = convergence(Draws.of(posterior_of(*mixing(draws=3))))
    assert few[["r_hat", "ess_bulk", "ess_tail"]].isna().all(axis=None)
    assert few["mean"].notna().all()
    single = convergence(Draws.of(posterior_of(*mixing(chains=1, draws=50))))
    assert single["r_hat"].isna().all()
    assert single.loc[single["quantity"] == "log joint", "ess_bulk"].notna().all()


def test_modes_are_chains_at_one_level():
    inclusion, assignment = mixing()
    tree = posterior_of(inclusion, assignment, log_joint=levels(0, -20, 0.1, -20.1))
    modes = find_modes(Draws.of(tree))
    assert [mode.chains for mode in modes] == [(0, 2), (1, 3)]
    assert modes[0].log_joint == pytest.approx(0, abs=0.2)
    found = diagnose(tree)
    assert "2 modes: chains 0, 2 at log joint" in found.notes[0]
    assert found.warnings == ()  # the graph and the parts are those of every chain


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
