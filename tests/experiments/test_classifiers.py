"""The classifiers of the paper's space, and scores of each of them."""

import numpy as np
import pytest

from experiments.data.registry import simulated_registry
from experiments.lifelong.classifiers import SOLVERS, SPACE, classifier, score
from kem_pymc.lifelong.space import Space


@pytest.fixture(scope="module")
def window():
    registry = simulated_registry(np.random.default_rng(3))
    return registry.windows(2, 2)["1985-1988"]


def test_the_space_has_nine_dimensions():
    assert len(SPACE) == 9
    point = Space(SPACE).decode(np.zeros(len(Space(SPACE).numeric)))
    assert classifier(point).get_params()["max_depth"] == point["xgboost.max_depth"] == 1


@pytest.mark.parametrize(
    ("name", "solver"),
    [("xgboost", "lbfgs"), ("bernoulli", "lbfgs"), ("multinomial", "lbfgs")]
    + [("logistic", solver) for solver in SOLVERS],
)
def test_every_classifier_learns(window, name, solver):
    """Scores above chance, the same every time, and by every solver without a warning."""
    space = Space(SPACE)
    point = space.decode(space.draw(1, np.random.default_rng(0))[0])
    point |= {"classifier": name, "logistic.solver": solver, "logistic.tol": 0.005}
    found = score(point, *window, folds=5)
    assert 0.55 < found < 0.99
    assert score(point, *window, folds=5) == found


def test_scores_that_cannot_be_computed(window):
    """They are NaN, which counts as a failed evaluation."""
    x, y = window
    space = Space(SPACE)
    point = space.decode(space.draw(1, np.random.default_rng(0))[0])
    gaps = np.where(x > np.mean(x), np.nan, x)
    assert np.isnan(score(point | {"classifier": "bernoulli"}, gaps, y, folds=3))
