"""Objectives: bounds of derivatives that bound, and functions that fail."""

import numpy as np
import pytest

from kem_pymc.bandits import Nonlinear, Propagated, Weighted, sampled_bounds
from kem_pymc.errors import InputError


def cubic(a, b):
    """Derivatives 3 a^2 + b and a, largest in corners: 13 and 2 on [-2, 2] x [-3, 1]."""
    return a**3 + a * b


LOW, HIGH = [-2.0, -3.0], [2.0, 1.0]


def test_bounds_of_derivatives():
    """In the order of the components: exchanged ones would be the other's."""
    sampled = sampled_bounds(cubic, LOW, HIGH)
    assert (sampled >= [12.5, 2.0]).all()
    assert (sampled <= 1.05 * np.array([13.0, 2.0])).all()


def test_a_derivative_beyond_its_bound_is_reported():
    objective = Nonlinear(cubic, bounds=[5.0, 2.0])
    objective.check(np.array([1.0, 1.0]))
    with pytest.warns(UserWarning, match=r"component 1 is 13 at \[2.0, 1.0\], beyond its bound 5"):
        objective.check(np.array([2.0, 1.0]))


def test_weights():
    objective = Weighted([2.0, lambda x: x[:, 0]])
    x = np.array([[1.0], [3.0]])
    np.testing.assert_array_equal(objective.weights(x), [[2, 1], [2, 3]])
    np.testing.assert_array_equal(objective.value(x, np.array([[1, 1], [1, 2]])), [3, 8])
    mean, variance = objective.moments(x, np.ones((2, 2)), np.ones((2, 2)))
    np.testing.assert_array_equal(mean, [3, 5])
    np.testing.assert_array_equal(variance, [5, 13])


def test_what_is_refused():
    x, components = np.zeros((3, 1)), np.zeros((3, 2))
    with pytest.raises(InputError, match="weights contain"):
        Weighted([1.0, np.inf])
    with pytest.raises(InputError, match=r"weights is 2\.0"):
        Weighted(2.0)
    with pytest.raises(InputError, match="component 1 has shape"):
        Weighted([lambda x: x[:2, 0]]).weights(x)
    with pytest.raises(InputError, match=r"g isn't finite at the components \[0.0, 0.0\]"):
        Nonlinear(lambda a, b: np.log(a) + b, [1, 1]).value(x, components)
    with pytest.raises(InputError, match="g returns shape"):
        Nonlinear(lambda a, b: (a + b).sum(), [1, 1]).value(x, components)
    with pytest.raises(InputError, match="bounds are"):
        Nonlinear(cubic, [1, -1])
    with pytest.raises(InputError, match="component 1 isn't finite"):
        sampled_bounds(lambda a, b: np.sqrt(a) + b, LOW, HIGH)
    with pytest.raises(InputError, match="is empty"):
        sampled_bounds(cubic, HIGH, LOW)


def test_propagated_uncertainty():
    """That of a linear function exactly, and at a kink half of what the slope would give."""
    linear = Propagated(lambda a, b: 2 * a - b, 2)
    linear.check(np.ones(2))  # there are no bounds
    means, variances = np.array([[1.0, 5.0]]), np.array([[0.3, 2.0]])
    mean, variance = linear.moments(means, means, variances)
    np.testing.assert_allclose([mean[0], variance[0]], [-3.0, 4 * 0.3 + 2.0])
    kink = Propagated(lambda a: np.maximum(a, 0.0), 1)
    _, variance = kink.moments(means, np.zeros((1, 1)), np.full((1, 1), 4.0))
    np.testing.assert_allclose(variance, 1.0)
