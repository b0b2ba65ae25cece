"""What tests of several moves use."""

import pytest

from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.engine import Engine
from tests.sampler.moves.decisions import interpret  # noqa: F401
from tests.sampler.moves.paths import NAMES
from tests.tiny_study import make_cohort


@pytest.fixture(scope="session")
def four_users(table):
    """An engine of users some of whom may share a path."""
    cohort = make_cohort(((2, 4, 6), (2, 4, 6), (1, 3), (2, 4, 5)), seed=5)
    return Engine(cohort, CandidatePool(NAMES), table, concentration=1.3, likelihood_power=1.0)
