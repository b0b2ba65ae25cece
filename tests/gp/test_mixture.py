import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from kem_pymc.gp.mixture import Mixture

WEIGHTS, MEANS, SDS = np.array([0.2, 0.7, 0.1]), [-1.0, 0.5, 4.0], [0.3, 1.0, 2.0]
MIXTURE = Mixture(WEIGHTS, np.array(MEANS)[:, None], np.array(SDS)[:, None])


def by_hand(y, function):
    """A weighted sum over the parts of a function of SciPy's distributions."""
    parts = [function(norm(m, s), y) for m, s in zip(MEANS, SDS, strict=True)]
    return WEIGHTS @ np.array(parts)


@pytest.mark.parametrize("y", [-2.0, 0.1, 5.0])
def test_density_and_distribution_are_sums_over_the_parts(y):
    density, below = (by_hand(y, f) for f in (lambda d, v: d.pdf(v), lambda d, v: d.cdf(v)))
    assert MIXTURE.log_density(np.array([y]))[0] == pytest.approx(np.log(density), abs=1e-12)
    assert MIXTURE.cdf(np.array([y]))[0] == pytest.approx(below, abs=1e-12)


@pytest.mark.parametrize("y", [-2.0, 0.1, 5.0])
def test_crps_is_the_integral_that_defines_it(y):
    def distribution(t):
        return by_hand(t, lambda d, v: d.cdf(v))

    below = quad(lambda t: distribution(t) ** 2, -40, y, limit=200)[0]
    above = quad(lambda t: (1 - distribution(t)) ** 2, y, 40, limit=200)[0]
    assert MIXTURE.crps(np.array([y]))[0] == pytest.approx(below + above, abs=1e-6)


@pytest.mark.parametrize("probability", [0.025, 0.5, 0.975])
def test_quantiles_invert_the_distribution(probability):
    quantile = MIXTURE.quantile(probability)
    assert MIXTURE.cdf(quantile)[0] == pytest.approx(probability, abs=1e-9)
