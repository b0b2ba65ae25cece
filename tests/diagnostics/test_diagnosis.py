from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

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
    message = "\n".join(diagnose(posterior_of(inclusion, assignment)).warnings)
    assert "Chains disagree: R-hat of" in message
    assert "fewer than 200 effective draws" in message
    assert "different graphs: they differ in noise only -> LIN0" in message


@pytest.mark.parametrize(
    ("user", "quantities", "serious"), [("7", 100, False), ("7", 10, True), ("", 100, True)]
)
def test_one_quantity_of_many_is_no_reason_to_warn(mixed, user, quantities, serious):
    """Fails where a single R-hat of hundreds is a warning, or that of the log joint is none."""
    good = {"quantity": "inclusion", "user": "7", "time_step": 0, "candidate": "SE0"}
    table = pd.DataFrame([good | {"r_hat": 1.0, "ess_bulk": 500, "ess_tail": 500}] * quantities)
    table.loc[0, ["user", "r_hat", "ess_tail"]] = user, 1.2, 50
    said = dict(_quantities(replace(diagnose(mixed), convergence=table)))
    about_r_hat, about_ess = said
    assert "1 of" in about_ess
    assert not said[about_ess]
    assert f"R-hat of 1 of {quantities} quantities" in about_r_hat
    assert about_r_hat.startswith("Chains disagree") == said[about_r_hat] == serious
