import numpy as np
import pytest

from kem_pymc.gp.covariance import covariance, cross_covariances, variances
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
