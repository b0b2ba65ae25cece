import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
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
    """Against Brent's method; also of equal parts, parts far apart, and one that is nearly a point.

    Fails where steps end early, or leave the range between which the quantile is.
    """
    means = np.array([MEANS, [2, 2, 2], [-1e3, 0, 1e3], [0, 0, 0]])
    sds = np.array([SDS, [1, 1, 1], [1, 0.1, 1], [1e-9, 1, 1]])
    expected = [
        brentq(lambda y, m=m, s=s: WEIGHTS @ norm(m, s).cdf(y) - probability, -2e3, 2e3, xtol=1e-12)
        for m, s in zip(means, sds, strict=True)
    ]
    found = Mixture(WEIGHTS, means.T, sds.T).quantile(probability)
    assert found == pytest.approx(expected, abs=1e-9)


def test_the_crps_of_very_many_distributions_is_that_of_the_same_mixture_of_few():
    """Of 6,400 distributions all pairs would take gigabytes."""
    few = Mixture(
        np.array([0.3, 0.7]), np.array([[0.0, 1], [2, 1]]), np.array([[1.0, 2], [0.5, 3]])
    )
    many = Mixture(
        np.repeat(few.weights, 3200) / 3200,
        np.repeat(few.mean, 3200, axis=0),
        np.repeat(few.sd, 3200, axis=0),
    )
    y = np.array([0.7, -4.0])
    assert many.crps(y) == pytest.approx(few.crps(y), rel=0.01)
