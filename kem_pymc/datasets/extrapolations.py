"""Thirteen time series whose last part is predicted from the rest (Lloyd et al. 2014)."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from kem_pymc.datasets._home import find
from kem_pymc.datasets._study import Folder, not_csv

#: Files in the data home, and where they come from, for error messages.
SERIES, PUBLISHED = "tsdl13/tsdl13_all.csv", "tsdl13/published_rmse.csv"
SOURCE = "the supplement of Lloyd et al. (2014)"


class Extrapolation(NamedTuple):
    """A time series, of which the last part is predicted.

    Attributes
    ----------
    name : str
    x, y : ndarray, shape (n,)
        Times and values to learn from.
    x_test, y_test : ndarray, shape (m,)
        Times and values to predict, the last tenth of the range of times.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def extrapolations(data_home: Folder = None) -> dict[str, Extrapolation]:
    """Load the thirteen series, by name.

    Parameters
    ----------
    data_home : path, optional
        Folder of the data files, see :func:`kem_pymc.datasets.data_home`.

    Raises
    ------
    InputError
        If the file isn't a CSV file with the columns of the series.
    DataFileNotFoundError
        If the file isn't in the data home.
    """
    file = find(SERIES, data_home, source=SOURCE)
    found = {}
    try:
        for name, own in pd.read_csv(file).groupby("series", sort=True):
            test = (own["split_extrap_9010"] == "test").to_numpy()
            x, y = own["x"].to_numpy(np.float64), own["y"].to_numpy(np.float64)
            found[str(name)] = Extrapolation(str(name), x[~test], y[~test], x[test], y[test])
    except (ValueError, KeyError, OSError) as error:
        raise not_csv(file) from error
    return found


def published_errors(data_home: Folder = None) -> pd.DataFrame:
    """Load the root mean square errors of table 6 of Roman et al. (2019).

    Parameters
    ----------
    data_home : path, optional
        Folder of the data files, see :func:`kem_pymc.datasets.data_home`.

    Returns
    -------
    DataFrame
        One row per series. The column ``denom`` is the
        smallest error of any method, by which errors are divided; the others are methods.

    Raises
    ------
    InputError
        If the file isn't a CSV file with these columns.
    DataFileNotFoundError
        If the file isn't in the data home.
    """
    file = find(PUBLISHED, data_home, source=SOURCE)
    try:
        table = pd.read_csv(file).drop(columns="dataset").astype(np.float64)
        return table.set_index(pd.Index(list(extrapolations(data_home)), name="series"))
    except (ValueError, KeyError, OSError) as error:
        raise not_csv(file) from error
