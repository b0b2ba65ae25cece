"""The process over models; its predictions beside dense matrices are in tests/gp/test_posterior."""

import numpy as np
import pytest
from scipy import stats

from kem_pymc.search.model_gp import ModelGP

RNG = np.random.default_rng(0)
PLACES = RNG.uniform(size=(12, 2))
SCORES = np.sin(4 * PLACES[:, 0]) + 0.02 * RNG.normal(size=12)


def squared(one, other):
    """Two squared distances of places, which stand for models: by either coordinate."""
    return (one[:, None] - other) ** 2


def process(count, every=100):
    gp = ModelGP(every)
    for i in range(count):
        gp.add(squared(PLACES[i : i + 1], PLACES[:i])[0], SCORES[i])
    return gp


def test_hyperparameters_are_fitted_every_so_many_models():
    gp = process(9, every=10)
    before = gp._logs.copy()
    gp.add(squared(PLACES[9:10], PLACES[:9])[0], SCORES[9])
    assert not np.allclose(gp._logs, before)
    at_optimum = gp._loss(gp._logs, gp._standardised())
    optimum = gp._logs.copy()
    for i in range(5):
        for step in (-0.05, 0.05):
            moved = optimum.copy()
            moved[i] += step
            assert gp._loss(moved, gp._standardised()) > at_optimum - 1e-6


def test_expected_improvement_by_simulation():
    gp = process(8)
    new = RNG.uniform(size=(5, 2))
    mean, sd = gp.predict(squared(new, PLACES[:8]))
    best = gp._standardised().max()
    draws = stats.norm(mean, sd).rvs((200_000, 5), random_state=1)
    simulated = np.maximum(draws - best, 0)
    error = 5 * simulated.std(axis=0) / np.sqrt(200_000)
    found = gp.expected_improvement(squared(new, PLACES[:8]))
    assert (np.abs(found - simulated.mean(axis=0)) < error + 1e-9).all()


@pytest.mark.parametrize("scores", [[0.0], [1.0, 1.0, 1.0], [-np.inf, 0.0, 1.0], [-np.inf]])
def test_degenerate_scores(scores):
    gp = ModelGP()
    for i, score in enumerate(scores):
        gp.add(squared(PLACES[i : i + 1], PLACES[:i])[0], score)
    assert np.isfinite(gp.expected_improvement(squared(PLACES[9:], PLACES[: len(scores)]))).all()


def test_how_bad_the_worst_models_are_does_not_matter():
    one, other = ModelGP(), ModelGP()
    for i in range(8):
        for gp, worst in ((one, -50.0), (other, -5000.0)):
            gp.add(squared(PLACES[i : i + 1], PLACES[:i])[0], worst if i == 3 else SCORES[i])
    away = squared(PLACES[8:], PLACES[:8])
    np.testing.assert_allclose(one.predict(away), other.predict(away))
