"""Paths of searches for the kernel of a time series: what was found, after how many kernels."""

import math
import time
from typing import NamedTuple

import numpy as np

from experiments.data.series import Series
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.search.evaluation import Evaluated
from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.result import EvolvedSelection, predict
from kem_pymc.search.points import scaled
from kem_pymc.selection.selection import Selection


class ScaledSeries(NamedTuple):
    """A series in scaled units, in the order of time.

    Attributes
    ----------
    x, y, x_test : ndarray
        Shapes (n, 1), (n,) and (m, 1).
    scaling : Scaling
    series : Series
        The series in its own units.
    """

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    scaling: Scaling
    series: Series

    @classmethod
    def of(cls, series: Series) -> "ScaledSeries":
        """Scale a series."""
        order = np.argsort(series.x, kind="stable")
        x, y, scaling = scaled(series.x[order], series.y[order])
        return cls(x, y, scaling.inputs(series.x_test[:, None]), scaling, series)

    def error(self, mean: np.ndarray) -> float:
        """Return the root mean square error of predictions (m,) in scaled units."""
        return float(np.sqrt(np.mean((self.scaling.mean_back(mean) - self.series.y_test) ** 2)))


def densities(selection: EvolvedSelection | Selection, data: ScaledSeries) -> dict[str, float]:
    """Return log densities of the best kernel and of averages over kernels, and the latter's error.

    Densities are means over test points, of targets in standard deviations of the training part.
    """
    x, y = data.series.x_test, data.series.y_test
    try:
        single, averaged = (selection.predict(x, True, single=single) for single in (True, False))
    except InputError:
        return {}
    unit = np.log(data.series.y.std())
    return {
        "log_density": float(single.log_predictive_density(y).mean() + unit),
        "rmse_averaged": float(np.sqrt(np.mean((averaged.mean - y) ** 2))),
        "log_density_averaged": float(averaged.log_predictive_density(y).mean() + unit),
    }


class SearchPath:
    """Rows of a search, from the start of the clock on.

    Kernels that can't predict at the test inputs are passed over.

    Parameters
    ----------
    data : ScaledSeries
    original : Individual, optional
        If given, it has the first row, and every kernel has one, with an infinite error if it can't
        predict.
    """

    def __init__(self, data: ScaledSeries, original: Individual | None) -> None:
        self.data, self.every = data, original is not None
        self.began = time.process_time()
        self.kept: list[dict[str, object]] = []
        self.best = math.inf
        self.kernels = self.evaluations = 0
        if original is not None:
            self.kept.append(self._row(original, self._error(original)))

    def count(self, individual: Evaluated) -> None:
        """Count a kernel that was fitted."""
        self.kernels += 1
        self.evaluations += individual.gradients

    def add(self, individual: Individual) -> None:
        """Count a kernel that was fitted, and add it if its BIC is the smallest so far."""
        self.count(individual)
        if not (self.every or individual.bic < self.best):
            return
        error = self._error(individual)
        if math.isfinite(error):
            self.best = min(self.best, individual.bic)
        if math.isfinite(error) or self.every:
            self.kept.append(self._row(individual, error))

    def rows(self) -> list[dict[str, object]]:
        """Return the rows; unless there is one for every kernel, the last row is of the end."""
        if not self.kept:
            self.kept = [{"bic": math.inf, "rmse": math.inf, "size": 0, "kernel": ""}]
        if self.every:
            return self.kept
        return [*self.kept, self.kept[-1] | self._spent()]

    def _spent(self) -> dict[str, object]:
        return {
            "kernels": self.kernels,
            "evaluations": self.evaluations,
            "elapsed": time.process_time() - self.began,
        }

    def _row(self, individual: Individual, error: float) -> dict[str, object]:
        return self._spent() | {
            "bic": individual.bic,
            "rmse": error,
            "size": len(individual.natural),
            "kernel": str(individual.tree),
        }

    def _error(self, individual: Individual) -> float:
        if not math.isfinite(individual.bic):
            return math.inf
        try:
            mean = predict(individual, self.data.x, self.data.y, self.data.x_test).mean
        except InputError:
            return math.inf
        error = self.data.error(mean)
        return error if math.isfinite(error) else math.inf
