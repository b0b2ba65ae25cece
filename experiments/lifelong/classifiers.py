"""The classifiers of Zhang et al. (2019, section 3.2 and supplement), and their scores."""

import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import Trial

from kem_pymc.errors import InputError

#: Solvers of logistic regression.
SOLVERS = ("newton-cg", "lbfgs", "liblinear", "sag", "saga")

#: The paper's nine dimensions and their ranges. Its "learning rate" of logistic regression, which
#: scikit-learn's has not, is the tolerance here.
SPACE: dict[str, BaseDistribution] = {
    "classifier": CategoricalDistribution(("xgboost", "logistic", "bernoulli", "multinomial")),
    "xgboost.n_estimators": IntDistribution(10, 500),
    "xgboost.max_depth": IntDistribution(1, 10),
    "xgboost.learning_rate": FloatDistribution(0.005, 0.5),
    "logistic.C": FloatDistribution(0.001, 10),
    "logistic.solver": CategoricalDistribution(SOLVERS),
    "logistic.tol": FloatDistribution(0.005, 0.5),
    "bernoulli.alpha": FloatDistribution(0.005, 5),
    "multinomial.alpha": FloatDistribution(0.005, 5),
}


def suggest(trial: Trial) -> None:
    """Suggest a classifier, and the hyperparameters that it has; the others are inactive."""
    for name, distribution in SPACE.items():
        owner, _, hyperparameter = name.partition(".")
        if not hyperparameter or owner == trial.params["classifier"]:
            trial._suggest(name, distribution)


def check_installed() -> None:
    """Check that scikit-learn and XGBoost are installed.

    Raises
    ------
    InputError
        If one isn't.
    """
    missing = [name for name in ("sklearn", "xgboost") if find_spec(name) is None]
    if missing:
        raise InputError(
            f"These classifiers need {' and '.join(missing)}. Install kem-pymc[tuning]."
        )


def classifier(point: Mapping[str, Any], seed: int = 0) -> Any:
    """Return the classifier of a point of the space, not fitted.

    Features are standardised for logistic regression, split at their means for Bernoulli naive
    Bayes, and scaled to [0, 1] for multinomial naive Bayes.

    Parameters
    ----------
    point : mapping
    seed : int
        Seed of solvers and of XGBoost.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import BernoulliNB, MultinomialNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler
    from xgboost import XGBClassifier

    name = point["classifier"]
    parameters = {
        key.partition(".")[2]: v for key, v in point.items() if key.startswith(f"{name}.")
    }
    if name == "xgboost":
        return XGBClassifier(random_state=seed, n_jobs=1, **parameters)
    if name == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression(random_state=seed, **parameters))
    if name == "bernoulli":
        return make_pipeline(StandardScaler(), BernoulliNB(**parameters))
    return make_pipeline(MinMaxScaler(clip=True), MultinomialNB(**parameters))


def score(point: Mapping[str, Any], x: Any, y: Any, folds: int) -> float:
    """Return the cross-validated area under the curve; NaN if a fold can't be fitted."""
    from sklearn.exceptions import FitFailedWarning
    from sklearn.model_selection import cross_val_score

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)
        try:
            return float(
                np.mean(cross_val_score(classifier(point), x, y, scoring="roc_auc", cv=folds))
            )
        except ValueError:  # no fold could be fitted
            return np.nan
