"""The likelihood with known noise of targets, against dense normal distributions."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kem_pymc.population.likelihood import MANY, Products, Scales

#: Numbers of rows of three users: fewer than two columns, some more, and enough for a regression.
ROWS = (1, 6, 3 * MANY)


def distinct(rng, n):
    return rng.uniform(0.01, 30, n)


def few(rng, n):
    """Three of four rows have the same noise, so that there are more of them than columns."""
    return np.where(np.arange(n) % 4, 0.25, rng.uniform(1, 30, n))


def partial(rng, n):
    return np.where(np.arange(n) % 2, 0.0, rng.uniform(0.01, 30, n))


@pytest.fixture
def columns():
    rng = np.random.default_rng(0)
    return [[rng.normal(size=(n, size)) for n in ROWS] for size in (3, 2)], [
        3 * rng.normal(size=n) for n in ROWS
    ]


@pytest.fixture
def scaled():
    sds, root = np.array([10.0, 1.0, 0.5]), np.array([[0.8, 0.0], [-0.5, 1.3]])

    def scales(*noise):
        count = len(noise)
        return Scales(np.tile(sds, (count, 1)), np.tile(root, (count, 1, 1)), np.array(noise))

    return scales


@pytest.mark.parametrize(
    ("pattern", "noise"),
    [(distinct, (1e-5, 0.1, 3.0)), (few, (1e-5, 0.1, 3.0)), (partial, (0.1, 3.0))],
)
def test_known_noise_adds_to_that_of_each_target(columns, scaled, pattern, noise):
    """Catches sds in place of variances, and rows, users or groups that are swapped.

    Of all rows, of users alone, and with a user left out.
    """
    (shared, personal), targets = columns
    rng, every = np.random.default_rng(1), scaled(*noise)
    known = [pattern(rng, n) for n in ROWS]
    products = Products.of(shared, personal, targets, known)
    for users in ([0, 1, 2], [1], [0, 2]):
        h, y = (np.concatenate([part[u] for u in users]) for part in (shared, targets))
        user = np.repeat(users, [ROWS[u] for u in users])
        own = np.vstack([personal[u] for u in users]) @ every.personal[0]
        within = (h * every.shared[0] ** 2) @ h.T + own @ own.T * (user[:, None] == user)
        variances = np.concatenate([known[u] for u in users])
        found = products.take(users).total(every).given(every).log_likelihood
        for s, value in zip(noise, found, strict=True):
            law = multivariate_normal(np.zeros(len(y)), within + np.diag(s**2 + variances))
            assert value == pytest.approx(law.logpdf(y), rel=1e-8)
    whole, without = products.total(every), products.take([1]).total(every)
    for one, other in zip(whole.without(without), products.take([0, 2]).total(every), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_equal_known_noise_is_as_much_more_of_the_noise_that_is_learned(columns, scaled):
    """To rounding errors, also where the latter is nearly none."""
    (shared, personal), targets = columns

    def log_likelihood(known, *noise):
        variances, every = [np.full(n, known) for n in ROWS], scaled(*noise)
        products = Products.of(shared, personal, targets, variances)
        return products.total(every).given(every).log_likelihood

    sds = np.array([1e-5, 0.3, 2.0])
    together = log_likelihood(0.0, *np.sqrt(sds**2 + 0.7))
    np.testing.assert_allclose(log_likelihood(0.7, *sds), together, rtol=1e-12)
