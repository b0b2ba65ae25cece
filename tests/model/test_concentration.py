"""alpha as a variable: what may be given, and its conditional; the rest is in test_population."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import gammaln

import kem_pymc as kem
from kem_pymc._system.jit.decorators import compiled
from kem_pymc.errors import InputError
from kem_pymc.model.concentration import Concentration
from kem_pymc.model.engine import Engine
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.model.step import EvolutionStep
from kem_pymc.sampler.joint_density import log_joint, simulate
from kem_pymc.sampler.moves.concentration import redraw_concentration
from kem_pymc.sampler.moves.sweep import CUT, check_density
from tests.states import copy_state
from tests.tiny_study import make_cohort

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


@compiled
def _many(model, state, draws, rng):
    out = np.empty(draws)
    for i in range(draws):
        redraw_concentration(model, state, rng)
        out[i] = state.concentration[0]
    return out


def exact_quantiles(state, shape, rate, shares):
    """Return quantiles of the conditional distribution of alpha, by quadrature."""
    log_alpha = np.linspace(-9, 5, 20_001)
    alpha = np.exp(log_alpha)
    log_p = (shape + state.sizes[0]) * log_alpha - rate * alpha
    for members in state.members[state.members > 0]:
        log_p += gammaln(alpha) - gammaln(alpha + members)
    below = np.cumsum(np.exp(log_p - log_p.max()))
    return np.exp(np.interp(shares, below / below[-1], log_alpha))


def conditional_scores(pool, table, draws, seed):
    """Return the z scores of the shares of a long run below exact quantiles."""
    cohort = make_cohort(ends=((1, 2, 3),) * 6)
    engine = Engine(cohort, pool, table, GAMMA, likelihood_power=1.0)
    state = seated(engine, 3)
    assert (state.members > 0).sum() > 1
    shares = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    values = _many(engine.prior_model, state, draws, np.random.default_rng(seed))
    below = values[:, None] < exact_quantiles(state, 3, 2, shares)
    batches = below.reshape(100, -1, len(shares)).mean(axis=1)
    t = (batches.mean(axis=0) - shares) / (batches.std(axis=0, ddof=1) / 10)
    return np.sign(t) * stats.norm.isf(stats.t.sf(np.abs(t), 99))


@pytest.mark.integration
def test_a_long_run_has_the_exact_conditional_distribution(pool, table):
    assert np.abs(conditional_scores(pool, table, 400_000, seed=1)).max() < 4


@pytest.mark.slow
def test_a_very_long_run_has_the_exact_conditional_distribution(pool, table):
    assert np.abs(conditional_scores(pool, table, 20_000_000, seed=2)).max() < 4


def test_where_alpha_is_fixed_nothing_happens(engine):
    state = seated(engine, 0)
    before = copy_state(state)
    rng = np.random.default_rng(0)
    redraw_concentration(engine.prior_model, state, rng)
    for one, other in zip(before, state, strict=True):
        np.testing.assert_array_equal(one, other)
    assert rng.random() == np.random.default_rng(0).random()


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


def test_a_run_is_not_continued_under_another_prior(model, tmp_path, cohort, pool, table):
    kem.sample(model, draws=1, tune=0, chains=1, cores=1, folder=tmp_path / "run", random_seed=1)
    other = EvolutionModel(cohort, pool, table, pm.Gamma.dist(3, 4), schedule=QUICK, shared=None)
    with pytest.raises(InputError, match=r"concentration \(rate was 2\.0, is 4\.0\)"):
        kem.resume(tmp_path / "run", other)
