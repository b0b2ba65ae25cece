"""Priors of the noise, below parents and without one."""

import json

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

import kem_pymc as kem
from kem_pymc import priors as prior_tables
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.priors.noise import (
    Parent,
    SameNoise,
    noise_at,
    noise_by_size,
    noise_from_data,
    noise_text,
    noise_to_data,
)
from tests.hierarchical import LEVEL
from tests.hierarchical import noise as learned
from tests.priors.compiled import draws, log_densities


def test_noise_by_size_says_that_it_takes_numbers():
    with pytest.raises(InputError, match=r"only numbers\. .* write a function"):
        kem.priors.noise_by_size((LEVEL, 1), (1, 1))


def test_noise_may_look_at_what_the_parent_has(pool):
    def noise(parent):
        """Small where the parent has a trend."""
        return pm.LogNormal.dist(pt.switch(parent.includes("LIN0"), -3.0, 1.0), 1.0)

    table = prior_tables.synthetic().replace(noise=noise)
    compiled_priors = table.compile(pool)
    for parent, mean in (([1, 0, 0], -3.0), ([0, 1, 1], 1.0)):
        parent = np.array(parent, dtype=bool)
        density = log_densities(compiled_priors, 0, np.array([0.5]), parent)[2]
        np.testing.assert_allclose(density, stats.norm(mean, 1).logpdf(0.5), atol=1e-10)
        sample = draws(compiled_priors, 0, parent, np.random.default_rng(0), 3000)[1]
        assert stats.kstest(sample, stats.norm(mean, 1).cdf).pvalue > 1e-3
    below = table.noise_below(Composition.parse("LIN0"), pool)
    assert float(pm.logp(below, 1.0).eval()) == pytest.approx(stats.norm(-3, 1).logpdf(0))
    assert "Small where the parent has a trend" in repr(table)


@pytest.mark.parametrize(
    ("noise", "sizes"),
    [
        (noise_by_size((2, 1), (0.5, 1)), [(2, 0.5), (1, 1), (1, 1), (1, 1)]),
        (SameNoise(pm.LogNormal.dist(-1.5, 1.2)), [(-1.5, 1.2)] * 4),
    ],
    ids=["by size", "the same"],
)
def test_noise_comes_back_from_plain_data(noise, sizes, pool):
    """Fails where the last entry isn't that of all larger parents, or sizes are mixed up."""
    again = noise_from_data(json.loads(json.dumps(noise_to_data(noise))), {})
    assert str(again) == str(noise)
    for size, (mu, sigma) in enumerate(sizes):
        parent = Parent(np.arange(3) < size, pool)
        expected = stats.lognorm(sigma, scale=np.exp(mu)).logpdf(0.7)
        for own in (noise, again):
            assert pm.logp(own(parent), 0.7).eval() == pytest.approx(expected, abs=1e-6)


def test_values_take_the_place_of_population_parameters(pool):
    """Whatever kind of prior of the noise has them."""
    same = SameNoise(pm.LogNormal.dist(LEVEL, 0.5))
    for given, expected in ((same, -2.0), (learned, -2.4)):
        at = noise_at(given, {"level": -2.0})
        density = pm.logp(at(Parent(np.array([True, True, False]), pool)), 0.2).eval()
        sigma = 0.5 if given is same else 0.7
        expected_density = stats.lognorm(sigma, scale=np.exp(expected)).logpdf(0.2)
        assert density == pytest.approx(expected_density, abs=1e-6)
    assert noise_text(noise_at(learned, {"level": -2.0})).endswith("larger parents., at level = -2")
    assert noise_at(learned, {}) is learned
    by_size = noise_by_size((1,), (1,))
    assert noise_at(by_size, {"level": -2.0}) is by_size
