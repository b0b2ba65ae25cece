"""Branin functions."""

import numpy as np
import pytest

from experiments.data.branin import Branin, branin_sequence


def test_the_standard_function_and_its_minimum():
    """The published minimum, at three points; the paper's s (1 - r) would make it negative."""
    function = Branin()
    assert function.minimum == pytest.approx(0.397887, abs=1e-6)
    for x1, x2 in ((-np.pi, 12.275), (np.pi, 2.275), (9.42478, 2.475)):
        assert function(x1, x2) == pytest.approx(0.397887, abs=1e-5)


def test_sequences_vary_by_their_noise():
    for noise in (0.01, 1.0):
        own = branin_sequence(noise, 400, np.random.default_rng(0))
        spread = np.std([function.parameters for function in own], axis=0)
        np.testing.assert_allclose(spread, noise, rtol=0.15)
    first = branin_sequence(0.5, 2, np.random.default_rng(1))
    assert first == branin_sequence(0.5, 2, np.random.default_rng(1))
    assert all(function.minimum <= function(2.0, 3.0) for function in first)
