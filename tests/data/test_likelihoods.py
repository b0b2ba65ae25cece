"""Likelihoods against SciPy's distributions, derivatives by differences, moments by quadrature."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import binom, gamma, multinomial, norm, poisson, t, truncnorm

from kem_pymc.data.likelihoods import (
    Binomial,
    CumulativeProbit,
    Gamma,
    Poisson,
    StudentT,
    log_mass,
    tilted,
    truncated,
)

CUTS = np.array([-1.2, 0.1, 0.15, 2.0])
G = np.array([-6.0, -1.3, 0.2, 1.1, 4.0])
CASES = {
    "Poisson": (Poisson(), [0.0, 1.0, 7.0, 2.0, 60.0], [1.0, 0.5, 3.0, 1.0, 2.0]),
    "Binomial": (Binomial(), [0.0, 1.0, 5.0, 2.0, 20.0], [1.0, 1.0, 9.0, 2.0, 20.0]),
    "Gamma": (Gamma(1.7), [0.1, 1.0, 3.0, 0.2, 90.0], [1.0] * 5),
    "CumulativeProbit": (CumulativeProbit(1.0, CUTS), [1.0, 2.0, 3.0, 4.0, 5.0], [1.0] * 5),
    "StudentT": (StudentT(4.5, 0.7), [0.0, -1.3, 5.0, 1.0, -9.0], [1.0] * 5),
}
each = pytest.mark.parametrize("name", CASES)


def case(name):
    likelihood, y, sizes = CASES[name]
    return likelihood, np.array(y), np.array(sizes)


def reference(name, g, sizes):
    """Return SciPy's distribution; of levels, a table of probabilities."""
    return {
        "Poisson": lambda: poisson(sizes * np.exp(g)),
        "Binomial": lambda: binom(sizes, expit(g)),
        "Gamma": lambda: gamma(1.7, scale=np.exp(g) / 1.7),
        "StudentT": lambda: t(4.5, g, 0.7),
    }[name]()


@pytest.mark.parametrize("name", [name for name in CASES if name != "CumulativeProbit"])
def test_distributions_are_scipys(name):
    likelihood, y, sizes = case(name)
    expected = reference(name, G, sizes)
    log_density = expected.logpmf if name in ("Poisson", "Binomial") else expected.logpdf
    np.testing.assert_allclose(likelihood.log_density(y, G, sizes), log_density(y), rtol=1e-9)
    for value in (y, y - 0.4, np.full(5, -1.0), np.full(5, 400.0)):
        np.testing.assert_allclose(
            likelihood.cdf(value, G, sizes), expected.cdf(value), rtol=1e-9, atol=1e-15
        )
    np.testing.assert_allclose(likelihood.mean(G, sizes), expected.mean(), rtol=1e-12)
    np.testing.assert_allclose(likelihood.variance(G, sizes), expected.var(), rtol=1e-12)
    for p in (0.03, 0.5, 0.98):
        np.testing.assert_allclose(likelihood.quantile(p, G, sizes), expected.ppf(p), rtol=1e-9)


def test_levels_are_intervals_of_a_normal_variable():
    likelihood, levels, sizes = case("CumulativeProbit")
    table = np.diff(norm.cdf(CUTS - G[:, None]), prepend=0, append=1)  # places by levels
    found = likelihood.log_density(levels, G[:, None], sizes)
    np.testing.assert_allclose(np.exp(found), table, rtol=1e-7, atol=1e-16)
    each_below = np.cumsum(table, axis=1)
    np.testing.assert_allclose(likelihood.cdf(levels, G[:, None], sizes), each_below, atol=1e-12)
    assert likelihood.cdf(np.array([0.0, 9.0]), G[:2], sizes).tolist() == [0, 1]
    for place, g in enumerate(G):
        expected = multinomial(1, table[place])
        assert likelihood.mean(g, sizes) == pytest.approx(levels @ expected.mean(), abs=1e-12)
        variance = levels @ expected.cov() @ levels
        assert likelihood.variance(g, sizes) == pytest.approx(variance, abs=1e-9)
        above = np.argmax(each_below[place] >= 0.3)
        assert likelihood.quantile(0.3, g, sizes) == levels[above]


@each
def test_derivatives_are_limits_of_differences(name):
    """Fails if Newton's steps are wrong; a weight of Student's t is that of the EM algorithm."""
    likelihood, y, sizes = case(name)
    g, step = G[:, None] * 0.6, 1e-4

    def at(shift):
        return likelihood.log_density(y, g + shift, sizes)

    first, weight = likelihood.derivatives(y, g, sizes)
    np.testing.assert_allclose(first, (at(step) - at(-step)) / (2 * step), rtol=1e-5, atol=1e-6)
    second = (2 * at(0) - at(step) - at(-step)) / step**2
    if name == "StudentT":
        second = first / (y - g)
    np.testing.assert_allclose(weight, second, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["Poisson", "Binomial", "Gamma"])
def test_pseudo_observations_are_moments_under_the_vague_prior(name):
    likelihood, y, sizes = case(name)
    # Of g: sqrt(rate), sqrt(p (1 - p)), or one.
    power = {"Poisson": (0.5, 0.0), "Binomial": (0.5, 0.5), "Gamma": (0.0, 0.0)}[name]
    for value, size in zip(y, sizes, strict=True):
        z, v = likelihood.pseudo_observations(np.array(value), np.array(size))
        mass, mean, variance = moments(
            lambda g, value=value, size=size: (
                likelihood.log_density(np.array(value), g, np.array(size))
                + power[0] * (np.log(expit(g)) if power[1] else g)
                + power[1] * np.log(expit(-g))
            ),
            z,
            60.0,
        )
        assert mass > 0
        assert mean == pytest.approx(z, abs=1e-8)
        assert variance == pytest.approx(v, rel=1e-8)


def moments(log_density, centre, reach):
    """Return the mass, mean and variance of a density of g, by quadrature around a centre."""
    top = log_density(np.linspace(centre - reach, centre + reach, 401)).max()

    def part(k, origin):
        def integrand(g):
            return (g - origin) ** k * np.exp(log_density(np.array(g)) - top)

        halves = (centre - reach, centre), (centre, centre + reach)
        return sum(quad(integrand, *half, limit=500, epsabs=0, epsrel=1e-11)[0] for half in halves)

    mass = part(0, centre)
    mean = centre + part(1, centre) / mass
    return mass * np.exp(top), mean, part(2, mean) / mass


def tilted_by_quadrature(likelihood, value, size, mean, sd):
    """Return probability of a value, and moments of g given it, where g is normal before."""
    return moments(
        lambda g: (
            likelihood.log_density(np.array(value), g, np.array(size)) + norm.logpdf(g, mean, sd)
        ),
        mean,
        9 * sd,
    )


def test_a_level_is_what_gives_a_standard_normal_value_its_moments():
    likelihood, levels, sizes = case("CumulativeProbit")
    z, v = likelihood.pseudo_observations(levels, sizes)
    for level, site, variance in zip(levels, z, v, strict=True):
        _, mean, spread = tilted_by_quadrature(likelihood, level, 1.0, 0.0, 1.0)
        assert site / (1 + variance) == pytest.approx(mean, abs=1e-8)
        assert variance / (1 + variance) == pytest.approx(spread, abs=1e-8)


@pytest.mark.parametrize("name", ["Poisson", "Binomial", "Gamma", "CumulativeProbit"])
def test_tilted_moments_are_those_of_quadrature(name):
    likelihood, y, sizes = case(name)
    mean, sd = np.array([-2.0, 1.5])[:, None], np.array([1.3, 0.4])[:, None]
    found = tilted(likelihood, y, mean, sd, sizes)
    for i in range(2):
        for j, (value, size) in enumerate(zip(y, sizes, strict=True)):
            expected = tilted_by_quadrature(likelihood, value, size, mean[i, 0], sd[i, 0])
            mass, centre, variance = (part[i, j] for part in found)
            assert mass == pytest.approx(np.log(expected[0]), abs=1e-6)
            assert (centre, variance) == pytest.approx(expected[1:], abs=1e-6)


def test_truncated_moments_also_in_the_tails():
    low = np.array([-np.inf, -0.3, 5.0, 30.0, -38.0, 12.0])
    high = np.array([1.0, 0.2, 6.0, np.inf, -37.0, 12.0 + 1e-4])
    mass, mean, reduction = truncated(low, high)
    expected = truncnorm(low, high)
    np.testing.assert_allclose(mean, expected.mean(), rtol=1e-8)
    np.testing.assert_allclose(1 - reduction, expected.var(), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(mass[:3], np.log(norm.cdf(high[:3]) - norm.cdf(low[:3])), rtol=1e-6)
    assert log_mass(30.0, np.inf) == pytest.approx(norm.logsf(30.0), rel=1e-14)
