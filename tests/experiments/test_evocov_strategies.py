"""Baselines of EvoCov on kernels whose BIC is given, in place of a fit."""

import numpy as np

from experiments.evocov.strategies import GoWithTheFirst, RandomSearch
from kem_pymc.search.evocov.strategies import PsdCheck
from tests.search.evocov.test_strategies import fitted


def test_go_with_the_first_keeps_the_better_and_leaves_out_the_worst():
    rng = np.random.default_rng(1)
    strategy = GoWithTheFirst(PsdCheck(1, rng), rng, climbers=3, mutations=2)
    first = fitted(strategy.propose(), [10, 20, 30])
    strategy.observe(first)
    strategy.observe(fitted(strategy.propose(), [15, 12, 30]))
    assert [own.bic for own in strategy.population] == [10, 12, 30]
    assert strategy.population[0] is first[0]
    assert strategy.population[2] is first[2]
    sizes = []
    while proposed := strategy.propose():
        sizes.append(len(proposed))
        strategy.observe(fitted(proposed, len(proposed) * [100]))
    assert sizes == [3, 2, 2, 1, 1]
    assert strategy.population == [first[0]]


def test_random_search_proposes_kernels_that_pass():
    rng = np.random.default_rng(2)
    check = PsdCheck(1, rng)
    proposed = RandomSearch(check, rng, size=5).propose()
    assert len(proposed) == 5
    assert all(check(kernel.tree) for kernel in proposed)
