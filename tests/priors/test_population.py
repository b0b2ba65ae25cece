"""Population parameters in tables of priors: what may be given, as text, as data, as numbers."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import kem_pymc as kem
from kem_pymc.errors import InputError
from kem_pymc.priors import Priors
from kem_pymc.priors.population import names_of, parameters_in, population_parameter, with_values
from tests.hierarchical import MEDIAN, SPREAD


@pytest.mark.parametrize("name", ["two words", "", 3, "LIN0.shift", "noise", "about", "a_log__"])
def test_a_name_is_a_word(name):
    with pytest.raises(InputError, match=r"be the name of a population parameter\. Use letters"):
        population_parameter(name, pm.Normal.dist(0, 1))


@pytest.mark.parametrize(
    "prior",
    [
        1.0,
        pm.Normal.dist(0, 1, shape=2),
        pm.Poisson.dist(3),
        pm.Flat.dist(),
        pm.Normal.dist(pm.Normal.dist(0, 1), 1),
        pm.Normal.dist(MEDIAN, 1),
        pm.Normal,
    ],
)
def test_its_prior_is_one_of_a_scalar_and_of_numbers(prior):
    with pytest.raises(InputError, match=r"level isn't a continuous scalar .*Give one like pm\."):
        population_parameter("level", prior)


def test_one_name_has_one_prior():
    same = population_parameter("median", pm.Normal.dist(0.3, 0.8))
    other = population_parameter("median", pm.Normal.dist(0.3, 0.9))
    assert len(parameters_in([pm.Normal.dist(MEDIAN, 1), pm.Normal.dist(same, 1)])) == 1
    with pytest.raises(InputError, match=r"called median have different priors\. Make it once"):
        parameters_in([pm.Normal.dist(MEDIAN, 1), pm.Normal.dist(other, 1)])


def test_values_that_a_prior_excludes_are_refused(hierarchical):
    with pytest.raises(InputError, match=r"spread = -0\.3 is impossible under its prior"):
        hierarchical.at({"spread": -0.3})
    with pytest.raises(InputError, match="aren't all finite numbers"):
        hierarchical.at({"spread": "wide"})
    with pytest.raises(InputError, match="aren't all finite numbers"):
        hierarchical.at({"median": np.nan})


def test_a_table_tells_of_them(hierarchical, pool):
    rows = dict(hierarchical.to_frame(pool).to_numpy())
    assert rows["SE0.lengthscale"] == "LogNormal(median, spread)"
    assert (rows["median"], rows["spread"]) == ("Normal(0.3, 0.8)", "HalfNormal(0, 0.5)")
    assert rows["level"] == "Normal(-1, 0.6)"
    assert "spread" in repr(hierarchical)


def test_a_table_is_data(hierarchical, pool):
    data = hierarchical.replace(noise=kem.priors.synthetic().noise).to_dict()
    again = Priors.from_dict(data)
    assert again.to_dict() == data
    assert [p.name for p in again.population(pool)] == ["median", "spread"]


def test_draws_of_a_table_share_them(hierarchical, pool):
    drawn = hierarchical.draw("SE0", pool, 4000, rng=1)
    assert stats.kstest(drawn["median"], stats.norm(0.3, 0.8).cdf).pvalue > 1e-3
    z = (np.log(drawn["SE0.lengthscale"]) - drawn["median"]) / drawn["spread"]
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert stats.kstest((np.log(drawn["noise"]) - drawn["level"]) / 0.7, "norm").pvalue > 1e-3


def test_values_take_the_place_of_parameters_by_name():
    """Fails where one parameter gets the value of another, or others lose theirs."""
    rv = pm.LogNormal.dist(MEDIAN, SPREAD)
    assert [p.name for p in parameters_in([rv])] == ["median", "spread"]
    at = with_values(rv, {"median": 0.1, "spread": 0.3, "level": 7.0})
    assert parameters_in([at]) == ()
    assert pm.logp(at, 1.2).eval() == pytest.approx(
        stats.lognorm(0.3, scale=np.exp(0.1)).logpdf(1.2)
    )
    partly = with_values(rv, {"spread": 0.3})
    assert [p.name for p in parameters_in([partly])] == ["median"]
    assert with_values(rv, {}) is rv
    assert float(with_values(MEDIAN, {"median": 2}).eval()) == 2
    assert names_of([MEDIAN, SPREAD]) == "median, spread"
