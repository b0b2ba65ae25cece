"""An example of a space: the classifiers of Zhang et al. (2019, section 3.2 and supplement)."""

from importlib.util import find_spec

from kem_pymc.errors import InputError
from kem_pymc.lifelong.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from kem_pymc.lifelong.tuning import Candidate

#: Solvers of logistic regression.
SOLVERS = ("newton-cg", "lbfgs", "liblinear", "sag", "saga")


def classifiers(seed: int = 0) -> dict[str, Candidate]:
    """Return XGBoost, logistic regression, and Bernoulli and multinomial naive Bayes.

    With the choice of the classifier the space has nine dimensions, with the paper's ranges. Its
    "learning rate" of logistic regression, which scikit-learn's has not, is the tolerance here.
    Features are standardised for logistic regression, split at their means for Bernoulli naive
    Bayes, and scaled to [0, 1] for multinomial naive Bayes.

    Parameters
    ----------
    seed : int
        Seed of solvers and of XGBoost.

    Returns
    -------
    dict of str to (estimator, dict)
        For :func:`kem_pymc.lifelong.tuning.tune`.

    Raises
    ------
    InputError
        If scikit-learn or XGBoost isn't installed.
    """
    missing = [name for name in ("sklearn", "xgboost") if find_spec(name) is None]
    if missing:
        raise InputError(
            f"These classifiers need {' and '.join(missing)}. Install kem-pymc[tuning]."
        )
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import BernoulliNB, MultinomialNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler
    from xgboost import XGBClassifier

    smoothing = FloatDistribution(0.005, 5)
    return {
        "xgboost": (
            XGBClassifier(random_state=seed, n_jobs=1),
            {
                "n_estimators": IntDistribution(10, 500),
                "max_depth": IntDistribution(1, 10),
                "learning_rate": FloatDistribution(0.005, 0.5),
            },
        ),
        "logistic": (
            make_pipeline(StandardScaler(), LogisticRegression(random_state=seed)),
            {
                "logisticregression__C": FloatDistribution(0.001, 10),
                "logisticregression__solver": CategoricalDistribution(SOLVERS),
                "logisticregression__tol": FloatDistribution(0.005, 0.5),
            },
        ),
        "bernoulli": (
            make_pipeline(StandardScaler(), BernoulliNB()),
            {"bernoullinb__alpha": smoothing},
        ),
        "multinomial": (
            make_pipeline(MinMaxScaler(clip=True), MultinomialNB()),
            {"multinomialnb__alpha": smoothing},
        ),
    }
