"""The posteriors of a trial that several tests read."""

import pytest

import kem_pymc as kem
from tests.population.dense import ROWS, SDS
from tests.population.trial import cohort_of, trial


@pytest.fixture(scope="session")
def mixed() -> kem.PopulationModel:
    """The linear mixed model of the trial."""
    shared = ["arm", "week", "arm:week", "base"]
    return kem.PopulationModel(cohort_of(trial()), shared, ["level", "week"])


@pytest.fixture(scope="session")
def noisy() -> kem.PopulationModel:
    """The default model of the trial with known noise."""
    return kem.PopulationModel(cohort_of(ROWS.assign(se=SDS), noise="se"))


@pytest.fixture(scope="session")
def trial_posterior() -> kem.population.PopulationPosterior:
    """The posterior of the default model of the trial, smooth functions included."""
    return kem.PopulationModel(cohort_of(trial())).fit()
