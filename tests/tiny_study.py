"""A study small enough to compute by hand: three users, ragged time steps, three candidates."""

import signal
from string import ascii_letters

import numpy as np
import pymc as pm
import pytest

from kem_pymc import priors as prior_tables
from kem_pymc.data.cohort import Cohort
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.engine import Engine

CONCENTRATION = 1.3


def make_cohort(ends=((2, 4, 6), (2, 4), (1, 3, 6)), seed=3) -> Cohort:
    rng = np.random.default_rng(seed)
    sizes = [e[-1] for e in ends]
    return Cohort(
        users=tuple(ascii_letters[: len(ends)]),
        inputs=tuple(rng.uniform(0, 3, (n, 1)) for n in sizes),
        targets=tuple(rng.normal(size=n) for n in sizes),
        ends=tuple(np.array(e) for e in ends),
        features=("x",),
    )


@pytest.fixture(scope="session")
def cohort() -> Cohort:
    return make_cohort()


@pytest.fixture(scope="session")
def pool() -> CandidatePool:
    return CandidatePool(["LIN0", "SE0", "LIN0 x PER0"])


@pytest.fixture(scope="session")
def table() -> prior_tables.Priors:
    """The synthetic study's priors with lighter tails, so that tests mix."""
    return prior_tables.synthetic().replace(
        amplitude=pm.LogNormal.dist(0, 1),
        lengthscale=pm.LogNormal.dist(0.2, 1),
        shift=pm.Normal.dist(0.5, 1),
    )


@pytest.fixture(scope="session")
def engine(cohort, pool, table) -> Engine:
    return Engine(cohort, pool, table, concentration=CONCENTRATION, likelihood_power=1.0)


@pytest.fixture
def at_a_terminal():
    """Ctrl-C is heeded, also where tests run in the background of a shell."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)
