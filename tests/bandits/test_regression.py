"""Decomposed regression: closed forms, and theorem 6 for random kernels, weights and data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kem_pymc.bandits import (
    ComposedProcess,
    DecomposedPosterior,
    GaussianProcess,
    Weighted,
    error_correlation,
)
from kem_pymc.errors import InputError
from kem_pymc.gp.posterior import Posterior


def process(kind, lengthscale, noise, amplitude=1.0, mean=0.0):
    values = {f"{kind}0.amplitude": amplitude, f"{kind}0.lengthscale": lengthscale}
    values[f"{kind}0.mixture"] = 1.5
    return GaussianProcess.of(f"{kind}0", values, noise, mean=mean)


COMPONENTS = [process("SE", 0.2, 0.01, mean=1.0), process("MATERN52", 0.5, 0.2, 2.0)]
RNG = np.random.default_rng(0)
X, Z = RNG.uniform(size=(9, 1)), RNG.uniform(size=(6, 1))
Y = np.column_stack([np.sin(6 * X[:, 0]), X[:, 0] ** 2])


def test_draws_of_a_component_are_a_mixture():
    """By the law of total variance; catches variances without that of the means."""
    drawn = [COMPONENTS[0], process("SE", 0.5, 0.2, mean=2.0)]
    own = DecomposedPosterior([drawn], Weighted(1), Z)
    each = [Posterior.unobserved(draw, Z) for draw in drawn]
    for x, y in zip(X, Y[:, 0], strict=True):
        own.observe(x, [y])
        each = [posterior.observe(x, y) for posterior in each]
    for found, inputs in ((own.at_points, Z), (own.predict(Z.copy()), Z), (own.predict(-Z), -Z)):
        means, variances = np.array([draw.predict(inputs) for draw in each]).transpose(1, 0, 2)
        total = means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)
        np.testing.assert_allclose(found, total, rtol=1e-9)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 12))
def test_theorem_6(seed, count, n):
    """The variance is never larger; with weights squared, or the noise left out, it would be."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(["SE", "MATERN52", "MATERN32", "RQ"], count)
    components = [
        process(
            kind, *np.exp(rng.normal(-1, 1, 1)), np.exp(rng.normal(-2, 3)), np.exp(rng.normal())
        )
        for kind in kinds
    ]
    slopes, levels = rng.normal(size=(2, count))
    weights = [
        lambda x, a=a, b=b: a * np.sin(3 * x[:, 0]) + b for a, b in zip(slopes, levels, strict=True)
    ]
    objective = Weighted(weights)
    x, z = rng.uniform(size=(n, 1)), rng.uniform(size=(10, 1))
    own = DecomposedPosterior(components, objective, z)
    composed = Posterior.unobserved(ComposedProcess(components, objective), z)
    for point in x:
        y = rng.normal(size=count)
        own.observe(point, y)
        composed = composed.observe(point, float(objective.value(point[None], y[None])[0]))
    scale = composed.process.variance(z)
    assert (own.at_points[1] <= composed.at_points[1] + 1e-9 * scale).all()


def test_components_without_an_observation_are_not_updated():
    own = DecomposedPosterior(COMPONENTS, Weighted(2), Z)
    before = own.posteriors[1]
    own.observe(X[0], [0.3, np.nan])
    assert own.posteriors[0][0].n == 1
    assert own.posteriors[1] is before


def test_a_refused_observation_leaves_nothing_behind():
    exact = [process("SE", 0.2, 0.0), process("SE", 0.3, 0.0)]
    own = DecomposedPosterior(exact, Weighted(2), Z)
    own.observe(X[0], [1.0, 2.0])
    with pytest.raises(InputError, match="contradicts"):
        own.observe(X[0], [1.0, 3.0])
    with pytest.raises(InputError, match="contradicts"):
        own.observe(X[0], [0.0, 2.0])
    assert [posterior.n for (posterior,) in own.posteriors] == [1, 1]


def test_errors_of_correlated_components():
    """Each observation predicted from the others; of functions with a correlation of -.6."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 100, (150, 1))
    own = process("SE", 0.2, 0.01)
    root = np.linalg.cholesky(own.covariance(x, x) + 1e-9 * np.eye(150))
    y = root @ rng.normal(size=(150, 2)) @ [[1.0, -0.6], [0.0, 0.8]]
    y += 0.1 * rng.normal(size=(150, 2))
    found = error_correlation([own, own], x, y)
    errors = np.empty((150, 2))
    for i, at in enumerate(x):
        rest = np.arange(150) != i
        for j in (0, 1):
            mean, variance = Posterior.of(own, x[rest], y[rest, j]).predict(at[None])
            errors[i, j] = (y[i, j] - mean[0]) / np.sqrt(variance[0] + 0.01)
    product = (errors[:, 0] * errors[:, 1]).sum() / np.sqrt((errors**2).sum(axis=0).prod())
    assert -0.7 < found[0, 1] < -0.3
    np.testing.assert_allclose(found, [[1, product * 15 / 16], [product * 15 / 16, 1]], atol=1e-6)
    for wrong in (([own], x, y), ([own, own], x[:2], y[:2]), ([own, own], np.hstack([x, x]), y)):
        with pytest.raises(InputError, match="three points or more"):
            error_correlation(*wrong)


def test_what_is_refused():
    with pytest.raises(InputError, match="components is 2, and that of the objective 3"):
        DecomposedPosterior(COMPONENTS, Weighted(3))
    other = GaussianProcess.of(
        "SE0", {"SE0.amplitude": 1.0, "SE0.lengthscale": 1.0}, 0.1, dimension=2
    )
    with pytest.raises(InputError, match="1 and 2 inputs"):
        DecomposedPosterior([COMPONENTS[0], other], Weighted(2))
