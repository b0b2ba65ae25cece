"""Records of compositions that were considered for a user."""

import math

import numpy as np
import pytest

from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.evidence import draw_values
from kem_pymc.gp.fit import Fit, fit
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.problem import normal_prior
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection import scored_kernel
from kem_pymc.selection.scored_kernel import Draw, ScoredKernel, draws_around
from tests.selection.pilots import POOL, VALUES, user


@pytest.fixture
def objective():
    where = Coordinates(POOL, Composition.parse("LIN0"))
    return Objective(where, *user(12), normal_prior(np.zeros(3), np.ones(3)))


@pytest.fixture
def row(objective):
    values = objective.coordinates.from_named(VALUES, 0.5)
    fitted = Fit(values, -20.0, -3.0, 17, converged=False)
    return ScoredKernel.of(
        objective,
        fitted,
        status="child",
        criterion=9.0,
        score=-4.5,
        weight=0.4,
        probability=0.7,
    )


def test_a_record_names_the_values_of_its_fit(row):
    """Catches a record of logs, of the posterior's height, and a BIC without the noise."""
    assert row.hyperparameters == pytest.approx({"LIN0.amplitude": 0.3, "LIN0.shift": 4.0})
    assert row.noise == pytest.approx(0.5)
    assert (row.log_likelihood, row.evaluations, row.converged) == (-20.0, 17, False)
    assert row.n_parameters == 3
    assert row.bic == pytest.approx(3 * math.log(12) + 40)
    assert (row.status, row.criterion, row.score) == ("child", 9.0, -4.5)
    assert row.fitted == Draw(row.hyperparameters, row.noise, 1.0)
    assert row.draws == ()


def test_draws_have_the_values_and_weights_of_the_posterior(objective):
    fitted = fit(objective, [np.zeros(3)])
    draws = draws_around(objective, fitted)
    values, weights, _ = draw_values(objective, fitted)
    assert len(draws) == np.count_nonzero(weights) > 1
    assert sum(draw.weight for draw in draws) == pytest.approx(1)
    for draw, value, weight in zip(draws, values[weights > 0], weights[weights > 0], strict=True):
        found = objective.coordinates.from_named(draw.hyperparameters, draw.noise)
        np.testing.assert_allclose(found, value, rtol=0, atol=1e-12)
        assert draw.weight == weight


def test_draws_without_weight_are_left_out(objective, monkeypatch):
    values = np.zeros((3, 3)) + np.arange(3)[:, None]
    found = values, np.array([0.6, 0.0, 0.4]), [objective] * 3
    monkeypatch.setattr(scored_kernel, "draw_values", lambda *_: found)
    draws = draws_around(objective, fit(objective, [np.zeros(3)]))
    assert [draw.weight for draw in draws] == [0.6, 0.4]
    assert [draw.noise for draw in draws] == pytest.approx([1.0, math.exp(2)])


def test_without_a_prior_there_are_no_draws():
    objective = Objective(Coordinates(POOL, Composition.parse("LIN0")), *user(12))
    assert draws_around(objective, fit(objective, [np.zeros(3)])) == ()
