"""Loaders of data sets without users: time series and tables on which kernels are searched for."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from kem_pymc.data.datasets.files import Folder, find_file, not_csv
from kem_pymc.errors import InputError

#: Where the files come from, for error messages.
SOURCE = "the supplement of Duvenaud et al. (2013), or UCI (housing)"


class Single(NamedTuple):
    """A data set without users.

    Attributes
    ----------
    x : ndarray, shape (n, D)
        Inputs.
    y : ndarray, shape (n,)
        Targets.
    features : tuple of str
        Names of the input columns.
    target : str
        Name of the target.
    """

    x: np.ndarray
    y: np.ndarray
    features: tuple[str, ...]
    target: str


#: File of each data set, in the data home. The last column is the target.
FILES = {
    "airline": "boms/airline.csv",
    "mauna_loa": "boms/mauna_loa.csv",
    "solar": "boms/solar.csv",
    "methane_500": "boms/methane_500.csv",
    "concrete_full": "boms/concrete.csv",
    "boston_housing": "uci/boston_housing.csv",
}


def single(name: str, data_home: Folder = None) -> Single:
    """Load a data set without users, on which kernels are searched for.

    Parameters
    ----------
    name : {"airline", "mauna_loa", "solar", "methane_500", "concrete_full", "boston_housing"}
        Name of the data set: monthly airline passengers, CO2 at Mauna Loa, solar irradiance, the
        first 500 flask samples of methane at Barrow, and two tables of UCI (concrete with all
        digits).
    data_home : path, optional
        Folder of the data files, see :func:`kem_pymc.data.datasets.data_home`.

    Returns
    -------
    Single

    Raises
    ------
    InputError
        If there is no data set of that name, or its file isn't a CSV file of numbers.
    DataFileNotFoundError
        If the file isn't in the data home.
    """
    if name not in FILES:
        raise InputError(f"There is no data set {name!r}. Use one of {', '.join(FILES)}.")
    file = find_file(FILES[name], data_home, source=SOURCE)
    try:
        table = pd.read_csv(file).astype(np.float64)
    except (ValueError, OSError) as error:
        raise not_csv(file) from error
    values = table.to_numpy()
    *features, target = map(str, table.columns)
    return Single(values[:, :-1], values[:, -1], tuple(features), target)
