"""Sites, against importance sampling."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, multivariate_t, norm

from kem_pymc.data.families import Family
from kem_pymc.gp.sites import GAIN, Sites, sites

N = 12
FAMILIES = {
    "count": Family("count"),
    "mostly zeros": Family("count"),
    "binary": Family("binary"),
    "rare": Family("binary"),
    "binomial": Family("binomial"),
    "ordinal": Family("ordinal", (1, -1, 0.1, 1.2)),
    "positive": Family("positive", (3,)),
    "student": Family("student", (4, 0.4)),
}
MEANS = {"mostly zeros": -2.0, "rare": -3.0}
each = pytest.mark.parametrize("kind", FAMILIES)


def problem(kind, seed=1):
    """Return mean and covariance of latent values, family, targets and sizes."""
    rng, family = np.random.default_rng(seed), FAMILIES[kind]
    x = np.linspace(0, 3, N)
    covariance = 1.2 * np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.7**2) + 0.1 * np.eye(N)
    mean = np.full(N, MEANS.get(kind, 0.3))
    g = rng.multivariate_normal(mean, covariance)
    sizes = np.full(N, 6.0) if kind == "binomial" else None
    y = np.array([family.quantile(u, g, sizes)[i] for i, u in enumerate(rng.uniform(size=N))])
    if kind == "student":
        y[3] += 8
    return mean, covariance, family, y, sizes


def posterior(mean, covariance, found):
    """Return the posterior of latent values given the sites."""
    gain = np.linalg.solve(covariance + np.diag(found.v), covariance).T
    return mean + gain @ (found.z - mean), covariance - gain @ covariance


def log_evidence(mean, covariance, found):
    """Return the log evidence of the sites."""
    total = covariance + np.diag(found.v)
    return multivariate_normal(mean, total).logpdf(found.z) + found.log_constant


@each
def test_posteriors_are_about_those_of_importance_sampling(kind):
    """Fails if expectations or constants belong to other sites."""
    mean, covariance, family, y, sizes = problem(kind)
    found = sites(mean, covariance, family, y, sizes)
    centre, spread = posterior(mean, covariance, found)
    proposal = multivariate_t(centre, spread * 1.1, df=10)
    g = proposal.rvs(40_000, random_state=np.random.default_rng(2))
    log_weights = (
        family.log_density(y, g, sizes).sum(axis=1)
        + multivariate_normal(mean, covariance).logpdf(g)
        - proposal.logpdf(g)
    )
    total = np.logaddexp.reduce(log_weights)
    evidence, weights = total - np.log(len(g)), np.exp(log_weights - total)
    exact = weights @ g
    sd = np.sqrt(weights @ (g - exact) ** 2)
    heavy = kind == "student"
    np.testing.assert_allclose((centre - exact) / sd, 0, atol=0.06 if heavy else 0.03)
    np.testing.assert_allclose(np.sqrt(np.diag(spread)) / sd, 1, atol=0.1 if heavy else 0.04)
    assert evidence - 0.1 < log_evidence(mean, covariance, found) < evidence + 0.01


@each
def test_sites_for_several_covariances_are_those_for_each(kind):
    """Fails where an axis is another, or steps of one depend on whether another's are halved.

    Steps end where one gains less than GAIN, and several times as much may be left.
    """
    mean, covariance, family, y, sizes = problem(kind)
    several = np.array([0.1, 1.0, 30.0])[:, None, None] * covariance
    found = sites(mean, several, family, y, sizes)
    for i, one in enumerate(several):
        alone, here = sites(mean, one, family, y, sizes), Sites(*(field[i] for field in found))
        expected = log_evidence(mean, one, alone)
        assert log_evidence(mean, one, here) == pytest.approx(expected, abs=10 * GAIN)
        sd = np.sqrt(np.diag(posterior(mean, one, alone)[1]))
        apart = posterior(mean, one, here)[0] - posterior(mean, one, alone)[0]
        np.testing.assert_allclose(apart / sd, 0, atol=0.03)


def test_steps_are_halved_where_they_go_too_far():
    """Counts that pilots never had, under a wide prior: whole steps are to rates of exp(160).

    Points are independent, so that the evidence is that of quadrature.
    """
    family, variance = Family("count", (), (-9.0, 0.5)), 400.0
    y, mean = np.array([1.0, 200.0]), np.full(2, -9.0)
    found = sites(mean, variance * np.eye(2), family, y)
    g = np.linspace(-60, 10, 20_001)[:, None]
    terms = family.log_density(y, g) + norm(-9, 20).logpdf(g)
    exact = np.log(np.trapezoid(np.exp(terms), g, axis=0)).sum()
    assert log_evidence(mean, variance * np.eye(2), found) == pytest.approx(exact, abs=0.1)


def test_an_outlier_costs_its_tail_and_other_kernels_cannot_explain_it():
    """Fails if its site has no precision: the observation would be many sds away."""
    mean, covariance, family, y, _ = problem("student")
    y[3] = 1e4
    found, rest = sites(mean, covariance, family, y), np.delete(np.arange(N), 3)
    without = mean[rest], covariance[np.ix_(rest, rest)]
    expected = log_evidence(*without, sites(*without, family, y[rest]))
    expected += family.log_density(y[3:4], mean[3:4])[0]  # hardly varies over likely functions
    assert log_evidence(mean, covariance, found) == pytest.approx(expected, abs=0.1)
    assert (np.abs(found.z - posterior(mean, covariance, found)[0]) < 6 * np.sqrt(found.v)).all()


def test_points_in_one_place_without_errors_are_allowed():
    family, y = Family("binary"), np.array([1.0, 1.0, 0.0])
    found = sites(np.zeros(3), np.full((3, 3), 2.0), family, y)
    together = sites(np.zeros(1), np.full((1, 1), 2.0), Family("binomial"), y[:1] * 2, y[:1] * 3)
    assert log_evidence(np.zeros(3), np.full((3, 3), 2.0), found) + np.log(3) == pytest.approx(
        log_evidence(np.zeros(1), np.full((1, 1), 2.0), together), abs=GAIN
    )
