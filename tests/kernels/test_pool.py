import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kem_pymc.kernels.base import BUILT_IN, KINDS, base_kernel, base_kernels
from kem_pymc.kernels.composition import Candidate, Composition, Factor
from kem_pymc.kernels.pool import CandidatePool
from tests.refusals import refused

DIMENSION = 4
FACTORS = st.builds(
    Factor, st.sampled_from([k.name for k in base_kernels()]), st.integers(0, DIMENSION - 1)
)
CANDIDATES = st.lists(FACTORS, max_size=3).map(lambda f: Candidate(tuple(f)))
SMALL = CandidatePool(["LIN0", "PER0", "SE0"])
POOLS = st.lists(CANDIDATES, min_size=1, max_size=6, unique=True).map(
    lambda candidates: CandidatePool(candidates, DIMENSION)
)


class TestFromBase:
    def test_synthetic_study(self):
        pool = CandidatePool.from_base(["LIN", "PER", "SE"], dimension=1, interactions=True)
        assert len(pool) == 8
        assert pool.names == [
            "LIN0",
            "PER0",
            "SE0",
            "LIN0 x LIN0",
            "LIN0 x PER0",
            "LIN0 x SE0",
            "PER0 x PER0",
            "PER0 x SE0",
        ]

    def test_ard_comes_last_where_there_are_several_dimensions(self):
        assert CandidatePool.from_base(["SE", "LIN"], 2).names == [
            "SE0",
            "LIN0",
            "SE1",
            "LIN1",
            "ARD",
        ]
        assert CandidatePool.from_base(["SE"], 2, ard=False).names == ["SE0", "SE1"]

    def test_ard_is_there_once(self):
        assert CandidatePool.from_base(["SE"], 1, ard=True).names == ["SE0"]
        assert CandidatePool.from_base(["SE"], 2, interactions=True).names == ["SE0", "SE1", "ARD"]

    def test_a_level_is_there_once_and_in_no_product(self):
        names = CandidatePool.from_base(["CONST", "LIN"], 2, interactions=True, ard=False).names
        assert names == ["CONST", "LIN0", "LIN1", "LIN0 x LIN0", "LIN0 x LIN1", "LIN1 x LIN1"]
        assert CandidatePool.from_base(["CONST"], 3, ard=False).names == ["CONST"]

    def test_interactions_span_dimensions(self):
        names = CandidatePool.from_base(["LIN", "SE"], 2, interactions=True, ard=False).names
        # Ten pairs of four factors, without SE0 x SE0 and SE1 x SE1.
        assert len(names) == 4 + 10 - 2
        assert "LIN1 x SE0" in names
        assert "LIN1 x LIN1" in names


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: CandidatePool.from_base(["SE", "SQ"]), ["'SQ'"]),
        (lambda: CandidatePool([]), ["empty"]),
        (lambda: CandidatePool(["SE0"], 0), ["dimension is 0"]),
        (lambda: CandidatePool(["SE0"], -1), ["dimension is -1"]),
        (lambda: CandidatePool(["SE1"]), ["SE1"]),  # outside the dimension
        (lambda: CandidatePool(["CONST x SE0"]), ["CONST x SE0", "Write CONST alone"]),
        (lambda: CandidatePool(["ARD", "SE1 x SE0"], 2), ["twice"]),
        (lambda: SMALL.inclusion(Composition.parse("SE0 + RQ0")), ["RQ0", "PER0"]),
        (lambda: SMALL.unconstrained({"SE1.amplitude": 1.0}), ["'SE1.amplitude'"]),
        *(
            (lambda v=v: SMALL.unconstrained({"SE0.lengthscale": v}), ["SE0.lengthscale", str(v)])
            for v in (0.0, -1.0, math.nan)
        ),
    ],
)
def test_refused(make, words):
    refused(make, *words)


class TestLayout:
    def test_of_a_small_pool(self):
        layout = CandidatePool(["SE2", "PER1 x LIN0", "ARD"], 3).layout
        lin, per, se = 0, 1, 2
        # Hyperparameters: a l | a c l p | a l l l
        for name, expected in {
            "factor_start": [0, 1, 3, 6],
            "factor_base": [se, lin, per, se, se, se],
            "factor_dimension": [2, 0, 1, 0, 1, 2],
            "factor_hyper": [1, 3, 4, 7, 8, 9],
            "factor_size": [1, 1, 2, 1, 1, 1],
            "hyper_start": [0, 2, 6, 10],
        }.items():
            got = getattr(layout, name)
            assert got.dtype == np.int64
            assert got.tolist() == expected, name
        assert np.flatnonzero(~layout.positive).tolist() == [3]

    @given(POOLS)
    def test_points_at_the_hyperparameters_by_that_name(self, pool):
        layout, names = pool.layout, [h.name for h in pool.hyperparameters]
        assert len(set(names)) == len(names) == layout.hyper_start[-1] == len(layout.positive)
        for c, candidate in enumerate(pool):
            assert names[layout.hyper_start[c]] == f"{candidate}.amplitude"
            own = range(layout.factor_start[c], layout.factor_start[c + 1])
            assert len(own) == len(candidate.factors)
            for f, factor in zip(own, candidate.factors, strict=True):
                kernel = base_kernel(factor.base)
                assert base_kernels()[layout.factor_base[f]] is kernel
                assert layout.factor_dimension[f] == factor.dimension
                first = layout.factor_hyper[f]
                own_places = pool.hyperparameters[first : first + layout.factor_size[f]]
                assert tuple(h.kind for h in own_places) == kernel.hyperparameters
                assert all(h.base == factor.base for h in own_places)
        assert layout.positive.tolist() == [KINDS[h.kind] for h in pool.hyperparameters]

    def test_registering_moves_nothing(self, request):
        before = CandidatePool(["LIN0", "MATERN520"]).layout
        request.getfixturevalue("cosine")
        after = CandidatePool(["LIN0", "MATERN520", "COS0"]).layout
        assert after.factor_base[:2].tolist() == before.factor_base.tolist()
        assert after.factor_base[2] == len(base_kernels()) - 1


class TestInclusion:
    POOL = CandidatePool(["SE2", "PER1 x LIN0", "ARD"], 3)

    @pytest.mark.parametrize("bits", range(8))
    def test_round_trip(self, bits):
        row = np.array([bits >> c & 1 for c in range(3)], dtype=bool)
        composition = self.POOL.composition(row)
        assert len(composition) == row.sum()
        got = self.POOL.inclusion(composition)
        assert got.dtype == np.bool_
        assert got.tolist() == row.tolist()

    def test_active_places_are_those_of_the_candidates_that_are_in(self):
        composition = Composition.parse("SE2 + ARD", 3)
        active = self.POOL.active(self.POOL.inclusion(composition))
        names = {h.name for h, on in zip(self.POOL.hyperparameters, active, strict=True) if on}
        assert names == {h.name for h in composition.hyperparameters}


class TestValues:
    @given(POOLS, st.integers(0, 2**32))
    def test_round_trip(self, pool, seed):
        rng = np.random.default_rng(seed)
        composition = pool.composition(rng.random(len(pool)) < 0.5)
        values = {
            h.name: rng.lognormal(0, 2) if h.positive else rng.normal(0, 2)
            for h in composition.hyperparameters
        }
        vector = pool.unconstrained(values)
        named = pool.named(vector, composition)
        assert named.keys() == values.keys()
        assert all(math.isclose(named[name], values[name], rel_tol=1e-14) for name in values)
        assert np.isnan(vector).tolist() == (~pool.active(pool.inclusion(composition))).tolist()

    def test_logs_of_positive_kinds_and_values_of_shifts(self):
        values = {"LIN0.amplitude": 2.0, "LIN0.shift": -0.5, "PER0.period": 5.0}
        vector = SMALL.unconstrained(values)
        expected = [math.log(2), -0.5, np.nan, np.nan, math.log(5), np.nan, np.nan]
        np.testing.assert_array_equal(vector, expected)


class TestValue:
    def test_pools_are_equal_when_order_and_dimension_are(self):
        one = CandidatePool(["SE0", "LIN0 x SE0"])
        same = CandidatePool(["SE0", "SE0 x LIN0"])
        assert one == same
        assert hash(one) == hash(same)
        assert one != CandidatePool(["LIN0 x SE0", "SE0"])
        assert one != CandidatePool(["SE0", "LIN0 x SE0"], 2)
        assert one != ["SE0", "LIN0 x SE0"]

    def test_prints_the_papers_names(self):
        assert repr(CandidatePool(["SE0", "ARD"], 2)) == (
            "CandidatePool(['SE0', 'ARD'], dimension=2)"
        )
        assert [str(c) for c in CandidatePool(["SE0", "ARD"], 2)] == ["SE0", "SE0 x SE1"]


class TestElsewhere:
    """Pools go to other processes with the base kernels that were registered here."""

    PROGRAM = """
import pickle, sys
from kem_pymc.kernels.base import base_kernels
before = len(base_kernels())
pool = pickle.load(sys.stdin.buffer)
again = pickle.loads(pickle.dumps(pool))
assert again == pool
print(before, [k.name for k in base_kernels()][before:], pool, pool.layout.factor_base.tolist())
"""

    def sent(self, pool):
        command = [sys.executable, "-c", self.PROGRAM]
        found = subprocess.run(command, input=pickle.dumps(pool), stdout=subprocess.PIPE)
        return found.stdout.decode().strip()

    @pytest.mark.usefixtures("cosine")
    def test_kernels_of_ones_own_go_along(self):
        pool = CandidatePool(["SE0", "SE0 x COS0"])
        own = len(BUILT_IN)
        assert self.sent(pool) == f"{own} ['COS'] {pool} [2, {own}, 2]"

    def test_built_in_kernels_do_not(self):
        assert CandidatePool(["SE0", "LIN0"]).__getstate__()["kernels"] is None

    def test_coming_back_changes_nothing(self, cosine):
        pool = CandidatePool(["COS0"])
        assert pickle.loads(pickle.dumps(pool)) == pool
        assert base_kernel("COS") is cosine
