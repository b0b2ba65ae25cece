"""Candidates that enter, leave or take turns."""

import math

import numpy as np
import pytest

from kem_pymc.sampler.moves.composition import (
    Odds,
    neighbour,
    neighbour_probability,
)


def test_probabilities_of_neighbours_are_those_of_their_draws():
    included = np.array([True, False, False, True])
    odds = Odds(add=0.5, remove=0.3, swap=0.2, edge=1.0)
    counts: dict[tuple[bool, ...], int] = {}
    ratios = {}
    rng = np.random.default_rng(2)
    n = 20_000
    for _ in range(n):
        removed, added, log_choice = neighbour(included, odds, rng)
        wanted = included.copy()
        wanted[[c for c in (removed, added) if c >= 0]] ^= True
        counts[tuple(wanted)] = counts.get(tuple(wanted), 0) + 1
        ratios[tuple(wanted)] = log_choice
    total = 0.0
    for wanted, count in counts.items():
        there = neighbour_probability(included, np.array(wanted), odds)
        back = neighbour_probability(np.array(wanted), included, odds)
        assert ratios[wanted] == pytest.approx(math.log(back / there), abs=1e-12)
        assert abs(count / n - there) < 4.5 * math.sqrt(there / n)
        total += there
    assert total == pytest.approx(1)
