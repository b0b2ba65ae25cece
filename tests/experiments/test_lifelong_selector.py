"""Lifelong optimisation of compositions: evidence, earlier tasks, and independence of the order."""

import itertools
from functools import partial

import cloudpickle
import numpy as np
import pytest

from experiments.lifelong.selector import LifelongSelector
from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.evidence import laplace
from kem_pymc.gp.fit import fit
from kem_pymc.gp.objective import Objective
from kem_pymc.kernels.composition import Composition
from kem_pymc.lifelong import sampler
from kem_pymc.lifelong.lbo import LBO
from kem_pymc.selection.scorer import study_prior
from tests.experiments.searches import SMALL, TABLE
from tests.selection.pilots import user


@pytest.fixture(scope="module", autouse=True)
def small():
    """Networks that are trained quickly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler, "LBO", partial(LBO, units=6, iterations=2))
        yield


@pytest.fixture(scope="module")
def learned():
    users = [user(20, periodic=3.0), user(14)]
    pilot = Cohort(
        users=(0, 1),
        inputs=tuple(x for x, _ in users),
        targets=tuple(y for _, y in users),
        ends=tuple((len(y),) for _, y in users),
        features=("week",),
    )
    return LifelongSelector.learn(pilot, SMALL, TABLE, budget=5)


def test_a_budget_for_all_compositions_finds_the_largest_evidence():
    x, y = user(25, periodic=3.0)
    table = TABLE.without_parent().compile(SMALL)
    exact = {}
    for size in range(4):
        for chosen in itertools.combinations(SMALL.candidates, size):
            where = Coordinates(SMALL, Composition(chosen))
            objective = Objective(where, x, y, study_prior(table, where, Composition()))
            starts = np.random.default_rng(0).normal(0, 1, (40, len(where)))
            exact[where.composition] = laplace(objective, fit(objective, starts, 10))[1].value
    selection = LifelongSelector(SMALL, TABLE, budget=20, runs=6).select(x, y)
    assert len({row.composition for row in selection.considered}) == 8
    best = max(exact, key=exact.__getitem__)
    assert selection.composition == best
    weights = np.exp(np.array([exact[row.composition] for row in selection.considered]))
    found = np.array([row.weight for row in selection.considered])
    np.testing.assert_allclose(found, weights / weights.sum(), atol=0.02)


def test_pilot_users_are_the_first_tasks(learned):
    assert [len(task.values) for task in learned.tasks] == [5, 5]
    x, y = user(12)
    learned.select(x, y)
    assert len(learned.tasks) == 2  # a selection changes nothing


def test_selections_are_the_same_in_any_order_and_process(learned):
    (x, y), (x2, y2) = user(12), user(16, periodic=3.0)
    first = learned.select(x, y)
    learned.select(x2, y2)
    for again in (learned, cloudpickle.loads(cloudpickle.dumps(learned))):
        assert [row.score for row in again.select(x, y).considered] == [
            row.score for row in first.considered
        ]


def test_the_last_composition_is_evaluated():
    """And WHITE if there is none; with two evaluations the other one is random."""
    x, y = user(12)
    selector = LifelongSelector(SMALL, TABLE, budget=2)
    for candidate in SMALL.candidates:
        found = selector.select(x, y, str(candidate)).considered
        assert Composition((candidate,)) in {row.composition for row in found}
    assert Composition() in {row.composition for row in selector.select(x, y).considered}


def test_what_is_refused():
    with pytest.raises(InputError, match=r"budget is 1\. Give a whole number of 2"):
        LifelongSelector(SMALL, TABLE, budget=1)
    with pytest.raises(InputError, match=r"budget is 2\.5"):
        LifelongSelector(SMALL, TABLE, budget=2.5)
    selector = LifelongSelector(SMALL, TABLE)
    with pytest.raises(InputError, match="SE7"):
        selector.select([1.0, 2.0], [1.0, 2.0], "SE7")
