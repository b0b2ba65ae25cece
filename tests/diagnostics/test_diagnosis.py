from dataclasses import replace

import numpy as np
import pandas as pd

from kem_pymc.diagnostics.diagnosis import _quantities, diagnose
from tests.diagnostics.conftest import levels, mixing, posterior_of


def test_agreement_leaves_nothing_to_warn_of(mixed):
    found = diagnose(mixed)
    assert found.warnings == ()
    assert found.modes[0].chains == (0, 1, 2, 3)
    assert found.acceptance.loc["add"].tolist() == [0.25] * 4
    assert found.acceptance.loc["path"].isna().all()
    assert found.factorisations == 8000
    assert "No warnings" in repr(found)


def test_few_draws_and_dead_chains_are_reported():
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
    final = diagnose(posterior_of(*mixing(chains=3)), planned_chains=4, final=tree).warnings
    assert final[1].startswith("1 of 4 chains of final kernels have no draws")
    assert final[2].startswith("Chain 1 of final kernels never moved")


def test_failed_factorisations_are_reported():
    counts = {"factorisations": np.full((4, 200), 100)}
    few = posterior_of(*mixing(), **counts, failed_factorisations=np.zeros((4, 200), int))
    many = posterior_of(*mixing(), **counts, failed_factorisations=np.ones((4, 200), int))
    assert not any("factorisations" in w for w in diagnose(few).warnings)
    assert any("800 of 80000 factorisations failed" in w for w in diagnose(many).warnings)


def test_few_effective_draws_and_different_graphs_are_reported():
    inclusion, assignment = mixing(chains=2, draws=100)
    inclusion[0, ..., 1] = np.arange(100)[:, None, None] < 90  # one long stay in each state
    inclusion[1, ..., 1] = np.arange(100)[:, None, None] < 10
    found = diagnose(posterior_of(inclusion, assignment))
    graph = "different graphs: they differ in noise only -> LIN(week)"
    assert any(graph in warning for warning in found.warnings)
    about_r_hat, about_ess = found.notes
    assert "R-hat of" in about_r_hat
    assert "fewer than 200 effective draws" in about_ess


def test_a_quantity_that_no_page_shows_is_noted(mixed):
    """Fails where one R-hat of hundreds makes a warning of numbers that chains agree in."""
    good = {"quantity": "inclusion", "user": "7", "time_step": 0, "candidate": "SE0"}
    table = pd.DataFrame([good | {"r_hat": 1.0, "ess_bulk": 500, "ess_tail": 500}] * 100)
    table.loc[0, ["r_hat", "ess_tail"]] = 1.2, 50
    about_r_hat, about_ess = _quantities(replace(diagnose(mixed), convergence=table))
    assert "R-hat of 1 of 100 single quantities" in about_r_hat
    assert "for inclusion SE(week) of user 7 at time step 1." in about_r_hat
    assert (
        "1 of 100 single quantities have fewer than 200 effective draws, of 800 draws in"
        in about_ess
    )
