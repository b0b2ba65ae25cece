"""Lowering of trees to tapes."""

import numpy as np

from kem_pymc.search.evocov.tape import ADD, OF_POINTS, lower
from kem_pymc.search.evocov.tree import Tree
from tests.search.evocov.trees import TABLE_1


def test_equal_subtrees_are_one_operation():
    """Else Matérn kernels would take twice as long."""
    half = "exp(multiply(-0.5, sq_dist(spectral(x, h0), h1)))"
    once, twice = lower(Tree.parse(half)), lower(Tree.parse(f"add({half}, {half})"))
    assert len(twice.code) == len(once.code) + 1
    assert len(twice.frequencies) == 1
    swapped = "add(multiply(hp(h0), hp(h1)), multiply(hp(h1), hp(h0)))"
    assert len(lower(Tree.parse(swapped)).code) == 4


def test_operands_come_first_and_uniform_operations_before_all_others():
    for text, _, _ in TABLE_1.values():
        tape = lower(Tree.parse(text))
        depends = np.zeros(len(tape.code), dtype=bool)
        used = set()
        for r, (kind, first, second, *_) in enumerate(tape.code):
            depends[r] = kind in OF_POINTS
            if kind >= ADD:
                assert max(first, second) < r
                depends[r] = depends[first] or depends[second]
                used |= {first, second}
        np.testing.assert_array_equal(depends, np.arange(len(depends)) >= tape.uniform)
        assert used == set(range(len(tape.code) - 1))  # the last one is the kernel
