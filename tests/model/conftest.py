"""A model of the tiny study, and draws from it."""

import pymc as pm
import pytest

from kem_pymc.data.scaling import Scaling
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.sampler.moves.sweep import CUT
from tests.tiny_study import CONCENTRATION

QUICK = CUT._replace(seating=1, n_mh=5)
SAMPLING = {"progressbar": False, "compute_convergence_checks": False}


@pytest.fixture(scope="session")
def model(cohort, pool, table):
    return EvolutionModel(
        cohort, pool, table, CONCENTRATION, schedule=QUICK, scaling=Scaling.identity(1), shared=None
    )


@pytest.fixture(scope="session")
def idata(model):
    with model:
        return pm.sample(draws=40, tune=10, chains=2, cores=1, random_seed=11, **SAMPLING)
