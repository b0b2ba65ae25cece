"""What tests of several moves use."""

import pytest

from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.engine import Engine
from tests.sampler.moves.decisions import interpret  # noqa: F401
from tests.sampler.moves.paths import NAMES, four_users_cohort


@pytest.fixture(scope="session")
def four_users(table):
    """An engine of users some of whom may share a path."""
    return Engine(four_users_cohort(), CandidatePool(NAMES), table, 1.3, likelihood_power=1.0)
