"""Fits of evolved kernels."""

import math

import numpy as np
import pytest
from scipy import stats

from experiments.evocov.metrics import METRICS
from kem_pymc.search.evocov import fitting
from kem_pymc.search.evocov.fitting import Fitter, coordinates_of
from kem_pymc.search.evocov.individual import Offspring
from kem_pymc.search.evocov.tree import Tree
from tests.search.evocov.trees import SE

N = 40


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, N)[:, None]
    k = np.exp(-0.5 * ((x - x.T) / 0.1) ** 2) + 0.05 * np.eye(N)
    return x, rng.multivariate_normal(np.zeros(N), k), k


def test_likelihood_is_at_least_that_of_the_truth(data):
    x, y, k = data
    fitter = Fitter(x, y, 300)
    found = fitter.evaluate(Offspring.of(Tree.parse(SE)), 1)
    truth = stats.multivariate_normal(cov=k).logpdf(y)
    assert truth < found.log_likelihood < truth + 10
    assert found.bic == pytest.approx(3 * math.log(N) - 2 * found.log_likelihood)
    assert 300 <= found.gradients < 330


@pytest.mark.parametrize("metric", ["lml", "loocv"])
def test_score_is_that_of_the_likelihood_whatever_the_metric(metric, data):
    x, y, _ = data
    offspring = Offspring(Tree.parse(SE), np.array([1.0, 0.1, 0.05]))
    found = Fitter(x, y, 50, metric=METRICS[metric]).evaluate(offspring, 2)
    k = found.natural[0] ** 2 * np.exp(-0.5 * ((x - x.T) / found.natural[1]) ** 2)
    k += found.natural[2] * np.eye(N)
    exact = stats.multivariate_normal(cov=k, allow_singular=True).logpdf(y)
    assert found.log_likelihood == pytest.approx(exact, rel=1e-5, abs=1e-4)


def test_inherited_values_are_where_searches_start(data, monkeypatch):
    """The first start has them, the others with standard deviation 0.1; new ones are anywhere."""
    points = []
    call = fitting._Search.__call__

    def noted(search, values):
        points.append(values.copy())
        return call(search, values)

    monkeypatch.setattr(fitting._Search, "__call__", noted)

    def flat(_c, _y, adjoint):  # there is nothing to improve
        adjoint[:] = 0.0
        return 0.0

    fitter = Fitter(*data[:2], 31, metric=flat)
    offspring = Offspring(Tree.parse(SE), np.array([0.7, math.nan, 0.02]))
    fitter.evaluate(offspring, 3)
    first, *others = points  # each search ends at its start
    np.testing.assert_allclose(np.exp(first)[[0, 2]], [0.7, 0.02], rtol=1e-12)
    others = np.array(others)
    assert len(others) == 30
    np.testing.assert_allclose(others[:, [0, 2]].mean(axis=0), np.log([0.7, 0.02]), atol=0.06)
    np.testing.assert_allclose(others[:, [0, 2]].std(axis=0), 0.1, rtol=0.35)
    assert np.ptp(others[:, 1]) > 8


@pytest.mark.parametrize(("n", "cycles"), [(N, 5), (401, 182)])
def test_half_of_the_frequencies_start_at_peaks(n, cycles, monkeypatch):
    """Catches periods in place of frequencies, and starts of other hyperparameters at peaks.

    With 401 points, bounds as for other hyperparameters would end at 175 cycles.
    """
    points = []

    def noted(search, values):
        points.append(values)
        search.outcomes["noted"] += 1
        return 0.0, np.zeros(len(values))  # searches end at their starts

    monkeypatch.setattr(fitting._Search, "__call__", noted)
    monkeypatch.setattr(fitting, "PEAKS", 1)
    x = np.linspace(0, 1, n)[:, None]
    fitter = Fitter(x, np.sin(2 * np.pi * cycles * x[:, 0]), 400)
    tree = Tree.parse("multiply(sq_dist(spectral(x, h0), h1), sq_dist(euc(x), h2))")
    fitter.evaluate(Offspring.of(tree), 8)
    at_peak = np.abs(np.array(points) - np.log(2 * np.pi * cycles)) < 0.03
    share, *others = at_peak.mean(axis=0)
    assert 0.4 < share < 0.6
    assert max(others) < 0.05


def test_negative_shifts_are_not_inherited_by_positive_hyperparameters():
    natural = np.array([-0.5, -0.5, 2.0, math.nan])
    found = coordinates_of(natural, np.array([True, False, True, True]))
    np.testing.assert_array_equal(found, [math.nan, -0.5, math.log(2.0), math.nan])


def test_kernels_that_cannot_be_evaluated_are_the_worst(data):
    x, y, _ = data
    fitter = Fitter(x, y, 20)
    tree = Tree.parse("div(sq_dist(euc(x), h0))")
    found = fitter.evaluate(Offspring.of(tree), 4)
    assert (found.log_likelihood, found.bic) == (-math.inf, math.inf)
    assert found.outcomes == {"division by zero": 20}
