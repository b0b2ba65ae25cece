"""Compiled priors: what the engine reads of them, and tables that cannot be compiled."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from kem_pymc import priors as prior_tables
from kem_pymc.errors import InputError
from kem_pymc.priors.population import population_parameter
from tests.priors.compiled import place


def spread(prior, name="spread"):
    return pm.LogNormal.dist(0, population_parameter(name, prior))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"lengthscale": spread(pm.Normal.dist(0, 1))},
            r"LogNormal\(0, spread\) has no finite .*HalfNormal",
        ),
        (
            {"noise": lambda _: spread(pm.Normal.dist(-1, 0.1))},
            r"prior of the noise has no finite density .*HalfNormal",
        ),
        (
            {"lengthscale": spread(pm.InverseGamma.dist(0.01, 0.01), "vague")},
            r"vague is too vague.* Give a narrower prior",
        ),
        ({"lengthscale": pm.Normal.dist(0, 1)}, "negative values"),
    ],
)
def test_priors_that_may_be_impossible_are_refused(pool, table, change, message):
    with pytest.raises(InputError, match=message):
        table.replace(change).compile(pool)


def test_wide_priors_are_not_taken_for_wrong_ones(pool, table):
    wide = {
        "lengthscale": pm.HalfCauchy.dist(10),
        "amplitude": pm.InverseGamma.dist(0.1, 0.1),
        "period": pm.Uniform.dist(0, 1000),
    }
    table.replace({name: spread(prior, name) for name, prior in wide.items()}).compile(pool)


def test_equal_priors_are_compiled_once_and_found_by_every_hyperparameter(pool):
    """Fails where a hyperparameter has the entry of another kind, or a candidate's probability."""
    table = prior_tables.synthetic().replace(enter={"LIN0": 0.5}, stay=0.8)
    compiled_priors = table.compile(pool)
    np.testing.assert_array_equal(compiled_priors.enter, [0.5, 0.1, 0.02])
    np.testing.assert_array_equal(compiled_priors.stay, 0.8)
    kinds = [h.name.rpartition(".")[2] for h in pool.hyperparameters]
    pairs = set(zip(kinds, compiled_priors.entry.tolist(), strict=True))
    assert len(pairs) == len(set(kinds)) == compiled_priors.entry.max() + 1 == 4
    # Amplitudes and lengthscales both are LogNormal(0, 2), but not one object.
    assert compiled_priors.centre[place(pool, "LIN0.shift")] == pytest.approx(0, abs=0.01)
    period = place(pool, "LIN0 x PER0.PER0.period")
    assert compiled_priors.centre[period] == pytest.approx(np.log(5), abs=0.02)
    # Scales are prior standard deviations up to one.
    assert compiled_priors.scale[period] == pytest.approx(0.25, rel=0.05)
    assert compiled_priors.scale[place(pool, "SE0.lengthscale")] == 1


def test_population_parameters_begin_at_their_medians_and_become_numbers(hierarchical, pool):
    """Fails where a prior doesn't know which parameters it depends on, or takes another's value."""
    found = hierarchical.compile(pool)
    names = [p.name for p in hierarchical.population(pool)]
    at = dict(zip(names, found.reference, strict=True))
    assert at["median"] == pytest.approx(0.3, abs=0.05)
    assert at["spread"] == pytest.approx(0.5 * stats.halfnorm().median(), rel=0.06)
    np.testing.assert_array_equal(found.population, found.reference)
    positive = dict(zip(names, found.population_positive, strict=True))
    assert positive == {"median": False, "spread": True, "level": False}
    uses = dict(zip(names, found.uses[found.entry[place(pool, "SE0.lengthscale")]], strict=True))
    assert uses == {"median": True, "spread": True, "level": False}
    assert not found.uses[found.entry[place(pool, "SE0.amplitude")]].any()
    noise = dict(zip(names, found.noise_uses, strict=True))
    assert noise == {"median": False, "spread": False, "level": True}

    values = {"median": 0.1, "spread": 0.3, "level": -1.0, "unknown": 2}
    plain = hierarchical.at(values)
    assert plain.population(pool) == ()
    assert plain.to_dict()["hyperparameters"]["lengthscale"] == {
        "distribution": "LogNormal",
        "parameters": [0.1, 0.3],
    }
    numbers, given = plain.compile(pool), np.array([values[name] for name in names])
    parent = np.array([True, False, True])
    for v in (-1.0, 0.4):
        for one, other in zip(numbers.entry, found.entry, strict=True):
            density = numbers.log_density(int(one), v, np.empty(0))
            assert density == pytest.approx(found.log_density(int(other), v, given), abs=1e-12)
        density = found.noise_log_density(parent, v, given)
        assert density == pytest.approx(stats.norm(-1.4, 0.7).logpdf(v), abs=1e-10)
        assert numbers.noise_log_density(parent, v, np.empty(0)) == pytest.approx(density)
