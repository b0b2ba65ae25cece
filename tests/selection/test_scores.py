import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import brier_score_loss

from kem_pymc.data.cohort import Cohort
from kem_pymc.data.datasets.simulate import synthetic
from kem_pymc.data.families import Family
from kem_pymc.data.scaling import Scaling
from kem_pymc.data.transforms import Transform
from kem_pymc.gp.calibration import Calibration
from kem_pymc.gp.mixture import Mixture
from kem_pymc.gp.prediction import Prediction
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection.ard import ARDSelector
from kem_pymc.selection.online import select_online
from kem_pymc.selection.scores import (
    outcome_of,
    points_to_predict,
    predictive_scores,
    row_of,
    scores,
)
from tests.refusals import refused
from tests.selection.pilots import user


@pytest.fixture
def selection():
    x, y = user(20)
    scaling = Scaling(np.array([0.0]), np.array([20.0]), 3.0, 2.0)
    return ARDSelector(1, scaling=scaling).select(x, y)


def test_scores_are_in_units_of_scaled_targets(selection):
    x, y = user(7, seed=5)
    scores = predictive_scores(selection, x, y)
    prediction = selection.predict(x, include_noise=True)
    plain = norm(prediction.mean, prediction.sd)
    assert scores["log_likelihood"] == pytest.approx(plain.logpdf(y).mean() + math.log(2))
    # The closed form for one normal distribution (Gneiting et al. 2005).
    z = (y - prediction.mean) / prediction.sd
    crps = z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / math.sqrt(math.pi)
    assert scores["crps"] == pytest.approx(np.mean(crps * prediction.sd) / 2)
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((y - prediction.mean) ** 2)) / 2)


def test_with_a_transform_the_unit_is_half_a_range_of_the_target():
    scaling = Scaling(np.zeros(1), np.ones(1), 1.0, 0.5, Transform("log"))
    assert scaling.target_unit == pytest.approx((math.exp(1.5) - math.exp(0.5)) / 2)


@pytest.mark.parametrize("reaches", [None, (0.3, 1.1, 4.0)])
def test_outcomes_are_sums_over_points(selection, reaches):
    """What lies within quantiles as served, and moments of the normal distribution."""
    x, y = user(40, seed=5)
    y[0] = 1e6
    predicted = selection.predict(x, include_noise=True)
    served = replace(predicted, calibration=reaches and Calibration(reaches, 9))
    found = outcome_of(3, 2, served, y)
    z = (y - predicted.mean) / predicted.sd
    assert found[:3] == (3, 2, 40)
    for level, count in zip((50, 80, 95), found[3:6], strict=True):
        low, high = (served.quantile(0.5 + sign * level / 200) for sign in (-1, 1))
        assert count == ((low <= y) & (y <= high)).sum()
    density = np.maximum(norm(predicted.mean, predicted.sd).logpdf(y), -1e6)
    assert found.log_density == pytest.approx(density.sum())
    z[0] = 8
    assert found.probit == pytest.approx(z.sum())
    assert found.distance == pytest.approx(abs(z).sum())


def test_coverage_counts_what_lies_inside(selection):
    x = np.linspace(0, 20, 4)[:, None]
    prediction = selection.predict(x, include_noise=True)
    y = prediction.mean + prediction.sd * np.array([0.5, -1.0, 1.6, -2.5])
    scores = predictive_scores(selection, x, y)
    assert [scores[f"cover{level}"] for level in (50, 80, 95)] == [0.25, 0.5, 0.75]


def test_the_next_batch_judges():
    x, y = np.arange(6.0)[:, None], np.arange(6.0) ** 2
    cohort = Cohort(("a",), (x,), (y,), (np.array([2, 5, 6]),), ("x",))
    np.testing.assert_array_equal(points_to_predict(cohort, 0, 0, "next")[1], [4, 9, 16])
    np.testing.assert_array_equal(points_to_predict(cohort, 0, 1, "next")[0], [[5]])
    assert points_to_predict(cohort, 0, 2, "next") is None


def test_dropped_features(selection):
    assert Composition.parse("LIN0 x SE2 + PER2", 3).dimensions == {0, 2}
    assert Composition().dimensions == frozenset()
    assert Composition.parse("CONST + LIN1").dimensions == {1}  # a level looks at no feature

    class Earlier:
        composition = Composition.parse("LIN0 x SE2 + PER1", 3)

    assert row_of(selection, Earlier())["dropped"] == 2
    assert "dropped" not in row_of(selection, None)
    assert row_of(selection, None)["points"] == 20


class TestScores:
    @pytest.fixture
    def cohort(self):
        return synthetic(users=2, time_steps=3, seed=1)

    @pytest.fixture
    def trajectories(self, cohort):
        return select_online(ARDSelector(1), cohort)

    def test_one_row_per_selection_that_something_follows(self, cohort, trajectories):
        table = scores(trajectories, cohort)
        assert list(zip(table["user"], table["time_step"], strict=True)) == [
            *((0, 0), (0, 1), (1, 0), (1, 1))
        ]
        last, n = trajectories[1][1], cohort.ends[1][1]
        density = last.log_predictive_density(cohort.inputs[1][n:], cohort.targets[1][n:])
        assert table["log_likelihood"].iloc[-1] == pytest.approx(density.mean())
        assert list(table["dropped"].isna()) == [True, False, True, False]

    def test_the_truth_judges_every_selection(self, cohort, trajectories):
        table = scores(trajectories, cohort, target="truth")
        truth = cohort.truth
        density = trajectories[0][2].log_predictive_density(truth.x_test, truth.y_test[0])
        assert len(table) == 6
        assert table["log_likelihood"].iloc[2] == pytest.approx(density.mean())

    def test_refusals(self, cohort, trajectories):
        refused(lambda: scores(trajectories, cohort.subset([1, 0])), "other users")
        refused(lambda: scores(trajectories, replace(cohort, truth=None), target="truth"), "truth")
        short = cohort.truncate(1)
        refused(lambda: scores(select_online(ARDSelector(1), short), short), "second time step")


@pytest.mark.parametrize(("name", "cuts"), [("binary", ()), ("ordinal", (1.0, -1.0, 0.2, 1.5))])
def test_scores_of_classes(name, cuts):
    """The CRPS is the Brier score of scikit-learn, or the ranked probability score by hand."""
    rng = np.random.default_rng(5)
    family = Family(name, cuts)
    scaling = Scaling(np.zeros(1), np.ones(1), 0.0, 2.0, family=family)
    function = Mixture(np.array([0.3, 0.7]), rng.normal(size=(2, 40)), np.full((2, 40), 0.8))
    prediction = Prediction(function, np.array([[0.5], [0.1]]), family=family, include_noise=True)
    made = SimpleNamespace(scaling=scaling, predict=lambda *_, **__: prediction)
    levels = family.levels
    y = rng.choice(levels, 40)
    found = predictive_scores(made, np.zeros((40, 1)), y)
    p = np.array([found["classes"][level] for level in levels]).T
    g = function.mean + np.sqrt(0.64 + np.array([[0.5], [0.1]])) * rng.normal(size=(20_000, 2, 40))
    for level, column in zip(levels, p.T, strict=True):
        each = np.exp(family.log_density(np.full(40, level), g)).mean(axis=0)
        np.testing.assert_allclose(column, [0.3, 0.7] @ each, atol=0.01)
    assert found["observed"] == y.tolist()
    if name == "binary":
        assert found["crps"] == pytest.approx(brier_score_loss(y, p[:, 1]), abs=1e-5)
    else:
        below = (y[:, None] <= levels) - p.cumsum(axis=1)
        assert found["crps"] == pytest.approx((below**2).sum(axis=1).mean(), abs=1e-5)
