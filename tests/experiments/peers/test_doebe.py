"""Ensembles of basis expansions: exact Bayesian regression, their evidence, and their weights."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from experiments.peers.doebe import (
    WALK,
    Ensemble,
    EnsembleSelector,
    Expert,
    Fourier,
    Hilbert,
    evidence,
    pretrained,
)

RNG = np.random.default_rng(0)
X, Y, NEW = RNG.random((7, 1)), RNG.normal(size=7), RNG.random((3, 1))
LOGS = np.log([0.3, 1.5, 0.2])


def hilbert():
    return Hilbert(np.array([0.5]), np.array([0.75]), 6)


def regression(expert, x, y, new):
    """Means and variances of new observations by the exact normal equations."""
    phi, ahead = expert.features(x), expert.features(new)
    total = expert.variance * phi @ phi.T + expert.noise * np.eye(len(y))
    cross = expert.variance * ahead @ phi.T
    mean = cross @ np.linalg.solve(total, y)
    prior = expert.variance * (ahead**2).sum(axis=1) + expert.noise
    return mean, prior - np.einsum("ij,ji->i", cross, np.linalg.solve(total, cross.T))


def test_one_static_expert_is_bayesian_linear_regression():
    expert = Expert(hilbert(), LOGS, 0.0)
    found = Ensemble.of([expert], X).after(X, Y).observations(NEW)
    mean, variance = regression(expert, X, Y, NEW)
    np.testing.assert_allclose(found.mean[0], mean, atol=1e-10)
    np.testing.assert_allclose(found.sd[0] ** 2, variance, atol=1e-10)


def test_a_random_walk_by_the_joint_distribution():
    """Weights at t and s have the covariance v + walk min(t, s); rows count from one."""
    expert = Expert(hilbert(), LOGS, 0.05)
    found = Ensemble.of([expert], X).after(X, Y).observations(NEW[:1])
    phi = expert.features(np.concatenate([X, NEW[:1]]))
    steps = np.minimum.outer(np.arange(1, 9), np.arange(1, 9))
    total = (expert.variance + 0.05 * steps) * (phi @ phi.T) + expert.noise * np.eye(8)
    gain = np.linalg.solve(total[:7, :7], total[:7, 7])
    assert found.mean[0, 0] == pytest.approx(gain @ Y, abs=1e-10)
    assert found.sd[0, 0] ** 2 == pytest.approx(total[7, 7] - gain @ total[:7, 7], abs=1e-10)


def test_experts_are_weighted_by_evidence():
    """Which is the density of all rows; and rows that arrive later change nothing."""
    experts = [Expert(hilbert(), LOGS + shift, 0.0) for shift in (0.0, 0.5, -1.0)]
    ensemble = Ensemble.of(experts, X).after(X, Y)
    heights = []
    for expert in experts:
        phi = expert.features(X)
        covariance = expert.variance * phi @ phi.T + expert.noise * np.eye(7)
        heights.append(multivariate_normal(cov=covariance).logpdf(Y))
        of_expert = evidence(phi, Y, expert.variance, expert.noise)
        assert of_expert == pytest.approx(heights[-1], abs=1e-10)
    expected = np.exp(heights) / np.exp(heights).sum()
    np.testing.assert_allclose(np.exp(ensemble.logs), expected, atol=1e-10)
    later = Ensemble.of(experts, X).after(X[:3], Y[:3]).after(X[3:], Y[3:])
    np.testing.assert_allclose(later.logs, ensemble.logs, atol=1e-10)
    assert later.seen == 7


def test_bases_approximate_the_squared_exponential():
    x = np.linspace(0, 1, 9)[:, None]
    exact = np.exp(-0.5 * ((x - x.T) / 0.1) ** 2)
    for basis, error in ((Hilbert.of(x, RNG), 1e-4), (Fourier.of(x, RNG), 0.5)):
        phi = basis.features(x, np.array([0.1]))
        assert np.abs(phi @ phi.T - exact).max() < error


def test_pretraining_finds_the_largest_evidence():
    """And a covariance that is the inverse of the curvature, where that is wide enough."""
    rng = np.random.default_rng(1)
    x = np.linspace(0, 1, 40)[:, None]
    rows = [(x, np.sin(6 * x[:, 0] + p) + rng.normal(0, 0.2, 40)) for p in (0.0, 1.0, 2.0)]
    basis = Hilbert.of(x, rng)
    best, root = pretrained(basis, rows, 1.0, 0.0)

    def height(logs):
        expert = Expert(basis, logs, 0.0)
        each = ((expert.features(x), y) for x, y in rows)
        return sum(evidence(phi, y, expert.variance, expert.noise) for phi, y in each)

    assert best.noise == pytest.approx(0.04, rel=0.3)
    for direction in root.T:
        fall = height(best.logs) - height(best.logs + 0.1 * direction)
        assert fall == pytest.approx(0.5 * 0.01, rel=0.3)


def test_a_user_goes_on_where_the_last_update_ended(pilots, cohort):
    """An online method: the same as from all rows at once; the last forecast stays as it was."""
    selector = EnsembleSelector(pilots, "hilbert", WALK, 0)
    x, y = cohort.inputs[0], cohort.targets[0]
    first = selector.select(x[:2], y[:2])
    before = first.predict(x[5:], include_noise=True).mean
    online = selector.select(x[:4], y[:4], first)
    at_once = selector.select(x[:4], y[:4])
    for name in ("mean", "sd"):
        values = [getattr(f.predict(x[4:], include_noise=True), name) for f in (online, at_once)]
        np.testing.assert_allclose(*values, atol=1e-10)
    assert first.predict(x[5:], include_noise=True).mean == before
