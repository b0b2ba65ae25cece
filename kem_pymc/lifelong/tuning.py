"""Choice of an estimator and its hyperparameters on data sets that arrive over time."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from kem_pymc.errors import InputError
from kem_pymc.lifelong.distributions import CategoricalDistribution, Distribution
from kem_pymc.lifelong.optimizer import LifelongOptimizer
from kem_pymc.lifelong.sequence import named, run
from kem_pymc.lifelong.space import Space

#: Name of the dimension that chooses the estimator.
ESTIMATOR = "estimator"

#: An estimator with the values that its hyperparameters may have.
type Candidate = tuple[Any, Mapping[str, Distribution]]


@dataclass(frozen=True, eq=False)
class Tuned:
    """What was found for each data set.

    Attributes
    ----------
    optimizer : LifelongOptimizer
        With a task for each data set; values are cross-validated scores.
    estimators : dict of str to tuple
        The candidates, by name.
    """

    optimizer: LifelongOptimizer
    estimators: Mapping[str, Candidate]

    def best(self, name: str | None = None) -> Any:
        """Return the best estimator for a data set, not fitted.

        Parameters
        ----------
        name : str, optional
            Name of the data set; by default the last one.

        Raises
        ------
        InputError
            If there is no data set of that name, or no score.
        """
        tasks = {task.name: task for task in self.optimizer.tasks}
        name = next(reversed(tasks)) if name is None else str(name)
        if name not in tasks:
            raise InputError(f"There is no data set {name!r}. Use one of {', '.join(tasks)}.")
        point, _ = tasks[name].best(sign=-1.0)
        return built(self.estimators, point)


def space_of(estimators: Mapping[str, Candidate]) -> Space:
    """Return the space of all estimators: which one, and the hyperparameters of each.

    Raises
    ------
    InputError
        If there are no estimators, one has no hyperparameter of a name, two hyperparameters have
        one name with that of their estimator, or there is nothing to choose.
    """
    if not estimators:
        raise InputError("There are no estimators. Give at least one.")
    for name, candidate in estimators.items():
        try:
            estimator, distributions = candidate
            known = estimator.get_params()
            distributions = dict(distributions)
        except (TypeError, ValueError, AttributeError):
            raise InputError(
                f"The estimator {name} is {candidate!r}. Give an estimator and a mapping of "
                "distributions of its hyperparameters."
            ) from None
        for own in distributions:
            if own not in known:
                raise InputError(
                    f"The estimator {name} has no hyperparameter {own!r}. "
                    f"Use one of {', '.join(known)}."
                )
    dimensions: dict[str, Distribution] = {}
    if len(estimators) > 1:
        dimensions[ESTIMATOR] = CategoricalDistribution(tuple(estimators))
    for name, (_, distributions) in estimators.items():
        for own, values in distributions.items():
            if (dimension := f"{name}__{own}") in dimensions:
                raise InputError(f"Two estimators have a dimension {dimension!r}. Rename one.")
            dimensions[dimension] = values
    return Space(dimensions)


def built(estimators: Mapping[str, Candidate], point: Mapping[str, Any]) -> Any:
    """Return the estimator of a point, with its hyperparameters, not fitted."""
    from sklearn.base import clone

    name = point.get(ESTIMATOR, next(iter(estimators)))
    estimator, distributions = estimators[name]
    return clone(estimator).set_params(**{own: point[f"{name}__{own}"] for own in distributions})


class CrossValidated:
    """The mean cross-validated score on a data set, as a function of the point.

    It is None, or NaN, if a fold can't be fitted or scored.

    Parameters
    ----------
    estimators, scoring, cv
        As for :func:`tune`. All points have the same folds.
    x, y
        Features and targets.

    Raises
    ------
    ValueError
        If there are no such folds.
    """

    def __init__(
        self, estimators: Mapping[str, Candidate], x: Any, y: Any, *, scoring: Any, cv: Any
    ) -> None:
        from sklearn.base import is_classifier
        from sklearn.model_selection import check_cv

        self.estimators, self.x, self.y, self.scoring = estimators, x, y, scoring
        classifier = any(is_classifier(estimator) for estimator, _ in estimators.values())
        self.folds = list(check_cv(cv, y, classifier=classifier).split(x, y))
        if not self.folds:
            raise ValueError("There are no folds.")

    def __call__(self, point: dict[str, Any]) -> float | None:
        """Return the score of a point."""
        try:
            return self._score(point)
        except ValueError:  # no fold could be fitted
            return None

    def cause(self, point: dict[str, Any]) -> str:
        """Return why a point has no score, which is found by evaluating it again."""
        try:
            self._score(point, error_score="raise")
        except Exception as error:  # of any estimator
            return f"{type(error).__name__}: {str(error).partition('\n')[0].removesuffix('.')}"
        return "the score of a fold was NaN, as that of one with a single class"

    def _score(self, point: dict[str, Any], **options: Any) -> float:
        from sklearn.exceptions import FitFailedWarning, UndefinedMetricWarning
        from sklearn.model_selection import cross_val_score

        estimator = built(self.estimators, point)
        given = {"scoring": self.scoring, "cv": self.folds, **options}
        with warnings.catch_warnings():
            for category in (FitFailedWarning, UndefinedMetricWarning):
                warnings.simplefilter("ignore", category)
            warnings.filterwarnings("ignore", "Scoring failed")
            return float(np.mean(cross_val_score(estimator, self.x, self.y, **given)))


def _scikit_learn() -> None:
    """Raise an error if scikit-learn isn't installed."""
    if find_spec("sklearn") is None:
        raise InputError(
            "Tuning needs scikit-learn, which isn't installed. Install kem-pymc[tuning]."
        )


def tune(
    estimators: Mapping[str, Candidate],
    datasets: Mapping[str, tuple[Any, Any]],
    *,
    scoring: Any = "roc_auc",
    cv: Any = 5,
    evaluations: int = 50,
    **options: Any,
) -> Tuned:
    """Tune estimators on data sets that arrive one after the other.

    Parameters
    ----------
    estimators : mapping of str to (estimator, mapping)
        Estimators with the interface of scikit-learn, and distributions of their hyperparameters by
        name. If there are several, which one is used is part of the point.
    datasets : mapping of str to (X, y)
        Features and targets, in the order in which they arrive.
    scoring, cv
        As in scikit-learn's ``cross_val_score``; larger scores are better. All points have the same
        folds; give shuffled ones a ``random_state``, for a search that is continued.
    evaluations : int
        Number of points that are tried on each data set. One that can't be fitted counts as failed.
    **options
        Of :class:`LifelongOptimizer`, such as `method`, `seed` and `out`.

    Returns
    -------
    Tuned

    Raises
    ------
    InputError
        If there are no estimators or data sets, a data set has targets of another length or can't
        be divided into folds, no estimator can be fitted and scored on one, the scoring or a
        hyperparameter is unknown, an option is invalid, or scikit-learn is missing.

    Examples
    --------
    >>> regularised = LogisticRegression(), {"C": FloatDistribution(1e-3, 10, log=True)}
    >>> found = tune({"logistic": regularised}, {"2023": (x, y), "2024": (x_new, y_new)})
    >>> found.best("2024").fit(x_new, y_new)
    """
    _scikit_learn()
    from sklearn.metrics import get_scorer
    from sklearn.utils import check_consistent_length

    for what, own in {"estimators": estimators, "datasets": datasets}.items():
        if not isinstance(own, Mapping):
            raise InputError(f"{what} is a {type(own).__name__}. Give a mapping of names.")
    if not datasets:
        raise InputError("There are no data sets. Give at least one.")
    if "direction" in options:
        raise InputError("tune has no direction, since larger scores are better. Leave it out.")
    datasets = named(datasets)
    for name, pair in datasets.items():
        try:
            x, y = pair
        except (TypeError, ValueError):
            raise InputError(f"Data set {name} isn't a pair. Give features and targets.") from None
        try:
            check_consistent_length(x, y)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"Data set {name}: {error}. Give one row of features per target."
            ) from None
    if scoring is not None:
        try:
            get_scorer(scoring)
        except ValueError as error:
            raise InputError(f"There is no scoring {scoring!r}. {error}") from None
    space = space_of(estimators)
    functions: dict[str, CrossValidated] = {}
    for name, (x, y) in datasets.items():
        try:
            functions[name] = CrossValidated(estimators, x, y, scoring=scoring, cv=cv)
        except (ValueError, TypeError) as error:
            raise InputError(
                f"Data set {name} can't be divided into folds: {error} Give another cv or "
                "more rows."
            ) from None
    optimizer = LifelongOptimizer(space, direction="maximize", **options)
    for name, function in functions.items():
        run(optimizer, {name: function}, evaluations)
        (task,) = (task for task in optimizer.tasks if task.name == name)
        if not task.has_values:
            raise InputError(
                f"No estimator could be fitted and scored on data set {name}: "
                f"{function.cause(task.points[0])}. Fix the data or the estimators, and start "
                "again, in another folder."
            )
    return Tuned(optimizer, estimators)
