"""Compiled priors: their densities, and tables that cannot be compiled."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from kem_pymc import priors as prior_tables
from kem_pymc.errors import InputError
from kem_pymc.priors.population import population_parameter
from tests.priors.compiled import place


def test_a_spread_that_may_be_negative_is_refused(pool, table):
    spread = population_parameter("spread", pm.Normal.dist(0, 1))
    wrong = table.replace(lengthscale=pm.LogNormal.dist(0, spread))
    with pytest.raises(InputError, match=r"LogNormal\(0, spread\) has no finite .*HalfNormal"):
        wrong.compile(pool)


@pytest.mark.parametrize("prior", [pm.Normal.dist(0, 1), pm.Normal.dist(-1, 0.1)])
def test_noise_that_may_be_impossible_is_refused(pool, table, prior):
    spread = population_parameter("spread", prior)
    wrong = table.replace(noise=lambda parent: pm.LogNormal.dist(0, spread))  # noqa: ARG005
    with pytest.raises(InputError, match=r"prior of the noise has no finite density .*HalfNormal"):
        wrong.compile(pool)


@pytest.mark.parametrize(
    "prior", [pm.HalfCauchy.dist(10), pm.InverseGamma.dist(0.1, 0.1), pm.Uniform.dist(0, 1000)]
)
def test_a_wide_prior_is_not_taken_for_a_wrong_one(pool, table, prior):
    spread = population_parameter("spread", prior)
    table.replace(lengthscale=pm.LogNormal.dist(0, spread)).compile(pool)


def test_a_prior_beyond_all_numbers_is_refused(pool, table):
    vague = population_parameter("vague", pm.InverseGamma.dist(0.01, 0.01))
    with pytest.raises(InputError, match=r"vague is too vague.* Give a narrower prior"):
        table.replace(lengthscale=pm.LogNormal.dist(0, vague)).compile(pool)


def test_scales_are_prior_deviations_up_to_one(pool):
    scale = prior_tables.synthetic().compile(pool).scale
    assert scale[place(pool, "SE0.lengthscale")] == 1
    assert scale[place(pool, "LIN0 x PER0.PER0.period")] == pytest.approx(0.25, rel=0.05)


def test_a_positive_hyperparameter_needs_a_positive_prior(pool):
    table = prior_tables.synthetic().replace(lengthscale=pm.Normal.dist(0, 1))
    with pytest.raises(InputError, match="negative values"):
        table.compile(pool)


def test_equal_priors_are_compiled_once_and_found_by_every_hyperparameter(pool):
    """Fails where a hyperparameter has the entry of another kind."""
    compiled_priors = prior_tables.synthetic().compile(pool)
    kinds = [h.name.rpartition(".")[2] for h in pool.hyperparameters]
    pairs = set(zip(kinds, compiled_priors.entry.tolist(), strict=True))
    assert len(pairs) == len(set(kinds)) == compiled_priors.entry.max() + 1 == 4
    # Amplitudes and lengthscales both are LogNormal(0, 2), but not one object.
    assert compiled_priors.centre[place(pool, "LIN0.shift")] == pytest.approx(0, abs=0.01)
    period = compiled_priors.centre[place(pool, "LIN0 x PER0.PER0.period")]
    assert period == pytest.approx(np.log(5), abs=0.02)


def test_population_parameters_begin_at_their_medians(hierarchical, pool):
    """Fails where a prior doesn't know which parameters it depends on."""
    found = hierarchical.compile(pool)
    names = [p.name for p in hierarchical.population(pool)]
    at = dict(zip(names, found.reference, strict=True))
    assert at["median"] == pytest.approx(0.3, abs=0.05)
    assert at["spread"] == pytest.approx(0.5 * stats.halfnorm().median(), rel=0.06)
    np.testing.assert_array_equal(found.population, found.reference)
    assert dict(zip(names, found.population_positive, strict=True)) == {
        **{"median": False, "spread": True, "level": False}
    }
    uses = dict(zip(names, found.uses[found.entry[place(pool, "SE0.lengthscale")]], strict=True))
    assert uses == {"median": True, "spread": True, "level": False}
    assert not found.uses[found.entry[place(pool, "SE0.amplitude")]].any()
    assert dict(zip(names, found.noise_uses, strict=True)) == {
        **{"median": False, "spread": False, "level": True}
    }
