import numpy as np
import pytest

from kem_pymc.kernels.composition import Composition
from kem_pymc.search.grammar import Grammar
from kem_pymc.search.hyperpriors import Hyperpriors
from kem_pymc.search.strategies import KEPT, NEIGHBOURS, WALKS, Boms, Greedy, Random
from tests.search.conftest import evaluated

X = np.linspace(0, 1, 30)[:, None]


def run(strategy, score, budget):
    """Expressions that a strategy proposes, given a function that scores them."""
    proposed = []
    for _ in range(budget):
        if not (proposals := strategy.propose()):
            break
        (expression,) = proposals
        assert expression not in proposed
        proposed.append(expression)
        strategy.observe([evaluated(expression, score(expression))])
    return proposed


def boms(grammar, seed=0, x=X, draws=16):
    return Boms(grammar, x, Hyperpriors(), np.random.default_rng(seed), draws)


def likes_rhythms(expression):
    """Score of an expression: periodic ones are better, and large ones worse."""
    bases = [factor.base for candidate in expression for factor in candidate.factors]
    return 3.0 * ("PER" in bases) + 1.0 * ("LIN" in bases) - 0.3 * len(bases)


class TestGreedy:
    def test_evaluates_base_kernels_then_the_neighbours_of_the_best(self):
        grammar = Grammar()
        first = {*grammar.starts}
        proposed = run(Greedy(grammar, np.random.default_rng(0)), likes_rhythms, 60)
        assert {*proposed[:4]} == first
        around = {*grammar.neighbours(grammar.parse("PER0"))} - first
        assert {*proposed[4 : 4 + len(around)]} == around
        best = max(proposed[: 4 + len(around)], key=likes_rhythms)
        assert str(best) in ("LIN0 + PER0", "LIN0 x PER0")
        new = {*grammar.neighbours(best)} - {*proposed[: 4 + len(around)]}
        assert {*proposed[4 + len(around) :][: len(new)]} <= new

    def test_expands_the_next_best_where_no_neighbour_is_better(self):
        grammar = Grammar(1, ("SE", "LIN"))
        smaller = run(Greedy(grammar, np.random.default_rng(0)), lambda e: -len(str(e)), 30)
        assert len(smaller) == 30


class TestBoms:
    def test_begins_with_se(self):
        assert str(boms(Grammar(1, ("LIN", "SE"))).propose()[0]) == "SE0"
        assert str(boms(Grammar(1, ("LIN", "PER"))).propose()[0]) == "LIN0"
        after_the_constant = boms(Grammar(1, ("LIN", "SE")))
        after_the_constant.observe([evaluated("WHITE", 0.0)])
        assert str(after_the_constant.propose()[0]) == "SE0"

    def test_finds_what_explains_the_data_sooner_than_random_walks(self):
        """Scores fall with the distance from a model's prior: the process can learn that."""
        grammar = Grammar(3)
        x = np.random.default_rng(0).uniform(size=(30, 3))
        target = boms(grammar, 9, x, 104)
        wanted = target.distances.embed(grammar.parse("LIN1 x PER2"))

        def score(expression):
            return -target.distances.between(target.distances.embed(expression), wanted)[0]

        best = {"boms": [], "random": []}
        for seed in range(3):
            for name, strategy in {
                "boms": boms(grammar, seed, x, 104),
                "random": Random(grammar, np.random.default_rng(seed)),
            }.items():
                best[name].append(max(map(score, run(strategy, score, 15))))
        assert np.mean(best["boms"]) > np.mean(best["random"])

    def test_all_neighbours_of_the_best_become_candidates_and_few_are_kept(self):
        grammar = Grammar(8)
        strategy = boms(grammar, x=np.random.default_rng(0).uniform(size=(30, 8)))
        best = grammar.parse("PER0 x SE1 + LIN2")
        neighbours = {*grammar.neighbours(best)}
        assert len(neighbours) > NEIGHBOURS
        strategy.observe([evaluated(best, 1.0)])
        admitted = {*strategy.candidates}
        assert len(neighbours & admitted) >= NEIGHBOURS
        while strategy.around:
            strategy.observe([evaluated(*strategy.propose(), 0.0)])
            assert len(strategy.candidates) <= KEPT + NEIGHBOURS + WALKS
            admitted |= {*strategy.candidates}
        assert neighbours <= admitted


STRATEGIES = {
    "greedy": lambda grammar: Greedy(grammar, np.random.default_rng(0)),
    "boms": boms,
    "random": lambda grammar: Random(grammar, np.random.default_rng(0)),
}


@pytest.mark.parametrize("kind", STRATEGIES)
def test_searches_end_where_there_are_no_more_expressions(kind):
    strategy = STRATEGIES[kind](Grammar(1, ("SE",)))
    assert {*map(str, run(strategy, len, 10))} == {"SE0", "SE0 + SE0 #2"}


@pytest.mark.parametrize("kind", STRATEGIES)
def test_evaluations_of_other_expressions_are_used(kind):
    strategy = STRATEGIES[kind](Grammar())
    given = Grammar().parse("LIN0 x PER0 + RQ0 x SE0")
    strategy.observe([evaluated(given, 10.0), evaluated(Composition.parse("SE0"), 0.0)])
    proposed = run(strategy, likes_rhythms, 6)
    assert given not in proposed
    assert Composition.parse("SE0") not in proposed
