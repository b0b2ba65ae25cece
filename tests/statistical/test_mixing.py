"""Chains of the default sampler agree, on the study that documents speak of."""

import arviz as az
import pytest

from kem_pymc import datasets, priors
from kem_pymc.diagnostics.convergence import RHAT, scalar_r_hats
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.runs.sampling import sample

pytestmark = pytest.mark.statistical

#: Effective draws of 4 x 300, at least.
ENOUGH = 150


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_chains_of_cut_agree_by_default(seed, figures):
    """On ten users with eight candidates: R-hat and bulk ESS of the scalars."""
    cohort = datasets.synthetic(users=10, time_steps=6, seed=seed)
    pool = CandidatePool.from_base(["LIN", "PER", "SE"], dimension=1, interactions=True)
    model = EvolutionModel(cohort, pool, priors.synthetic(), feedback="cut", shared=None)
    options = {"draws": 300, "tune": 300, "chains": 4, "random_seed": seed, "progress": False}
    idata = sample(model, **options)
    r_hats = scalar_r_hats(idata)
    bulk = az.ess(idata["posterior"].dataset[list(r_hats)])
    ess = {name: float(bulk[name]) for name in r_hats}
    figures({f"R-hat of {name}": value for name, value in r_hats.items()})
    figures({f"ESS of {name}": value for name, value in ess.items()})
    assert max(r_hats.values()) <= RHAT, r_hats
    assert min(ess.values()) >= ENOUGH, ess
