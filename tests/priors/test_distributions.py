"""Distributions of PyMC as text, data and compiled functions."""

import json

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from kem_pymc import priors as prior_tables
from kem_pymc.errors import InputError
from kem_pymc.priors import Priors
from kem_pymc.priors.population import population_parameter
from tests.priors.compiled import draws, log_densities, place


def test_infinite_ends_of_a_distribution_are_data(table):
    bounded = population_parameter("bounded", pm.TruncatedNormal.dist(0.5, 0.4, lower=0.2))
    priors = table.replace(lengthscale=pm.LogNormal.dist(0, bounded))
    text = json.dumps(priors.to_dict(), allow_nan=False)
    assert Priors.from_dict(json.loads(text)).to_dict() == priors.to_dict()


#: Priors of the tiny study's hyperparameters, with SciPy's: all in one table, compiled once.
REPLACEMENTS = {
    "LIN0.amplitude": (pm.LogNormal.dist(0.3, 0.7), stats.lognorm(s=0.7, scale=np.exp(0.3))),
    "SE0.amplitude": (pm.Gamma.dist(2.0, 3.0), stats.gamma(2.0, scale=1 / 3)),
    "SE0.lengthscale": (pm.InverseGamma.dist(5, 4), stats.invgamma(5, scale=4)),
    "LIN0 x PER0.amplitude": (pm.HalfNormal.dist(2.0), stats.halfnorm(scale=2.0)),
    "LIN0 x PER0.PER0.lengthscale": (
        pm.Truncated.dist(pm.Normal.dist(1.0, 1.0), lower=0.1),
        stats.truncnorm(-0.9, np.inf, loc=1.0, scale=1.0),
    ),
    "LIN0 x PER0.PER0.period": (pm.LogNormal.dist(-1.0, 0.2), stats.lognorm(0.2, scale=np.exp(-1))),
}
MIXTURE = pm.Mixture.dist([0.3, 0.7], [pm.Normal.dist(0, 1), pm.Normal.dist(5, 0.5)])


@pytest.fixture(scope="module")
def compiled_priors(pool):
    changed = {name: prior for name, (prior, _) in REPLACEMENTS.items()}
    return prior_tables.synthetic().replace(changed | {"LIN0.shift": MIXTURE}).compile(pool)


@pytest.mark.parametrize("name", REPLACEMENTS)
def test_any_distribution_of_pymc_gives_density_slope_and_draws(compiled_priors, pool, name):
    """Fails where an entry has the function or the parameters of another one."""
    expected = REPLACEMENTS[name][1]
    entry = compiled_priors.entry[place(pool, name)]
    v = np.linspace(-1.5, 1.5, 7)
    parent = np.zeros(3, dtype=bool)
    density, slope, *_ = log_densities(compiled_priors, entry, v, parent)
    np.testing.assert_allclose(density, expected.logpdf(np.exp(v)) + v, atol=1e-10)
    step = 1e-5
    up, down = (log_densities(compiled_priors, entry, v + s, parent)[0] for s in (step, -step))
    np.testing.assert_allclose(slope, (up - down) / (2 * step), atol=1e-6)
    sample = np.exp(draws(compiled_priors, entry, parent, np.random.default_rng(1), 4000)[0])
    assert stats.kstest(sample, expected.cdf).pvalue > 1e-3


def test_mixture_prior_of_a_real_hyperparameter(compiled_priors, pool):
    entry = compiled_priors.entry[place(pool, "LIN0.shift")]
    v = np.linspace(-2, 7, 9)
    expected = np.log(0.3 * stats.norm(0, 1).pdf(v) + 0.7 * stats.norm(5, 0.5).pdf(v))
    parent = np.zeros(3, dtype=bool)
    found = log_densities(compiled_priors, entry, v, parent)[0]
    np.testing.assert_allclose(found, expected, atol=1e-10)
    sample = draws(compiled_priors, entry, parent, np.random.default_rng(2), 4000)[0]
    cdf = lambda x: 0.3 * stats.norm(0, 1).cdf(x) + 0.7 * stats.norm(5, 0.5).cdf(x)  # noqa: E731
    assert stats.kstest(sample, cdf).pvalue > 1e-3


def test_the_noise_is_that_of_the_parents_size(compiled_priors):
    v = np.array([-0.7, 0.4, 1.9])
    for size, (mu, sigma) in enumerate([(2, 0.5), (1, 1), (0, 2), (0, 2)]):
        noise, slope = log_densities(compiled_priors, 0, v, np.arange(3) < size)[2:]
        np.testing.assert_allclose(noise, stats.norm(mu, sigma).logpdf(v), atol=1e-10)
        np.testing.assert_allclose(slope, -(v - mu) / sigma**2, atol=1e-9)


def test_what_cannot_be_stored_says_so():
    table = prior_tables.synthetic().replace(shift=MIXTURE)
    assert "Mixture" in table.to_dict()["hyperparameters"]["shift"]["text"]
    with pytest.raises(InputError, match="stored as text only"):
        Priors.from_dict(table.to_dict())
    custom = prior_tables.synthetic().replace(noise=lambda _: pm.HalfNormal.dist(1.0))
    with pytest.raises(InputError, match="stored as text only"):
        Priors.from_dict(custom.to_dict())
