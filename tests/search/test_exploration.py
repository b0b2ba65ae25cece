"""Whole searches, short ones."""

import numpy as np
import pytest

from kem_pymc._system.executors import Processes
from kem_pymc.search.evocov.fitting import Fitter
from kem_pymc.search.evocov.individual import Offspring
from kem_pymc.search.evocov.strategies import Evolution, PsdCheck
from kem_pymc.search.evocov.tree import Tree
from kem_pymc.search.exploration import explore
from tests.search.evocov.trees import SE


def searched(executor=None, budget=40, seed=0, **options):
    x = np.linspace(0, 1, 30)[:, None]
    y = np.sin(20 * x[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=30)
    rng = np.random.default_rng(seed)
    strategy = Evolution(PsdCheck(1, rng), rng, size=12, selected=3)
    arrived = []
    fitter = Fitter(x, y, 30, seed)
    found = explore(strategy, fitter, budget, executor, arrived.append, **options)
    assert {own.to_json() for own in arrived} >= {own.to_json() for own in found}
    return [own.to_json() for own in found]


def test_seed_decides_and_the_budget_is_kept():
    found = searched()
    assert len(found) == 40
    assert searched() == found
    assert searched(seed=1) != found
    assert searched(budget=15) == found[:15]


def test_a_kernel_that_is_proposed_again_has_other_starts():
    """Else the second fit of a selected kernel would be in vain."""

    class Repeating:
        def propose(self):
            return [Offspring.of(Tree.parse(SE))]

        def observe(self, fitted):
            pass

    x = np.linspace(0, 1, 10)[:, None]
    one, two = explore(Repeating(), Fitter(x, np.sin(9 * x[:, 0]), 1), 2)
    assert (one.natural != two.natural).all()


class Late:
    """An executor whose first block arrives last."""

    def map_unordered(self, call, items):
        for number in reversed(range(len(items))):
            yield number, call(items[number])


def test_results_do_not_depend_on_the_order_in_which_they_arrive():
    assert searched(Late()) == searched()


@pytest.mark.integration
def test_processes_find_what_this_process_does():
    executor = Processes(2)
    try:
        assert searched(executor) == searched()
    finally:
        executor.close()
