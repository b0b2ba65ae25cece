"""The classifiers of the example: the paper's space, and scores of each of them."""

import numpy as np
import pytest

from experiments.data.registry import simulated_registry
from kem_pymc.lifelong.classifiers import SOLVERS, classifiers
from kem_pymc.lifelong.distributions import FloatDistribution
from kem_pymc.lifelong.tuning import ESTIMATOR, CrossValidated, space_of


@pytest.fixture(scope="module")
def window():
    registry = simulated_registry(np.random.default_rng(3))
    return registry.windows(2, 2)["1985-1988"]


def test_the_space_has_nine_dimensions():
    space = space_of(classifiers())
    assert len(space.dimensions) == 9
    assert space.dimensions["xgboost__learning_rate"] == FloatDistribution(0.005, 0.5)
    assert space.dimensions[ESTIMATOR].choices == (
        *("xgboost", "logistic", "bernoulli", "multinomial"),
    )


@pytest.mark.parametrize(
    ("name", "solver"),
    [("xgboost", "lbfgs"), ("bernoulli", "lbfgs"), ("multinomial", "lbfgs")]
    + [("logistic", solver) for solver in SOLVERS],
)
def test_every_classifier_learns(window, name, solver):
    """Scores above chance, the same every time, and by every solver without a warning."""
    x, y = window
    estimators = classifiers()
    rows = space_of(estimators).draw(1, np.random.default_rng(0))
    (point,) = space_of(estimators).decode(rows)
    point |= {ESTIMATOR: name, "logistic__logisticregression__solver": solver}
    point["logistic__logisticregression__tol"] = 0.005
    score = CrossValidated(estimators, x, y, scoring="roc_auc", cv=5)
    assert 0.55 < score(point) < 0.99
    assert score(point) == score(point)
