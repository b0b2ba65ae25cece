"""Time series to extrapolate: the thirteen of Lloyd et al. (2014), and hourly counts."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from kem_pymc.data.datasets.files import Folder, not_csv, read_csv
from kem_pymc.errors import InputError

#: Files of the thirteen series, and of the test errors that were published for them.
VALUES, PUBLISHED = "tsdl13/tsdl13_all.csv", "tsdl13/published_rmse.csv"

#: Where the files come from, for error messages.
SOURCES = {
    VALUES: "the data of Lloyd et al. (2014), as a table with columns series, x, y, "
    "split_extrap_9010",
    PUBLISHED: "table 6 of Roman et al. (2019), in the units of the series",
}

#: Titles of the thirteen series by name.
TSDL = {
    "01-airline": "Airline",
    "02-solar": "Solar",
    "03-mauna": "Mauna Loa",
    "04-wheat": "Wheat prices",
    "05-temperature": "Temperatures",
    "06-internet": "Internet",
    "07-call-centre": "Calls",
    "08-radio": "Radio",
    "09-gas-production": "Gas",
    "10-sulphuric": "Sulphuric acid",
    "11-unemployment": "Unemployment",
    "12-births": "Births",
    "13-wages": "Wages",
}

#: Columns of published errors: the smallest one of any trial of any method; ABCD (accuracy), GPSS;
#: and the best and the mean of ten trials of Random Search, Go With The First, EvoCov LML and SoPL.
COLUMNS = (
    *("denom", "ABCDacc", "GPSS", "RSbest", "RSmean", "GWFbest", "GWFmean"),
    *("ELbest", "ELmean", "ESbest", "ESmean"),
)

#: Length of the day and of the week in hours.
DAY, WEEK = 24, 168


class Series(NamedTuple):
    """The training and the test part of a time series.

    Attributes
    ----------
    name : str
    x, y : ndarray, shape (n,)
        Times and values to learn from.
    x_test, y_test : ndarray, shape (m,)
        Later times and values, to predict.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def series(name: str, data_home: Folder = None) -> Series:
    """Load one of the thirteen series, or simulate hourly counts.

    Parameters
    ----------
    name : str
        Key of :data:`TSDL`, or of :data:`HOURLY`.
    data_home : path, optional
        Folder of the data files, see :func:`kem_pymc.data.datasets.data_home`.

    Returns
    -------
    Series
        The test part of the thirteen series is the last tenth of the range of times. That of
        counts is the second half.

    Raises
    ------
    InputError
        If there is no series of that name, or its file isn't a CSV file with the columns series,
        x, y and split_extrap_9010.
    DataFileNotFoundError
        If the file isn't in the data home.
    """
    if name in HOURLY:
        return _hourly(name)
    if name not in TSDL:
        raise InputError(f"There is no series {name!r}. Use one of {', '.join([*TSDL, *HOURLY])}.")
    columns = ["series", "x", "y", "split_extrap_9010"]
    table = read_csv(VALUES, data_home, source=SOURCES[VALUES], columns=columns)
    rows = table[table["series"] == name]
    test = (rows["split_extrap_9010"] == "test").to_numpy()
    try:
        x, y = rows["x"].to_numpy(np.float64), rows["y"].to_numpy(np.float64)
    except ValueError as error:
        raise not_csv(VALUES) from error
    if test.all() or not test.any():
        raise InputError(f"{VALUES} has no training or no test part of {name}. Get it again.")
    return Series(name, x[~test], y[~test], x[test], y[test])


def published_errors(data_home: Folder = None) -> pd.DataFrame:
    """Return published root mean square errors of the thirteen series (Roman et al. 2019, table 6).

    Returns
    -------
    DataFrame
        A row for each name in :data:`TSDL`, and the columns :data:`COLUMNS`.

    Raises
    ------
    InputError
        If the file doesn't have thirteen rows of numbers in these columns.
    DataFileNotFoundError
        If the file isn't in the data home.
    """
    table = read_csv(PUBLISHED, data_home, source=SOURCES[PUBLISHED], columns=COLUMNS)
    try:
        return table[list(COLUMNS)].astype(np.float64).set_axis(list(TSDL))
    except ValueError as error:
        raise not_csv(PUBLISHED) from error


# --- Hourly counts --------------------------------------------------------------------------------


def _spike(hours: np.ndarray, period: float, at: float, width: float) -> np.ndarray:
    """Return periodic spikes of height 1 at hour `at`, with standard deviation `width` in hours."""
    angle = 2 * np.pi * (hours - at) / period
    concentration = (period / (2 * np.pi * width)) ** 2
    return np.exp(concentration * (np.cos(angle) - 1))


def _mornings(hours: np.ndarray) -> np.ndarray:
    return 2 + 60 * _spike(hours, DAY, 8, 1.5)


def _breakfasts(hours: np.ndarray) -> np.ndarray:
    weekend = hours % WEEK >= 5 * DAY
    later = _spike(hours, DAY, 10, 2.0)
    return 1 + 12 * np.where(weekend, 1.5 * later, _spike(hours, DAY, 8, 1.5))


def _confessions(hours: np.ndarray) -> np.ndarray:
    return 0.2 + 40 * np.exp(-0.5 * ((hours - 200) / 6) ** 2)


def _failures(hours: np.ndarray) -> np.ndarray:
    return 15 + 8 * np.cos(2 * np.pi * (hours - 17) / DAY) + 3 * np.sin(hours / 90)


def _announcements(hours: np.ndarray) -> np.ndarray:
    return np.full(len(hours), 4.0)


def _shows(hours: np.ndarray) -> np.ndarray:
    return 1 + 80 * _spike(hours, WEEK, 21, 2.0)


#: Simulated series of hourly counts by name: mean counts as a function of hours, and the number of
#: days of each half. They imitate the hashtags of Preotiuc-Pietro and Cohn (2013).
HOURLY: dict[str, tuple[Callable[[np.ndarray], np.ndarray], int]] = {
    "mornings": (_mornings, 14),
    "breakfasts": (_breakfasts, 28),
    "confessions": (_confessions, 28),
    "failures": (_failures, 28),
    "announcements": (_announcements, 28),
    "shows": (_shows, 28),
}


def _hourly(name: str) -> Series:
    """Return Poisson counts, which are the same in every call."""
    mean, days = HOURLY[name]
    hours = np.arange(2.0 * days * DAY)
    rng = np.random.default_rng([2013, list(HOURLY).index(name)])
    counts = rng.poisson(mean(hours)).astype(np.float64)
    half = days * DAY
    return Series(name, hours[:half], counts[:half], hours[half:], counts[half:])
