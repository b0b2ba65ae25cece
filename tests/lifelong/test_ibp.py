"""The Indian buffet process by stick breaking, and Binary Concrete variables."""

from itertools import pairwise

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import kstest

from kem_pymc.lifelong import ibp

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_moments_of_stick_breaking(alpha):
    """E pi_m = (alpha / (1 + alpha))^m, and E pi_m^2 = (alpha / (2 + alpha))^m."""
    uniform = RNG.random((200_000, 6))
    pi = expit(ibp.prior_log_odds(pt.as_tensor(uniform), alpha).eval())
    powers = np.arange(1, 7)
    np.testing.assert_allclose(pi.mean(axis=0), (alpha / (1 + alpha)) ** powers, rtol=0.03)
    np.testing.assert_allclose((pi**2).mean(axis=0), (alpha / (2 + alpha)) ** powers, rtol=0.06)
    assert (np.diff(pi, axis=1) <= 0).all()
    odds = ibp.expected_log_odds(6, alpha)
    np.testing.assert_allclose(expit(odds), (alpha / (1 + alpha)) ** powers, rtol=1e-12)


@pytest.mark.parametrize("log_odds", [-2.0, 0.5, 3.0])
def test_samples_have_the_density(log_odds):
    """Catches equation 7 as printed, with equal signs, which has the mean odds of another gamma."""

    symbol = pt.scalar("logit")
    evaluate = pytensor.function([symbol], pt.exp(ibp.log_density(symbol, log_odds)))

    def density(logit):
        return float(evaluate(logit))

    edges = [log_odds * 10 - 400, log_odds * 10, log_odds * 10 + 400]
    mass = [quad(density, *pair, limit=200)[0] for pair in pairwise(edges)]
    assert sum(mass) == pytest.approx(1.0, abs=1e-6)
    uniform = RNG.random(4000)
    logits = ibp.logit_sample(log_odds, pt.as_tensor(uniform)).eval()
    # The distribution function of a logistic variable with location 10 log_odds and scale 10.
    cdf = lambda x: expit(0.1 * x - log_odds)  # noqa: E731
    assert kstest(logits, cdf).pvalue > 1e-3
    slope = (cdf(3.0 + 1e-5) - cdf(3.0 - 1e-5)) / 2e-5
    assert density(3.0) == pytest.approx(slope, rel=1e-6)


def test_limit_without_temperature(monkeypatch):
    """Bernoulli variables with odds gamma; at temperature 0.1 few samples are far from 0 and 1."""
    uniform = RNG.random(200_000)
    z = expit(ibp.logit_sample(1.2, pt.as_tensor(uniform)).eval())
    assert ((z > 0.05) & (z < 0.95)).mean() < 0.13
    monkeypatch.setattr(ibp, "TEMPERATURE", 1e-4)
    z = expit(ibp.logit_sample(1.2, pt.as_tensor(uniform)).eval())
    assert ((z > 0.05) & (z < 0.95)).mean() < 1e-3
    assert z.mean() == pytest.approx(expit(1.2), abs=0.004)
