"""Tuning of estimators with the interface of scikit-learn."""

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from kem_pymc.lifelong import CategoricalDistribution, FloatDistribution, IntDistribution, tune
from kem_pymc.lifelong.tuning import built, space_of
from tests.refusals import refused

ESTIMATORS = {
    "logistic": (
        LogisticRegression(),
        {
            "C": FloatDistribution(1e-3, 10, log=True),
            "solver": CategoricalDistribution(["lbfgs", "none"]),  # the second can't be fitted
        },
    ),
    "nearest": (KNeighborsClassifier(), {"n_neighbors": IntDistribution(1, 9)}),
}


def table(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(60, 2))
    return x, (x[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(int)


def test_space_and_estimators():
    space = space_of(ESTIMATORS)
    assert list(space.dimensions) == [
        *("estimator", "logistic__C", "logistic__solver", "nearest__n_neighbors"),
    ]
    point = space.decode(space.draw(1, np.random.default_rng(0)))[0] | {"estimator": "nearest"}
    own = built(ESTIMATORS, point)
    assert own.n_neighbors == point["nearest__n_neighbors"]
    assert own is not ESTIMATORS["nearest"][0]
    one = space_of({"nearest": ESTIMATORS["nearest"]})
    assert built({"nearest": ESTIMATORS["nearest"]}, one.decode(np.zeros(1))[0]).n_neighbors == 1


def test_scores_are_maximised_and_failures_are_no_end(tmp_path):
    tables = {"2023": table(0), "2024": table(1)}
    options = {"cv": 3, "evaluations": 8, "method": "random", "out": tmp_path}
    found = tune(ESTIMATORS, tables, **options)
    first, second = found.optimizer.tasks
    failed = [
        point["estimator"] == "logistic" and point["logistic__solver"] == "none"
        for point in first.points
    ]
    assert any(failed)
    np.testing.assert_array_equal(np.isnan(first.values), failed)
    assert np.nanmax(second.values) > 0.9
    best = second.points[int(np.nanargmax(second.values))]
    assert found.best().get_params() == built(ESTIMATORS, best).get_params()
    again = tune(ESTIMATORS, tables, **options)
    assert again.optimizer.tasks[1].points == second.points
    refused(lambda: found.best("2025"), "no data set '2025'", "2023, 2024")


def test_data_sets_that_cannot_be_scored():
    """The cause is in the message; nothing is tried where there are no folds."""
    x, y = table(0)
    three = np.arange(60) % 3
    options = {"evaluations": 3, "method": "random"}
    refused(lambda: tune(ESTIMATORS, {"one": (x, three)}, **options), "data set one", "multi_class")
    gaps = np.where(x > 1, np.nan, x)
    refused(lambda: tune(ESTIMATORS, {"one": (gaps, y)}, **options), "data set one", "NaN")
    rare = np.arange(60) < 2
    options["estimators"] = {"nearest": ESTIMATORS["nearest"]}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")
        refused(
            lambda: tune(datasets={"one": (x, rare)}, **options), "was NaN, as that of one with"
        )
    del options["estimators"]
    for cv in (100, "five", iter([])):
        refused(lambda cv=cv: tune(ESTIMATORS, {"one": (x, y)}, cv=cv, **options), "cv", "Data set")
    refused(lambda: tune(list(ESTIMATORS), {"one": (x, y)}), "estimators is a list")
    found = tune(ESTIMATORS, {2023: (x, y)}, **options | {"evaluations": 5})
    assert found.best(2023).get_params() == found.best().get_params()


def test_what_is_refused():
    refused(lambda: tune({}, {"one": table(0)}), "no estimators")
    refused(lambda: tune(ESTIMATORS, {}), "no data sets")
    bare = {"nearest": KNeighborsClassifier()}
    refused(lambda: tune(bare, {"one": table(0)}), "nearest", "Give an estimator and a mapping")
    refused(lambda: tune(ESTIMATORS, {"one": table(0)}, evaluations=0), "evaluations=0")
    refused(lambda: tune(ESTIMATORS, {"one": table(0)}, scoring="roc_aux"), "'roc_aux'")
    x, y = table(0)
    refused(lambda: tune(ESTIMATORS, {"one": (x, y[1:])}), "Data set one", "59")
    refused(lambda: tune(ESTIMATORS, {"one": x}), "Data set one isn't a pair")
    refused(lambda: tune(ESTIMATORS, {"one": (x, None)}), "scored on data set one")
    refused(lambda: tune(ESTIMATORS, {1: (x, y), "1": (x, y)}), "same as text")
    refused(lambda: tune(ESTIMATORS, {"one": (x, y)}, direction="minimize"), "no direction")
    listed = {"logistic": (LogisticRegression(), ["C"])}
    refused(lambda: tune(listed, {"one": (x, y)}), "Give an estimator and a mapping")
    pipe = make_pipeline(LogisticRegression())
    range_ = FloatDistribution(0.1, 1)
    both = {
        "a": (pipe, {"logisticregression__C": range_}),
        "a__logisticregression": (LogisticRegression(), {"C": range_}),
    }
    refused(lambda: tune(both, {"one": (x, y)}), "a__logisticregression__C")
    misspelt = {"logistic": (LogisticRegression(), {"c": FloatDistribution(0, 1)})}
    refused(lambda: tune(misspelt, {"one": (x, y)}), "no hyperparameter 'c'", "C, ")
