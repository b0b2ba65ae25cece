"""Responses against quadrature, and closed forms where there are some."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import nbinom, norm, poisson

from kem_pymc.data.families import Family
from kem_pymc.gp.mixture import Mixture
from kem_pymc.gp.response import Response

WEIGHTS, NOISES = np.array([0.3, 0.7]), np.array([0.04, 0.01])
NARROW, WIDE = (
    (np.array([0.3, 0.9]), np.array([0.4, 0.25])),
    (np.array([0.5, 3.0]), np.array([2.5, 1])),
)
FAMILIES = {
    "count": (Family("count"), [0, 1, 7, 500], 2.0),
    "binary": (Family("binary"), [0, 1], None),
    "binomial": (Family("binomial"), [0, 3, 10], 10.0),
    "ordinal": (Family("ordinal", (1, -1, 0.3, 2)), [1, 3, 4], None),
    "positive": (Family("positive", (0.7,)), [0.01, 1, 30], None),
    "precise": (Family("positive", (200,)), [0.5, 1, 30], None),
    "student": (Family("student", (3, 0.5)), [-40, 0, 1, 8], None),
}
each = pytest.mark.parametrize("kind", FAMILIES)
both = pytest.mark.parametrize("means_sds", [NARROW, WIDE], ids=["narrow", "wide"])


def response(kind, means_sds):
    """Return a response whose latent value has a mixture of N(mean, sd^2)."""
    family, y, size = FAMILIES[kind]
    means, sds = means_sds
    y = np.array(y, dtype=float)
    means, sds = np.repeat([means, np.sqrt(sds**2 - NOISES)], len(y), axis=1).reshape(2, 2, -1)
    sizes = None if size is None else np.full(len(y), size)
    return Response(Mixture(WEIGHTS, means, sds), NOISES[:, None], family, sizes), y


def expectation(function, means_sds, points=()):
    """Return the expectation of a function of the latent value, by SciPy's quadrature."""
    total = 0.0
    for weight, mean, sd in zip(WEIGHTS, *means_sds, strict=True):
        inside = sorted({p for p in (*points, mean) if abs(p - mean) < 10 * sd})
        ends = [mean - 10 * sd, *inside, mean + 10 * sd]
        for low, high in pairwise(ends):
            part, _ = quad(
                lambda g, mean=mean, sd=sd: float(function(g)) * norm.pdf(g, mean, sd),
                low,
                high,
                limit=200,
                epsabs=1e-13,
            )
            total += weight * part
    return total


@both
@each
def test_densities_and_probabilities_are_expectations(kind, means_sds):
    """Fails if nodes are too far apart for large counts, or weights don't fit the nodes."""
    found, y = response(kind, means_sds)
    family, _, size = FAMILIES[kind]
    log_density, below = found.log_density(y), found.cdf(y)
    for i, value in enumerate(y):
        near = np.log(max(value, 0.1) / (size or 1))
        points = [near - 0.2, near, near + 0.2] if family.name in ("count", "positive") else []
        density = expectation(
            lambda g, value=value: np.exp(family.log_density(value, g, size)), means_sds, points
        )
        if density > 1e-30:
            assert log_density[i] == pytest.approx(np.log(density), abs=1e-5)
        expected = expectation(lambda g, value=value: family.cdf(value, g, size), means_sds, points)
        assert below[i] == pytest.approx(expected, abs=2e-5 if kind == "positive" else 1e-6)


@both
@each
def test_moments_are_expectations(kind, means_sds):
    found, _ = response(kind, means_sds)
    family, _, size = FAMILIES[kind]
    mean, sd = (part[0] for part in found.moments())
    expected = expectation(lambda g: family.mean(g, size), means_sds)
    assert mean == pytest.approx(expected, rel=5e-6)
    second = expectation(lambda g: family.variance(g, size) + family.mean(g, size) ** 2, means_sds)
    assert sd**2 + mean**2 == pytest.approx(second, rel=1e-3 if means_sds is WIDE else 1e-6)
    mean_of_curve, sd_of_curve = (part[0] for part in found.curve())
    assert mean_of_curve == pytest.approx(mean, rel=1e-6)
    assert 0 < sd_of_curve < sd


@pytest.mark.parametrize("probability", [0.02, 0.5, 0.975])
@both
@each
def test_quantiles_are_the_first_with_the_probability(kind, means_sds, probability):
    found, _ = response(kind, means_sds)
    quantile = found.quantile(probability)
    np.testing.assert_array_less(probability - 1e-7, found.cdf(quantile))
    less = quantile - 1 if found.family.discrete else quantile - 1e-4 * np.abs(quantile)
    np.testing.assert_array_less(found.cdf(less), probability)
    assert (found.family.discrete) == (quantile == np.round(quantile)).all()


@both
@each
def test_crps_is_the_integral_that_defines_it(kind, means_sds):
    found, y = response(kind, means_sds)
    whole = found.family.discrete
    if whole:
        t = np.arange(max(found.quantile(1 - 1e-3)[0], y.max()) + 1)
    else:
        ends = np.arcsinh([found.quantile(p)[0] for p in (1e-5, 1 - 1e-5)])
        t = np.unique(np.append(np.sinh(np.linspace(*ends, 4001)), y))
    means, sds = (
        np.repeat(part[:, :1], len(t), axis=1) for part in (found.function.mean, found.function.sd)
    )
    sizes = None if found.sizes is None else np.full(len(t), found.sizes[0])
    below = Response(Mixture(WEIGHTS, means, sds), NOISES[:, None], found.family, sizes).cdf(t)
    for value, score in zip(y, found.crps(y), strict=True):
        if whole:
            expected = ((below - (t >= value)) ** 2).sum()
        else:
            expected = np.trapezoid(np.where(t <= value, below, 0) ** 2, t)
            expected += np.trapezoid(np.where(t >= value, 1 - below, 0) ** 2, t)
        assert score == pytest.approx(expected, rel=5e-3)


def test_counts_with_a_gamma_rate_are_about_negative_binomial():
    """A closed form that shares nothing with the quadrature: a narrow gamma is about lognormal."""
    shape = 400.0
    noise = np.array([np.log1p(1 / shape)])
    g = Mixture(np.ones(1), np.array([[np.log(3.0) - noise[0] / 2] * 8]), np.full((1, 8), 1e-6))
    found, y = Response(g, noise[:, None], Family("count")), np.arange(8.0)
    expected = nbinom(shape, shape / (shape + 3))
    np.testing.assert_allclose(found.log_density(y), expected.logpmf(y), atol=1e-4)
    np.testing.assert_allclose(found.cdf(y), expected.cdf(y), atol=1e-5)
    np.testing.assert_allclose(found.moments()[1], expected.std(), rtol=1e-6)
    assert np.abs(found.log_density(y) - poisson.logpmf(y, 3)).max() > 1e-3


def test_quantiles_of_a_curve_of_counts_are_lognormal():
    """Fails if errors of kernels are mixed up, or sizes are left out."""
    weights, mean, sd = np.array([0.3, 0.7]), np.array([[0.2], [1.4]]), np.array([[0.5], [0.8]])
    noises, sizes = np.array([1.0, 0.1]), np.array([3.0])
    found = Response(Mixture(weights, mean, sd), noises[:, None], Family("count"), sizes)
    logs = Mixture(weights, mean + noises[:, None] / 2 + np.log(3), sd)
    for probability in (0.025, 0.5, 0.975):
        expected = np.exp(logs.quantile(probability))
        np.testing.assert_allclose(found.curve_quantile(probability), expected, rtol=0.02)


@pytest.mark.parametrize("kind", ["binary", "ordinal"])
def test_probabilities_of_levels_are_those_of_their_targets(kind):
    found, _ = response(kind, NARROW)
    table = found.probabilities()
    assert table.shape == (len(found.latent.mean[0]), len(found.family.levels))
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-7)
    np.testing.assert_allclose(table @ found.family.levels, found.moments()[0], atol=1e-7)


def test_an_outlier_of_student_has_the_density_of_its_tail():
    """Fails where the nodes of the precision leave out small ones: the tail would be normal."""
    found, _ = response("student", NARROW)
    far = np.full(len(found.latent.mean[0]), 300.0)
    family = FAMILIES["student"][0]
    expected = expectation(partial(family.log_density, far[0]), NARROW)
    assert found.log_density(far)[0] == pytest.approx(expected, abs=1e-3)
