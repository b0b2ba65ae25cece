"""Tasks: a row for every user and time step, and what judges it."""

from dataclasses import replace

import numpy as np
import pytest

from kem_pymc.comparison import settings as given
from kem_pymc.comparison.runner import tasks_of
from kem_pymc.comparison.task import Task, run
from tests.tiny_study import make_cohort


def test_every_user_and_time_step_has_a_row(tiny, figure, done):
    table = done.selections(tasks_of(tiny, [figure]))
    counts = table.groupby(["method", "trial"]).size()
    assert (counts == 4 * 2).all()
    assert len(counts) == 2 * 2
    assert table["log_likelihood"].notna().all()
    assert set(table["truth"]) == {"LIN0 + PER0", "SE0"}


def test_the_last_step_has_no_next_batch(tiny, done):
    table = done.selections(tasks_of(tiny, [tiny.figures["kem-table2"]]))
    assert (table["log_likelihood"].isna() == (table["time_step"] == 2)).all()


def test_held_out_users_are_judged_by_their_next_batch(tiny, done):
    table = done.selections(tasks_of(tiny, [tiny.figures["kem-defaults"]]))
    last = table.groupby("study")["time_step"].transform("max")
    assert (table["log_likelihood"].isna() == (table["time_step"] == last)).all()


@pytest.mark.parametrize("method", ["ARD", "Two-level"])
def test_scores_with_a_transform_are_of_the_target_itself(tiny, method):
    """The logarithm's Jacobian and the target's unit are counted, for models of users as well."""
    logs = make_cohort(((4, 8),) * 4)
    raw = replace(logs, targets=tuple(np.exp(y) for y in logs.targets))
    given_methods = {"ARD": tiny.methods["ARD"], "Two-level": given.Method(learns="two-level")}
    made = {"methods": {method: given_methods[method]}, "sampling": tiny.sampling, "trial": 0}
    table = {"title": "t", "data": "table", "pool": ["SE0"], "judged": "next", "trials": 1}

    def task(cohort, transform):
        study = given.Study(**table, transform=transform)
        return Task("t", study, learns=given_methods[method].learns, cohort=cohort, **made)

    through, plain = task(raw, "log"), task(logs, None)
    found, expected = (run(own).selections for own in (through, plain))
    y = [np.log(raw.targets[raw.users.index(user)][4:8]).mean() for user in found["user"]]
    found, expected = found["log_likelihood"], expected["log_likelihood"]
    pilots = [np.concatenate(own.users().pilot.targets).std() for own in (through, plain)]
    np.testing.assert_allclose(found, expected - y + np.log(pilots[0] / pilots[1]), rtol=1e-8)
