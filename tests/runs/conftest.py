"""A model, and a run of it that nothing happens to."""

import pytest

import kem_pymc as kem
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.runs import chains
from tests.runs.runs import QUICK, SHORT


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Segments end with a file, also where other tests take the time."""
    monkeypatch.setattr(chains, "LONGEST", 600.0)


@pytest.fixture(scope="session")
def model(cohort, pool, table):
    return EvolutionModel(cohort, pool, table, schedule=QUICK, shared=None)


@pytest.fixture(scope="session")
def whole_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("whole") / "run"


@pytest.fixture(scope="session")
def whole(model, whole_folder):
    """A run that nothing happens to."""
    return kem.sample(model, **SHORT, cores=1, folder=whole_folder)
