import numpy as np
import pytest

from kem_pymc.gp.covariance import covariance, cross_covariances, natural_values, variances
from kem_pymc.kernels.library import kernels
from kem_pymc.kernels.pool import CandidatePool
from tests.gp.problems import HYPERPARAMETERS, LONGER, PAIRS, Problem


class TestCovariance:
    @pytest.mark.parametrize("text", ["WHITE", *PAIRS, *LONGER])
    def test_sums_products_with_one_amplitude_each(self, text):
        problem = Problem(text)
        out = np.full((12, 12), np.nan)
        covariance(*problem.code[:-1], problem.x, out, np.empty((12, 12)))
        np.testing.assert_allclose(np.triu(out), np.triu(problem.kernel_matrix()), rtol=1e-12)


POOL = CandidatePool(["SE1", "LIN1 x PER0", "CONST"], 2)
VALUES = {name: v for name, v in HYPERPARAMETERS.items() if not name.startswith("LIN0")}


def by_numpy(x, z):
    """Return the covariances (n, m) of the pool's candidates, written out."""
    (x0, x1), (z0, z1) = x[:, :, None], z[:, None, :]
    sine = np.sin(np.pi * (x0 - z0) / 0.9) / 1.1
    return [
        0.8 * np.exp(-0.5 * ((x1 - z1) / 0.7) ** 2),
        0.6 * (x1 + 0.3) * (z1 + 0.3) * np.exp(-2 * sine**2),
        0.5 + 0 * x0 * z0,
    ]


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 2, (2, 6)), rng.uniform(-1, 2, (2, 4))


def test_a_sum_is_that_of_numpy(points):
    """Catches an amplitude that multiplies every factor, and a term that replaces the others."""
    x, h = points[0], POOL.unconstrained(VALUES)
    for active in ([0, 1, 2], [2, 1], [1]):
        out, room = np.full((6, 8), np.nan), np.empty((6, 8))
        covariance(kernels(), POOL.layout, np.array(active), h, x, out, room)
        expected = sum(by_numpy(x, x)[c] for c in active)
        np.testing.assert_allclose(np.triu(out[:, :6]), np.triu(expected), rtol=0, atol=1e-12)


def test_nothing_has_no_covariance(points):
    out = np.full((6, 8), np.nan)
    nothing = np.empty(0, dtype=np.int64)
    h = POOL.unconstrained(VALUES)
    covariance(kernels(), POOL.layout, nothing, h, points[0], out, out.copy())
    assert (out[:, :6] == 0).all()


def test_a_candidates_covariance_with_other_points_is_that_of_numpy(points):
    x, z = points
    h = POOL.unconstrained(VALUES)
    for active in (np.arange(3), np.array([2, 0])):
        across, own = (np.array(by_numpy(x, z)), np.array(by_numpy(z, z)))
        found = cross_covariances(kernels(), POOL.layout, active, h, x, z)
        np.testing.assert_allclose(found, across[active], rtol=0, atol=1e-12)
        found = variances(kernels(), POOL.layout, active, h, z)
        diagonal = np.diagonal(own[active], axis1=1, axis2=2)
        np.testing.assert_allclose(found, diagonal, rtol=0, atol=1e-12)


def test_natural_values_are_exponentials_of_logs_and_shifts_as_they_are():
    values, names = np.zeros(8), [own.name for own in POOL.hyperparameters]
    h = POOL.unconstrained(VALUES)
    for factor, own in enumerate([["SE1.lengthscale"], names[3:4], names[4:6]]):
        natural_values(POOL.layout, factor, h, values)
        assert values[: len(own)] == pytest.approx([VALUES[name] for name in own], rel=1e-14)
