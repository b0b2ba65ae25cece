"""Metrics beside brute force, and their derivatives beside finite differences."""

import math

import numpy as np
import pytest
from scipy import stats

from experiments.evocov.metrics import METRICS, n_held_out
from kem_pymc.search.evocov import objective as module
from kem_pymc.search.evocov.objective import TreeObjective
from kem_pymc.search.evocov.tree import Tree
from tests.search.evocov.trees import SE

POINTS = 37


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(size=(POINTS, 1)), axis=0)
    return x, np.sin(8 * x[:, 0]) + 0.3 * rng.normal(size=POINTS)


VALUES = np.log([0.9, 0.2, 0.1])


def dense(x):
    k = 0.81 * np.exp(-0.5 * ((x - x.T) / 0.2) ** 2)
    return k + 0.1 * np.eye(len(x))


def conditional(c, y, wanted, given):
    """Return mean and covariance of some targets given others."""
    gain = c[np.ix_(wanted, given)] @ np.linalg.inv(c[np.ix_(given, given)])
    spread = c[np.ix_(wanted, wanted)] - gain @ c[np.ix_(given, wanted)]
    return gain @ y[given], spread


def brute_force(metric, c, y):
    every = np.arange(len(y))
    held, others = every[-n_held_out(len(y)) :], every[: -n_held_out(len(y))]
    if metric == "lml":
        return stats.multivariate_normal(cov=c).logpdf(y)
    if metric == "loocv":
        total = 0.0
        for i in every:
            mean, spread = conditional(c, y, [i], np.delete(every, i))
            total += stats.norm(mean[0], math.sqrt(spread[0, 0])).logpdf(y[i])
        return total
    mean, spread = conditional(c, y, held, others)
    if metric == "posterior_lml":
        return stats.multivariate_normal(mean, spread).logpdf(y[held])
    if metric == "sopl":
        return stats.norm(mean, np.sqrt(np.diag(spread))).logpdf(y[held]).sum()
    return -math.sqrt(np.mean((y[held] - mean) ** 2))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_closed_forms_and_gradients(metric, large, data, monkeypatch):
    """Both the compiled loops and LAPACK, which is used for many points."""
    if large:
        monkeypatch.setattr(module, "LARGE", 1)
    x, y = data
    objective = TreeObjective(Tree.parse(SE), x, y, METRICS[metric])
    found = objective.evaluate(VALUES)
    assert found.height == pytest.approx(brute_force(metric, dense(x), y), rel=1e-9)
    numeric = [
        (objective.evaluate(VALUES + e).height - objective.evaluate(VALUES - e).height) / 2e-5
        for e in 1e-5 * np.eye(3)
    ]
    np.testing.assert_allclose(found.gradient, numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("metric", METRICS)
def test_indefinite_covariances_have_none(metric, data):
    """Fits must not be drawn to where a factorisation fails."""
    x, y = data
    found = TreeObjective(Tree.parse("sq_dist(euc(x), h0)"), x, y, METRICS[metric]).evaluate(
        np.zeros(2) - 3
    )
    assert found.height == -math.inf
    assert not found.gradient.any()
