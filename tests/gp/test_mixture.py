import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from kem_pymc.gp.mixture import Mixture
from kem_pymc.gp.prediction import Component, Prediction, averaged

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


def test_an_average_has_the_moments_of_the_mixture():
    # By a million draws: what a mixture of sds without the means' spread would miss is seen.
    rng = np.random.default_rng(0)
    one = Prediction(np.array([1.0]), np.array([0.5]), {"SE0": Component(*np.ones((2, 1)))}, 0.04)
    other = Prediction(np.array([-2.0]), np.array([1.0]), {}, 0.25)
    mixed = averaged([one, other], [0.3, 0.7])
    which = rng.random(10**6) < 0.3
    function = np.where(which, rng.normal(1, 0.5, 10**6), rng.normal(-2, 1, 10**6))
    assert mixed.mean[0] == pytest.approx(function.mean(), abs=0.006)
    assert mixed.sd[0] == pytest.approx(function.std(), abs=0.006)
    assert mixed.noise == pytest.approx(0.3 * 0.04 + 0.7 * 0.25)
    share = np.where(which, rng.normal(1, 1, 10**6), 0.0)
    assert mixed.components["SE0"].mean[0] == pytest.approx(share.mean(), abs=0.005)
    assert mixed.components["SE0"].sd[0] == pytest.approx(share.std(), abs=0.005)
    density = 0.3 * norm(1, np.sqrt(0.29)).pdf(0.4) + 0.7 * norm(-2, np.sqrt(1.25)).pdf(0.4)
    assert mixed.log_predictive_density([0.4])[0] == pytest.approx(np.log(density))
