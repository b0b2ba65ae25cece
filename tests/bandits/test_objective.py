"""Objectives: bounds that are what they say, by simulations with other random numbers."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from kem_pymc.bandits import Composed, Weighted, exploration
from kem_pymc.errors import InputError
from tests.refusals import refused

#: Moments of three components at 150 points.
RNG = np.random.default_rng(8)
X = np.linspace(0, 1, 150)[:, None]
MEANS, VARIANCES = RNG.normal(size=(150, 3)), RNG.uniform(0.1, 2.0, (150, 3))


def jump(a, b, c):
    """A sum that jumps by 4 where a passes one, and down by 2 where b passes zero."""
    return a + 0.5 * b * c + np.where(a > 1, 4.0, 0.0) - np.where(b > 0, 2.0, 0.0)


def wave(a, b, c):
    """Derivatives of 2, 1 and 0.5 at most."""
    return np.sin(2 * a) + np.tanh(b) - 0.5 * np.abs(c)


WAVE = [2.0, 1.0, 0.5]


def rising(a, b, c):
    """A function whose largest value in a box is in its upper corner."""
    return np.exp(a) + 2 * b + np.where(c > 0, 3.0, 0.0)


def simulated(few, seed):
    """Return values of `jump` (n, few) of draws of the components at the first points."""
    draws = np.random.default_rng(seed).normal(size=(200_000, few, 3))
    return jump(*np.moveaxis(MEANS[:few] + np.sqrt(VARIANCES[:few]) * draws, 2, 0))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_sum_of_correlated_components(sign):
    """In closed form: quantile, moments and expected improvement; without the correlation not."""
    weights, correlation = (
        np.array([1.0, -2.0, 0.5]),
        [[1, -0.6, 0.2], [-0.6, 1, 0.1], [0.2, 0.1, 1]],
    )
    objective = Composed(lambda a, b, c: a - 2 * b + 0.5 * c, 3, correlation=correlation)
    scaled = np.sqrt(VARIANCES) * weights
    sd = np.sqrt(np.einsum("mi,ij,mj->m", scaled, correlation, scaled))
    mean, variance = objective.moments(X, MEANS, VARIANCES)
    np.testing.assert_allclose(mean, MEANS @ weights, atol=0.02)
    np.testing.assert_allclose(np.sqrt(variance), sd, rtol=0.03)
    upper = objective.upper(X, MEANS, VARIANCES, 2.5, sign)
    error = (upper - (sign * MEANS @ weights + 2.5 * sd)) / (2.5 * sd)
    assert np.sqrt(np.mean(error**2)) < 0.04
    gain = np.exp(objective.log_improvement(X, MEANS, VARIANCES, 0.5, sign))
    z = sign * (MEANS @ weights - 0.5) / sd
    exact = sd * (z * ndtr(z) + np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi))
    np.testing.assert_allclose(gain, exact, atol=0.03)
    for wrong in (np.eye(2), np.ones((3, 3)), 2 * np.eye(3), np.triu(np.ones((3, 3)))):
        refused(lambda wrong=wrong: Composed(max, 3, correlation=wrong), "positive definite matrix")


def test_weights():
    objective = Weighted([2.0, lambda x: x[:, 0]])
    x = np.array([[1.0], [3.0]])
    np.testing.assert_array_equal(objective.weights(x), [[2, 1], [2, 3]])
    np.testing.assert_array_equal(objective.value(x, np.array([[1, 1], [1, 2]])), [3, 8])
    mean, variance = objective.moments(x, np.ones((2, 2)), np.ones((2, 2)))
    np.testing.assert_array_equal(mean, [3, 5])
    np.testing.assert_array_equal(variance, [5, 13])


@pytest.mark.parametrize("reach", [1.0, 2.5, 4.0, 6.5])
def test_the_quantile_of_a_sum_is_the_bound_of_gp_ucb(reach):
    """Up to an error of 4 % of its width; of plain draws it would be 30 % less from 4 sd on."""
    weights = [1.0, -2.0, 0.5]
    exact = Weighted(weights).upper(X, MEANS, VARIANCES, reach, 1.0)
    composed = Composed(lambda a, b, c: a - 2 * b + 0.5 * c, 3)
    width = reach * np.sqrt(VARIANCES @ np.square(weights))
    error = (composed.upper(X, MEANS, VARIANCES, reach, 1.0) - exact) / width
    assert np.sqrt(np.mean(error**2)) < 0.04
    assert np.abs(error).max() < 0.12


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("reach", [0.5, 2.9, 6.5])
def test_the_quantile_of_a_monotone_function_is_that_of_its_component(sign, reach):
    """Exactly, as no values are averaged; the component's own is exact to 1.5 % of its width."""
    moments = MEANS[:, :1], VARIANCES[:, :1]
    plain = Composed(lambda a: a, 1).upper(X, *moments, reach, sign)
    exact = Weighted(1).upper(X, *moments, reach, sign)
    width = max(reach, 1.0) * np.sqrt(VARIANCES[:, 0])
    np.testing.assert_array_less(np.abs(plain - exact), 0.015 * width)
    steps = Composed(lambda a: np.exp(a) + (a > 1), 1).upper(X, *moments, reach, sign)
    own = sign * plain
    np.testing.assert_allclose(steps, sign * (np.exp(own) + (own > 1)), rtol=1e-12)


@pytest.mark.parametrize("reach", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_values_beyond_the_quantile_are_as_rare_as_it_says(reach, sign):
    """Of a function that jumps, in 200,000 draws of 40 points by another generator."""
    bounds = Composed(jump, 3).upper(X, MEANS, VARIANCES, reach, sign)[:40]
    found = -ndtri((sign * simulated(40, 3) > bounds).mean(axis=0))
    assert np.sqrt(np.mean((found - reach) ** 2)) < 0.08 * reach


def test_moments_and_improvements_against_simulation():
    objective, values = Composed(jump, 3), simulated(40, 4)
    mean, variance = objective.moments(X, MEANS, VARIANCES)
    np.testing.assert_allclose(mean[:40], values.mean(axis=0), atol=0.1)
    np.testing.assert_allclose(variance[:40], values.var(axis=0), rtol=0.08)
    for sign, best in ((1.0, 3.0), (-1.0, -3.0)):
        gains = np.exp(objective.log_improvement(X, MEANS, VARIANCES, best, sign))[:40]
        exact = np.maximum(sign * (values - best), 0).mean(axis=0)
        np.testing.assert_allclose(gains, exact, rtol=0.2, atol=0.03)


def test_hopeless_points_have_an_order():
    """No draw improves on 1,000, and the closest to it are still the best."""
    objective = Composed(lambda a, b, c: a + b + c, 3)
    heights = objective.log_improvement(X, MEANS, np.ones((150, 3)), 1e3, 1.0)
    assert np.isfinite(heights).all()
    np.testing.assert_array_equal(np.argsort(heights), np.argsort(MEANS.sum(axis=1)))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_box_is_between_the_quantile_and_the_theorem(sign):
    """The quantile of a rising function that jumps, and the theorem with true derivatives.

    With the beta of theorem 7 for the quantile, and of theorem 8 for the others.
    """
    rules = {
        rule: Composed(wave, 3, rule, WAVE if rule == "theorem" else None)
        for rule in ("box", "theorem")
    }
    rules |= {f"rising {rule}": Composed(rising, 3, rule) for rule in ("quantile", "box")}
    for t in (1, 50):
        bounds = {}
        for rule, objective in rules.items():
            reach = np.sqrt(exploration(t, points=150, components=objective.joint))
            bounds[rule] = objective.upper(X, MEANS, VARIANCES, reach, sign)
        assert (bounds["rising quantile"] <= bounds["rising box"]).all()
        assert (bounds["box"] <= bounds["theorem"]).all()
    spread = np.sqrt(3 * (4 * VARIANCES[:, 0] + VARIANCES[:, 1] + 0.25 * VARIANCES[:, 2]))
    center = sign * wave(*MEANS.T)
    np.testing.assert_allclose(bounds["theorem"], center + reach * spread)


def test_a_box_has_its_corners_and_what_is_between():
    reach = 2.5
    ends = MEANS + reach * np.sqrt(VARIANCES) * [1, -1, 1]
    corner = Composed(lambda a, b, c: a - b + c, 3, "box").upper(X, MEANS, VARIANCES, reach, 1.0)
    np.testing.assert_allclose(corner, ends @ [1, -1, 1])
    inside = Composed(lambda a: -((a - 0.3) ** 2), 1, "box")
    tops = inside.upper(X, MEANS[:, :1], VARIANCES[:, :1], reach, 1.0)
    far = np.maximum(np.abs(MEANS[:, 0] - 0.3) - reach * np.sqrt(VARIANCES[:, 0]), 0)
    np.testing.assert_allclose(tops, -(far**2), atol=1e-3)


@pytest.mark.parametrize("rule", ["quantile", "box"])
def test_all_points_have_the_same_draws(rule):
    """Scores don't depend on other points, of which there are too many for one computation."""
    objective = Composed(jump, 3, rule)
    many = [np.tile(part, (3, 1)) for part in (X, MEANS, VARIANCES)]
    tops, more = (objective.upper(*parts, 2.0, 1.0) for parts in ((X, MEANS, VARIANCES), many))
    np.testing.assert_array_equal(more, np.tile(tops, 3))
    gains = objective.log_improvement(X, MEANS, VARIANCES, 1.0, 1.0)
    for few in (slice(7, 9), slice(0)):
        parts = (part[few] for part in (X, MEANS, VARIANCES))
        some = objective.log_improvement(*parts, 1.0, 1.0)
        np.testing.assert_allclose(some, gains[few], rtol=1e-12)


def test_what_is_refused():
    x, components = np.zeros((3, 1)), np.zeros((3, 2))
    with pytest.raises(InputError, match="weights contain"):
        Weighted([1.0, np.inf])
    with pytest.raises(InputError, match=r"weights is 2\.0"):
        Weighted(2.0)
    with pytest.raises(InputError, match="component 1 has shape"):
        Weighted([lambda x: x[:2, 0]]).weights(x)
    with pytest.raises(InputError, match=r"g isn't finite at the components \[0.0, 0.0\]"):
        Composed(lambda a, b: np.log(a) + b, 2).value(x, components)
    with pytest.raises(InputError, match="g returns shape"):
        Composed(lambda a, b: (a + b).sum(), 2).value(x, components)
    with pytest.raises(InputError, match="rule"):
        Composed(wave, 3, "ball")
    for rule, bounds in (("theorem", [1, 1, -1]), ("theorem", None), ("box", WAVE)):
        with pytest.raises(InputError, match="bounds of derivatives are"):
            Composed(wave, 3, rule, bounds)
