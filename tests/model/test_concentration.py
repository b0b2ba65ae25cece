"""alpha as a variable: what may be given; the rest is in test_population."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from kem_pymc.errors import InputError
from kem_pymc.model.concentration import Concentration
from kem_pymc.model.engine import Engine
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.model.step import EvolutionStep
from kem_pymc.runs.fingerprint import differences, fingerprint
from kem_pymc.sampler.joint_density import log_joint, simulate
from kem_pymc.sampler.moves.sweep import CUT, check_density

GAMMA = pm.Gamma.dist(alpha=3, beta=2)
QUICK = CUT._replace(seating=1, n_mh=3, split_merge=2)


@pytest.fixture(scope="module")
def learning(cohort, pool, table):
    return Engine(cohort, pool, table, GAMMA, likelihood_power=1.0)


@pytest.fixture(scope="module")
def model(cohort, pool, table):
    return EvolutionModel(cohort, pool, table, GAMMA, schedule=QUICK, shared=None)


# What may be given.


def test_a_model_with_a_part_fixed_is_refused(model):
    for fixed in (pm.observe, pm.do):
        changed = fixed(model, {"concentration": 1.2})
        with pytest.raises(InputError, match="concentration is fixed in this model"):
            EvolutionStep(model=changed)


def test_numbers_and_gamma_priors_are_read():
    assert Concentration.of(2) == Concentration(2.0)
    found = Concentration.of(pm.Gamma.dist(mu=3, sigma=1))
    assert (found.shape, found.rate, found.value) == pytest.approx((9, 3, 3))
    assert found.to_data() == {"shape": found.shape, "rate": found.rate}
    assert not Concentration.of(2).learned


@pytest.mark.parametrize(
    "given",
    [
        *(0.0, -1, np.nan, np.inf, "much", None, [1.0, 2.0]),
        pm.LogNormal.dist(0, 1),
        pm.Gamma.dist(2, 2, shape=3),
        pm.Gamma.dist(-1, 2),
        pm.Gamma.dist(pm.HalfNormal.dist(1), 2),
        pm.Truncated.dist(pm.Gamma.dist(2, 2), upper=1),
        2 * pm.Gamma.dist(2, 2),
    ],
)
def test_other_things_are_refused(given):
    with pytest.raises(InputError, match=r"concentration .*Give .*pm\.Gamma\.dist"):
        Concentration.of(given)


# The move.


def seated(engine, seed):
    """Return a state from the prior."""
    return simulate(engine.prior_model, np.random.default_rng(seed))


def test_the_density_contains_the_prior_of_log_alpha(learning, engine):
    state = seated(learning, 5)
    check_density(learning.prior_model, state)
    alpha = float(state.concentration[0])
    with_prior = log_joint(learning.prior_model, state)
    without = log_joint(engine.prior_model, state)
    prior = stats.gamma.logpdf(alpha, 3, scale=1 / 2) + np.log(alpha)
    assert with_prior - without == pytest.approx(prior)


def test_alpha_is_drawn_from_its_prior(learning):
    drawn = [seated(learning, seed).concentration[0] for seed in range(400)]
    assert stats.kstest(drawn, stats.gamma(3, scale=1 / 2).cdf).pvalue > 1e-3


def test_a_tiny_alpha_has_a_density(cohort, pool, table):
    engine = Engine(cohort, pool, table, pm.Gamma.dist(1e-5, 1), likelihood_power=0.0)
    state = seated(engine, 0)
    assert state.concentration[0] == 1e-300
    check_density(engine.model, state)


# The variable.


def test_a_fixed_alpha_is_no_variable(cohort, pool, table):
    fixed = EvolutionModel(cohort, pool, table, 2, shared=None)
    assert "concentration" not in fixed.named_vars
    assert fixed.concentration == 2.0


def test_another_prior_is_another_model(model, cohort, pool, table):
    other = EvolutionModel(cohort, pool, table, pm.Gamma.dist(3, 4), schedule=QUICK, shared=None)
    prints = (fingerprint(m, np.zeros(3)) for m in (model, other))
    assert differences(*prints) == ["concentration (rate was 2.0, is 4.0)"]
