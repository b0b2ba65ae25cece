"""Functions drawn from a prior have its covariance."""

import numpy as np

import kem_pymc as kem
from tests.refusals import refused

VALUES = {
    **{
        "LIN0 x SE1.amplitude": 0.7,
        "LIN0 x SE1.LIN0.shift": 0.4,
        "LIN0 x SE1.SE1.lengthscale": 0.8,
    },
    **{"PER1.amplitude": 1.5, "PER1.lengthscale": 1.2, "PER1.period": 2.0},
}
POINTS = np.array([[0.1, 2.0], [1.3, -0.5], [2.0, 0.3]])


def plain(x):
    a, b = x.T
    apart = b[:, None] - b
    product = 0.7 * np.outer(a - 0.4, a - 0.4) * np.exp(-0.5 * (apart / 0.8) ** 2)
    return product + 1.5 * np.exp(-2 * np.sin(np.pi * apart / 2) ** 2 / 1.2**2)


def test_functions_have_the_covariance_of_the_composition():
    n = 20_000
    functions = kem.gp.draw_functions("LIN0 x SE1 + PER1", POINTS, VALUES, n, rng=3)
    assert functions.shape == (n, 3)
    expected = plain(POINTS)
    variance = np.diag(expected)
    error = np.sqrt((np.outer(variance, variance) + expected**2) / n)
    assert (np.abs(functions.T @ functions / n - expected) < 5 * error).all()
    assert (np.abs(functions.mean(axis=0)) < 5 * np.sqrt(variance / n)).all()


def test_every_draw_may_have_values_of_its_own():
    values = {"SE0.amplitude": [1e-12, 1.0], "SE0.lengthscale": 1.0, "noise": [1.0, 2.0]}
    small, large = kem.gp.draw_functions("SE0", [0.0, 1.0], values, 2)
    assert np.abs(small).max() < 1e-4 < np.abs(large).min()


def test_white_has_no_function():
    np.testing.assert_array_equal(kem.gp.draw_functions("WHITE", POINTS, {}, 2), np.zeros((2, 3)))


def test_refusals():
    def drawn(x=POINTS, **changes):
        return lambda: kem.gp.draw_functions("PER1", x, VALUES | changes, 2)

    refused(drawn(**{"PER1.period": np.nan}), "PER1.period", "finite")
    refused(drawn(**{"PER1.period": [1.0, 2.0, 3.0]}), "PER1.period", "2 draws")
    refused(drawn(x=[[np.inf, 1.0]]), "finite")
