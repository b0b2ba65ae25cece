import numpy as np
import pytest

from kem_pymc._system.jit.simd import padded
from kem_pymc.gp.cholesky import cholesky, forward_substitution, reverse_cholesky

SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 30, 33, 64, 65, 131]


def positive_definite(n, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, n))
    return x @ x.T + 0.1 * np.eye(n)


def roomy(matrix):
    """A matrix in one of the width that is wanted, with nonsense beside its upper triangle."""
    n = len(matrix)
    out = np.full((n, padded(n)), 3.3)
    out[:, :n][np.triu_indices(n)] = matrix[np.triu_indices(n)]
    return out


def factor(matrix):
    out = roomy(matrix)
    assert cholesky(out, len(matrix), 0) == len(matrix)
    return out


def slopes(matrix, y, weights):
    """Derivatives of weighted conditional log densities of targets y, from those of prefixes.

    That of a prefix is (a a' - K^-1) / 2 with a = K^-1 y; entries off the diagonal count twice.
    """
    out = np.zeros_like(matrix)
    for n, weight in enumerate(weights - np.append(weights[1:], 0.0), 1):
        inverse = np.linalg.inv(matrix[:n, :n])
        along = inverse @ y[:n]
        out[:n, :n] += 0.5 * weight * (np.outer(along, along) - inverse)
    return 2 * np.triu(out, 1) + np.diag(np.diag(out))


@pytest.mark.parametrize("n", SIZES)
def test_factor_is_that_of_lapack(n):
    matrix = positive_definite(n)
    expected = np.linalg.cholesky(matrix, upper=True)
    np.testing.assert_allclose(np.triu(factor(matrix)[:, :n]), expected, rtol=1e-10, atol=1e-12)


def test_a_prefix_has_the_same_factor_to_the_last_bit():
    matrix = positive_definite(30)
    whole = np.triu(factor(matrix)[:, :30])
    for n in range(1, 30):
        np.testing.assert_array_equal(np.triu(factor(matrix[:n, :n])[:, :n]), whole[:n, :n])


@pytest.mark.parametrize("failing", [0, 1, 3, 4, 6, 11, 12])
@pytest.mark.parametrize("pivot", [-1e-6, -1.0, np.nan, np.inf])
def test_goes_on_after_a_failure(failing, pivot):
    """Rows are those of a matrix whose diagonal was large enough at once."""
    matrix = positive_definite(13)
    upper = np.linalg.cholesky(matrix, upper=True)
    given = matrix.copy()
    given[failing, failing] = (upper[:failing, failing] ** 2).sum() + pivot
    out = roomy(given)
    assert cholesky(out, 13, 0) == failing
    out[failing, failing] = upper[failing, failing] ** 2
    assert cholesky(out, 13, failing) == 13
    np.testing.assert_allclose(np.triu(out[:, :13]), upper, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("n", SIZES)
def test_forward_substitution(n):
    matrix, y = positive_definite(n), np.random.default_rng(1).normal(size=n)
    u, v = factor(matrix), np.empty(n)
    forward_substitution(u, y, n, v)
    np.testing.assert_allclose(np.triu(u[:, :n]).T @ v, y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_reverse_is_the_derivative_of_the_density(n):
    rng, matrix = np.random.default_rng(2), positive_definite(n)
    u, v, weights = factor(matrix), rng.normal(size=n), rng.uniform(size=n)
    adjoint = np.full((n, padded(n)), np.nan)
    reverse_cholesky(u, v, n, weights, adjoint)
    expected = slopes(matrix, np.triu(u[:, :n]).T @ v, weights)
    np.testing.assert_allclose(
        np.triu(adjoint[:, :n]), expected, rtol=1e-7, atol=1e-8 * np.abs(expected).max()
    )
