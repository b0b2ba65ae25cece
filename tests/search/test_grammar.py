import numpy as np
import pytest

from kem_pymc.search.grammar import Grammar, canonical
from tests.refusals import refused

TWO = Grammar(1, ("SE", "LIN"))


def labels(expressions):
    return {str(expression) for expression in expressions}


class TestNeighbours:
    def test_of_a_base_kernel(self):
        assert labels(TWO.neighbours(TWO.parse("SE0"))) == {
            "LIN0",
            "SE0 + SE0 #2",
            "LIN0 + SE0",
            "LIN0 x SE0",
        }

    def test_of_a_sum_and_a_product(self):
        # Every rule by hand; SE x SE is SE again, which makes some results equal.
        assert labels(TWO.neighbours(TWO.parse("LIN0 + LIN0 x SE0"))) == {
            # S + B
            "LIN0 + LIN0 x SE0 + SE0",
            # S x B, for the whole expression
            "LIN0 x SE0 + LIN0 x SE0 #2",
            "LIN0 x LIN0 + LIN0 x LIN0 x SE0",
            # S x B, for one product
            "LIN0 + LIN0 x LIN0 x SE0",
            "LIN0 x LIN0 + LIN0 x SE0",
            # A + B, for one factor of LIN0 x SE0
            "LIN0 + LIN0 x LIN0 + LIN0 x SE0",
            "LIN0 + LIN0 x SE0 + LIN0 x SE0 #2",
            # A to B
            "LIN0 x SE0 + SE0",
            "LIN0 + SE0",
            "LIN0 + LIN0 x LIN0",
        }

    @pytest.mark.parametrize("dimension", [1, 3])
    def test_are_sorted_different_canonical_and_never_the_expression(self, dimension):
        grammar = Grammar(dimension)
        expression = grammar.random_walk(np.random.default_rng(1))
        found = grammar.neighbours(expression)
        assert list(found) == sorted(set(found))
        assert expression not in found
        for one in found:
            assert grammar.parse(str(one)) == one


class TestCanonicalForm:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("PER0 x LIN0 + SE0", "SE0 + LIN0 x PER0"),
            ("SE0 x SE0 x LIN0", "LIN0 x SE0"),
            ("SE0 + SE0", "SE0 + SE0 #2"),
            ("SE0 #7 + SE0 #3", "SE0 + SE0 #2"),
            ("LIN0 + LIN0 + SE0", "SE0 + LIN0"),
            ("LIN0 x LIN0 + LIN0 x LIN0", "LIN0 x LIN0 + LIN0 x LIN0 #2"),
        ],
    )
    def test_equal_expressions_are_one(self, one, other):
        grammar = Grammar()
        assert grammar.parse(one) == grammar.parse(other)
        assert hash(grammar.parse(one)) == hash(grammar.parse(other))

    def test_different_expressions_are_not(self):
        grammar = Grammar(2)
        texts = ["LIN0 x LIN0", "LIN0", "SE0 x SE1", "SE0", "SE0 + SE0", "RQ0 x RQ0"]
        assert len({grammar.parse(text) for text in texts}) == len(texts)

    def test_copies_have_hyperparameters_of_their_own(self):
        names = [h.name for h in canonical([TWO.factors[:1]] * 2).hyperparameters]
        assert names == [
            "SE0.amplitude",
            "SE0.lengthscale",
            "SE0 #2.amplitude",
            "SE0 #2.lengthscale",
        ]


class TestRandomWalks:
    def test_number_of_steps_is_geometric(self, monkeypatch):
        """Its mean is 3; a walk that ended a step early or late would have a mean of 2 or 4."""
        steps = []
        made = Grammar._made
        monkeypatch.setattr(Grammar, "_made", lambda *a: steps.append(1) or made(*a))
        rng = np.random.default_rng(0)
        for _ in range(2000):
            TWO.random_walk(rng)
        assert len(steps) / 2000 == pytest.approx(3, abs=4 * np.sqrt(6 / 2000))

    def test_have_no_more_than_two_copies(self):
        rng = np.random.default_rng(1)
        ends = [TWO.random_walk(rng) for _ in range(500)]
        assert max(candidate.copy for end in ends for candidate in end) == 2


class TestFirstCandidates:
    def test_all_within_two_steps(self):
        found = TWO.within(2, 500, np.random.default_rng(0))
        one = {n for start in TWO.starts for n in TWO.neighbours(start)} | {*TWO.starts}
        two = {n for expression in one for n in TWO.neighbours(expression)} | one
        assert set(found) == two

    def test_at_most_so_many_the_nearest_first(self):
        grammar = Grammar(13)
        found = grammar.within(2, 500, np.random.default_rng(0))
        assert len(found) == len(set(found)) == 500
        assert {*grammar.starts} <= {*found}
        assert len(grammar.within(2, 10, np.random.default_rng(0))) == 10


class TestRefusals:
    def test_grammars(self):
        refused(lambda: Grammar(1, ("SQ",)), "'SQ'")
        refused(lambda: Grammar(1, ()), "no base kernels")
        refused(lambda: Grammar(1, ("SE", "SE")), "SE is given twice")
        refused(lambda: Grammar(0), "dimension is 0")

    def test_expressions(self):
        refused(lambda: TWO.parse("PER0"), "PER0 isn't in the grammar", "SE, LIN")
        refused(lambda: TWO.parse("SE1"), "SE1", "number of dimensions is 1")
        refused(lambda: TWO.parse("CONST + SE0"), "constant mean")
        refused(lambda: TWO.parse("WHITE"), "WHITE")
        refused(lambda: TWO.parse(""), "''")


class TestChanges:
    def test_of_a_base_kernel(self):
        grammar = Grammar(1, ("SE", "LIN"), changes=True)
        new = labels(grammar.neighbours(grammar.parse("SE0"))) - labels(
            Grammar(1, ("SE", "LIN")).neighbours(grammar.parse("SE0"))
        )
        assert new == {
            "AFTER0@1 x SE0 + BEFORE0@1 x SE0",
            "AFTER0@1 x LIN0 + BEFORE0@1 x SE0",
            "AFTER0@1 x SE0 + BEFORE0@1 x LIN0",
            "INSIDE0@1 x SE0 + OUTSIDE0@1 x SE0",
            "INSIDE0@1 x LIN0 + OUTSIDE0@1 x SE0",
            "INSIDE0@1 x SE0 + LIN0 x OUTSIDE0@1",
        }

    def test_numbers_are_in_order_of_appearance(self):
        grammar = Grammar(changes=True)
        one = grammar.parse("AFTER0@7 x SE0 + BEFORE0@7 x PER0 + INSIDE0@3")
        assert str(one) == "AFTER0@1 x SE0 + BEFORE0@1 x PER0 + INSIDE0@2"
        for made in grammar.neighbours(one)[::50]:
            assert grammar.parse(str(made)) == made

    def test_only_where_they_were_asked_for(self):
        Grammar(changes=True)
        refused(lambda: TWO.parse("AFTER0@1 x SE0"), "AFTER0@1 isn't in the grammar")
