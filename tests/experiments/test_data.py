"""Users of each trial: who is a pilot user, who is held out, what new users share."""

from dataclasses import replace

import numpy as np
import pytest

from experiments import settings as given
from kem_pymc.comparison.data import SPLITS, load, split
from kem_pymc.comparison.runner import tasks_of
from kem_pymc.comparison.task import run
from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError
from tests.experiments.conftest import replaced
from tests.tiny_study import make_cohort


def test_pilot_users_are_held_out_in_turn(tiny):
    tasks = tasks_of(tiny, [replaced(tiny.figures["kem-defaults"], folds=4, studies=["tiny"])])
    tasks = [replace(tasks[0], trial=trial) for trial in range(8)]
    for drawn in (0, 1):
        pilot = replace(tasks[0], folds=None, trial=drawn).users().pilot
        parts = [task.users() for task in tasks[4 * drawn : 4 * drawn + 4]]
        assert sorted(u for part in parts for u in part.test.users) == sorted(pilot.users)
        for part in parts:
            assert set(part.pilot.users) == set(pilot.users) - set(part.test.users)
            (user,) = part.test.users
            own = pilot.targets[pilot.users.index(user)]
            np.testing.assert_array_equal(part.test.targets[0], own)


@pytest.mark.parametrize("folds", [1, 5])
def test_there_are_folds_for_pilot_users(tiny, folds):
    (task, *_) = tasks_of(tiny, [replaced(tiny.figures["kem-defaults"], folds=folds)])
    with pytest.raises(InputError, match=f"4 pilot users can't be held out in {folds} folds"):
        task.users()


def test_new_users_share_what_pilot_users_share():
    study = given.default().studies["slopes"]
    pilot, test = load(study, np.random.default_rng(1))
    assert (pilot.n_users, test.n_users) == (16, 30)
    np.testing.assert_array_equal(pilot.truth.shared_test, test.truth.shared_test)
    assert pilot.truth.shared_test.any()
    assert pilot.targets[0][0] != test.targets[0][0]


def test_an_unknown_data_set(tiny):
    study = tiny.studies["tiny"].model_copy(update={"data": "tea"})
    task = replace(tasks_of(tiny, tiny.figures.values())[0], study=study)
    with pytest.raises(InputError, match="no data set 'tea'"):
        run(task)


def test_a_split_is_drawn_again_until_every_feature_varies(monkeypatch):
    """Fails where a pilot cohort without a feature's other value is used, or no end is seen."""
    cohort = make_cohort(((1, 2),) * 6)
    flat = [
        np.column_stack([x[:, 0], np.full(2, float(u < 1))]) for u, x in enumerate(cohort.inputs)
    ]
    cohort = replace(cohort, inputs=tuple(flat), features=("x", "rare"))
    for seed in range(6):
        pilot, test = split(cohort, np.random.default_rng(seed))
        assert cohort.users[0] in pilot.users
        assert not set(pilot.users) & set(test.users)
    never = replace(cohort, inputs=tuple(np.column_stack([x[:, 0], np.ones(2)]) for x in flat))
    drawn = []
    monkeypatch.setattr(Cohort, "split", lambda self, _: drawn.append(1) or (self, self))
    split(never, np.random.default_rng(0))
    assert len(drawn) == SPLITS
