"""Which chains are at one level, and how far apart their compositions are."""

import numpy as np
import pytest

from kem_pymc.diagnostics.diagnosis import diagnose
from kem_pymc.diagnostics.modes import composition_distance, find_modes
from kem_pymc.diagnostics.quantities import Draws
from tests.diagnostics.conftest import levels, mixing, posterior_of


def test_modes_are_chains_at_one_level():
    inclusion, assignment = mixing()
    tree = posterior_of(inclusion, assignment, log_joint=levels(0, -20, 0.1, -20.1))
    modes = find_modes(Draws.of(tree))
    assert [mode.chains for mode in modes] == [(0, 2), (1, 3)]
    assert modes[0].log_joint == pytest.approx(0, abs=0.2)
    message = diagnose(tree).warnings
    assert "2 modes: chains 0, 2 at log joint" in message[0]
    assert "kem.diagnostics.stack" in message[0]


def test_no_mode_holds_chains_that_are_apart():
    # Each is 0.8 from the next, so the ends are 1.6 apart.
    tree = posterior_of(*mixing(chains=3), log_joint=levels(0, 0.8, 1.6))
    modes = find_modes(Draws.of(tree))
    assert len(modes) == 2
    assert not any({0, 2} <= set(mode.chains) for mode in modes)


def test_outlying_draws_do_not_hide_modes():
    log_joint = levels(0, -20)
    log_joint[:, ::50] -= 5000
    modes = find_modes(Draws.of(posterior_of(*mixing(chains=2), log_joint=log_joint)))
    assert [mode.chains for mode in modes] == [(0,), (1,)]


def test_distance_counts_candidates():
    inclusion, assignment = mixing(chains=3, draws=10)
    inclusion[..., 1] = False
    inclusion[1, ..., 1] = True  # one candidate more, at all datasets
    inclusion[2, :, 0, :, 2] = True  # one more, for one user of two
    inclusion[2, :5, :, :, 0] = False  # in one half of the draws
    distance = composition_distance(Draws.of(posterior_of(inclusion, assignment)))
    np.testing.assert_allclose(distance, [[0, 1, 1], [1, 0, 2], [1, 2, 1]])
