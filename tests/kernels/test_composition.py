import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kem_pymc.kernels.base import base_kernels
from kem_pymc.kernels.composition import (
    Candidate,
    Composition,
    Factor,
    as_candidates,
)
from tests.refusals import refused

FACTORS = st.builds(Factor, st.sampled_from([k.name for k in base_kernels()]), st.integers(0, 30))
CANDIDATES = st.builds(  # CONST as well, and copies
    lambda factors, copy: Candidate(tuple(factors), copy),
    st.lists(FACTORS, max_size=4),
    st.sampled_from([1, 1, 1, 2, 12]),
)
PRODUCTS = CANDIDATES.filter(lambda candidate: candidate.factors)
COMPOSITIONS = st.lists(CANDIDATES, max_size=4).map(lambda c: Composition(tuple(c)))

parse = Composition.parse


class TestFactor:
    @given(FACTORS)
    def test_reads_what_it_prints(self, factor):
        assert Factor.parse(str(factor)) == factor

    @pytest.mark.parametrize(
        "text", ["", "SE", "0", "se0", "SE-1", "SE0.5", "SE 0", "SQ0", "WHITE"]
    )
    def test_unreadable(self, text):
        refused(lambda: Factor.parse(text), repr(text), "LIN", "SE0")

    def test_digits_of_the_name_stay_in_the_name(self):
        assert Factor.parse("MATERN320") == Factor("MATERN32", 0)
        assert Factor.parse(" SE12 ") == Factor("SE", 12)

    def test_unknown_base_kernel(self):
        refused(lambda: Factor("SQ", 0), "'SQ'")

    def test_negative_dimension(self):
        refused(lambda: Factor("SE", -1), "dimension is -1")

    def test_registered_kernel_reads_too(self, cosine):
        assert Factor.parse("COS3") == Factor(cosine.name, 3)


class TestCandidate:
    @given(CANDIDATES)
    def test_reads_what_it_prints(self, candidate):
        assert Candidate.parse(str(candidate)) == candidate

    @given(st.lists(FACTORS, min_size=1, max_size=4), st.randoms(use_true_random=False))
    def test_order_of_factors_does_not_matter(self, factors, random):
        shuffled = random.sample(factors, len(factors))
        one, other = Candidate(tuple(factors)), Candidate(tuple(shuffled))
        assert one == other
        assert hash(one) == hash(other)
        assert str(one) == str(other)

    @given(PRODUCTS, PRODUCTS)
    def test_product_has_the_factors_of_both(self, one, other):
        assert (one * other).factors == tuple(sorted(one.factors + other.factors))
        assert (one * other).is_interaction
        assert (one * other).dimensions == one.dimensions | other.dimensions

    @given(CANDIDATES)
    def test_hyperparameters_come_in_order_under_names_of_their_own(self, candidate):
        kernels = {k.name: k for k in base_kernels()}
        expected = [(None, "amplitude")]
        for factor in candidate.factors:
            expected += [(factor.base, kind) for kind in kernels[factor.base].hyperparameters]
        assert [(h.base, h.kind) for h in candidate.hyperparameters] == expected
        names = [h.name for h in candidate.hyperparameters]
        assert len(set(names)) == len(names)
        assert all(name.startswith(f"{candidate}.") for name in names)

    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("LIN0", ["LIN0.amplitude", "LIN0.shift"]),
            (
                "LIN0 x SE1",
                ["LIN0 x SE1.amplitude", "LIN0 x SE1.LIN0.shift", "LIN0 x SE1.SE1.lengthscale"],
            ),
            (
                "SE0 x SE0",
                [
                    "SE0 x SE0.amplitude",
                    "SE0 x SE0.SE0#1.lengthscale",
                    "SE0 x SE0.SE0#2.lengthscale",
                ],
            ),
        ],
    )
    def test_names_of_hyperparameters(self, text, names):
        assert [h.name for h in Candidate.parse(text).hyperparameters] == names

    @pytest.mark.parametrize("sign", ["x", "*"])
    def test_signs_of_a_product(self, sign):
        assert str(Candidate.parse(f" SE1 {sign}  LIN0")) == "LIN0 x SE1"

    def test_ard(self):
        ard = Candidate.parse("ARD", dimension=3)
        assert str(ard) == "SE0 x SE1 x SE2"
        assert ard.label(3) == "ARD"
        assert ard.label(4) == ard.label() == str(ard)
        assert Candidate.parse("SE0").label(1) == "SE0"

    def test_ard_without_dimension(self):
        refused(lambda: Candidate.parse("ARD"), "ARD", "dimension=")

    def test_outside_the_dimension(self):
        refused(lambda: Candidate.parse("LIN0 x SE2", dimension=2), "SE2", "0 to 1")

    def test_a_level_has_no_dimension_and_one_hyperparameter(self):
        level = Candidate.parse(" CONST ", dimension=2)
        assert level == Candidate()
        assert (str(level), level.label(1), level.label(2)) == ("CONST", "CONST", "CONST")
        assert not level.dimensions
        assert not level.is_interaction
        assert [(h.name, h.positive) for h in level.hyperparameters] == [("CONST.amplitude", True)]

    @pytest.mark.parametrize("text", ["CONST x SE0", "SE0 * CONST", "CONST x CONST", "CONST0"])
    def test_a_level_is_in_no_product(self, text):
        refused(lambda: Candidate.parse(text, dimension=2), repr(text), "no input", "CONST + SE0")


class TestComposition:
    @pytest.mark.parametrize(
        ("text", "printed"),
        [
            ("WHITE", "WHITE"),
            ("PER0 + LIN0 x SE1", "LIN0 x SE1 + PER0"),
            ("SE10+SE2", "SE2 + SE10"),
            ("SE0 + SE0", "SE0"),
            ("SE1 x SE0 + SE0 x SE1", "SE0 x SE1"),
            ("LIN0 + CONST", "CONST + LIN0"),
        ],
    )
    def test_prints_in_one_way(self, text, printed):
        assert str(parse(text)) == printed
        assert repr(parse(text)) == f"Composition({printed!r})"

    @given(COMPOSITIONS)
    def test_reads_what_it_prints(self, composition):
        assert parse(str(composition)) == composition

    @given(COMPOSITIONS, st.integers(2, 31))
    def test_reads_its_label(self, composition, dimension):
        composition = composition + Candidate.ard(dimension)
        label = composition.label(dimension)
        assert "ARD" in label
        largest = max(composition.dimensions | {dimension - 1})
        if largest < dimension:
            assert parse(label, dimension) == composition

    @given(st.lists(CANDIDATES, max_size=4), st.randoms(use_true_random=False))
    def test_order_and_repeats_do_not_matter(self, candidates, random):
        shuffled = random.sample(candidates * 2, 2 * len(candidates))
        one, other = Composition(tuple(candidates)), Composition(tuple(shuffled))
        assert one == other
        assert hash(one) == hash(other)
        assert len(one) == len(set(candidates)) == len(list(one))
        assert all(candidate in one for candidate in candidates)

    @given(st.lists(COMPOSITIONS, max_size=6), st.randoms(use_true_random=False))
    def test_sorts_whatever_the_order(self, compositions, random):
        ordered = sorted(compositions)
        assert sorted(random.sample(compositions, len(compositions))) == ordered
        assert [len(c) for c in ordered] == sorted(len(c) for c in compositions)

    @given(COMPOSITIONS, COMPOSITIONS)
    def test_comparison_is_total(self, one, other):
        assert [one < other, one == other, one > other].count(True) == 1
        assert (one <= other) == (one < other or one == other)

    @given(COMPOSITIONS, COMPOSITIONS)
    def test_sum_and_difference_are_those_of_sets(self, one, other):
        assert set(one + other) == set(one) | set(other)
        assert set(one - other) == set(one) - set(other)
        assert (one + other).dimensions == one.dimensions | other.dimensions

    def test_sums_of_candidates(self):
        se, lin = Candidate.parse("SE0"), Candidate.parse("LIN1")
        assert se + lin == parse("SE0 + LIN1")
        assert se + parse("LIN1") == parse("SE0") + lin
        assert parse("SE0 + LIN1") - se == parse("LIN1")
        assert se not in parse("LIN1 + SE0 x SE0")

    def test_hyperparameters_come_candidate_by_candidate(self):
        one, other = Candidate.parse("LIN0"), Candidate.parse("LIN0 x SE0")
        assert (one + other).hyperparameters == one.hyperparameters + other.hyperparameters

    @pytest.mark.parametrize("text", ["", "SE0 +", "WHITE + SE0", "SE0 SE1", "SE0*SE1"])
    def test_unreadable(self, text):
        refused(lambda: parse(text), "SE0")


class TestAsCandidates:
    def test_keeps_the_order(self):
        mixed = ["SE1", Candidate.parse("LIN0"), "ARD"]
        assert [str(c) for c in as_candidates(mixed, 2)] == ["SE1", "LIN0", "SE0 x SE1"]

    @pytest.mark.parametrize("again", ["LIN0 x SE1", "SE1 x LIN0"])
    def test_repeated(self, again):
        refused(lambda: as_candidates(["LIN0 x SE1", "SE0", again], 2), "LIN0 x SE1", "twice")


def test_a_pickled_composition_has_no_hash():
    """Fails where the hash goes along: that of the same text differs between processes."""
    composition = Composition.parse("LIN0 + PER0")
    assert hash(composition) == hash(Composition.parse("PER0 + LIN0"))
    back = pickle.loads(pickle.dumps(composition))
    assert back == composition
    assert vars(back) == {"candidates": composition.candidates}
