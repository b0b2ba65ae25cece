"""What the regressors have in common: input, predictions and pickles."""

from importlib.metadata import version
from numbers import Integral
from pickle import loads
from typing import Any

import numpy as np
from cloudpickle import dumps

from kem_pymc.errors import InputError
from kem_pymc.gp.prediction import Prediction

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "These regressors need scikit-learn, which isn't installed. Install kem-pymc[sklearn]."
    ) from error

#: Name of the target in what was learned, unless a feature has it.
TARGET = "y"


class GaussianRegressor(RegressorMixin, BaseEstimator):
    """Base class of regressors that predict with a mean and a standard deviation.

    A pickle is read by the version of kem_pymc that wrote it, and by no other.
    """

    random_state: Any

    def _points(self, X: Any, y: Any, *, reset: bool, least: int) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs (n, D) and targets (n,), checked as scikit-learn does."""
        options = {"dtype": np.float64, "y_numeric": True, "ensure_min_samples": least}
        inputs, targets = validate_data(self, X, y, reset=reset, **options)
        return inputs, np.asarray(targets, dtype=np.float64)

    @property
    def _features(self) -> tuple[str, ...]:
        """Names of the columns of X, ``x0`` and so on where they have none."""
        unnamed = [f"x{d}" for d in range(self.n_features_in_)]
        return tuple(map(str, getattr(self, "feature_names_in_", unnamed)))

    @property
    def _target(self) -> str:
        """A name of the target that no feature has."""
        name = TARGET
        while name in self._features:
            name += "_"
        return name

    def _seed(self) -> int:
        """Return a seed by `random_state`: a number is its own."""
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _inputs(self, X: Any) -> np.ndarray:
        """Return inputs (m, D) to predict at.

        Raises
        ------
        NotFittedError
            If nothing was learned.
        """
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64)

    def __getstate__(self) -> dict[str, Any]:
        # PyMC's models have functions that the standard library doesn't pickle; what scikit-learn
        # keeps of metadata leads back to the estimator.
        state, kept = super().__getstate__(), {}
        for name, value in state.items():
            kept[name] = value if name.startswith("_") else dumps(value)
        return kept | {"_kem_pymc": version("kem-pymc")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        written, here = state["_kem_pymc"], version("kem-pymc")
        if written != here:
            raise InputError(
                f"The pickle is of kem_pymc {written}, and this is {here}. Fit again, from what "
                "docs/how-to/sklearn.md says to keep."
            )
        state = {name: value for name, value in state.items() if name != "_kem_pymc"}
        every = {n: v if n.startswith("_") else loads(v) for n, v in state.items()}
        super().__setstate__(every)


def moments(prediction: Prediction, return_std: bool) -> Any:
    """Return the mean (m,) of a prediction, and its sd (m,) if that is asked for."""
    return (prediction.mean, prediction.sd) if return_std else prediction.mean
