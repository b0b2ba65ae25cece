"""Perceived temperature from temperature, humidity and wind, and weather stations.

The formulas are those of the United States' National Weather Service: the heat index (Rothfusz
1990, with its adjustments) above 70 degrees Fahrenheit, and the wind chill (2001) below 50.
"""

from typing import Any, NamedTuple

import numpy as np

from kem_pymc.data.datasets.files import Folder, not_csv, read_csv

#: Files of stations, by the time of their reports: a night and an afternoon in autumn.
NIGHT, AFTERNOON = "weather/us_metar_2022-10-23.csv", "weather/us_metar_2014-09-26.csv"
SOURCE = "the reports of the Aviation Weather Center of that day, as a table of stations"

#: Degrees Fahrenheit above which the heat index holds, and below which the wind chill does; and the
#: wind speed in miles per hour from which it does.
WARM, COLD, WINDY = 70.0, 50.0, 3.0

#: Miles per hour in a knot.
KNOT = 1.150779


class Stations(NamedTuple):
    """Weather stations of the contiguous United States at one time.

    Attributes
    ----------
    places : ndarray, shape (n, 2)
        Latitude and longitude in degrees.
    weather : ndarray, shape (n, 3)
        Temperature in degrees Fahrenheit, relative humidity in percent, and wind speed in miles
        per hour.
    """

    places: np.ndarray
    weather: np.ndarray


def perceived_temperature(temperature: Any, humidity: Any, wind: Any, numbers: Any = np) -> Any:
    """Return the perceived temperature in degrees Fahrenheit.

    Parameters
    ----------
    temperature : array
        Degrees Fahrenheit.
    humidity : array
        Relative humidity in percent.
    wind : array
        Miles per hour.
    numbers : module
        NumPy, or ``pytensor.tensor`` for expressions.
    """
    where = np.where if numbers is np else numbers.switch
    heat = _heat_index(temperature, humidity, numbers, where)
    power = numbers.maximum(wind, WINDY) ** 0.16
    chill = 35.74 + 0.6215 * temperature + (0.4275 * temperature - 35.75) * power
    cold = where(wind >= WINDY, chill, temperature)
    return where(temperature > WARM, heat, where(temperature < COLD, cold, temperature))


def _heat_index(t: Any, r: Any, numbers: Any, where: Any) -> Any:
    """Return the heat index: a mean with the simple formula, or Rothfusz's from 80 degrees on."""
    simple = 0.5 * (t + 0.5 * (t + 61.0 + (t - 68.0) * 1.2 + r * 0.094))
    full = -42.379 + 2.04901523 * t + 10.14333127 * r - 0.22475541 * t * r
    full += -6.83783e-3 * t**2 - 5.481717e-2 * r**2 + 1.22874e-3 * t**2 * r
    full += 8.5282e-4 * t * r**2 - 1.99e-6 * t**2 * r**2
    root = numbers.sqrt(numbers.maximum(17.0 - abs(t - 95.0), 0.0) / 17.0)
    dry = (13.0 - r) / 4.0 * root
    humid = (r - 85.0) / 10.0 * (87.0 - t) / 5.0
    full -= where((r < 13.0) & (t >= 80.0) & (t <= 112.0), dry, 0.0 * t)
    full += where((r > 85.0) & (t >= 80.0) & (t <= 87.0), humid, 0.0 * t)
    return where(simple >= 80.0, full, simple)


def stations(file: str = NIGHT, data_home: Folder = None) -> Stations:
    """Load the stations of the contiguous United States, without repeated places.

    Parameters
    ----------
    file : str
        `NIGHT` or `AFTERNOON`.
    data_home : path, optional
        Folder of the data files, see :func:`kem_pymc.data.datasets.data_home`.

    Raises
    ------
    InputError
        If the file isn't a CSV file with the expected columns of numbers.
    DataFileNotFoundError
        If the file isn't in the data home.
    """
    values = ["latitude", "longitude", "temp_c", "relative_humidity_pct", "wind_speed_kt"]
    table = read_csv(file, data_home, source=SOURCE, columns=[*values, "region"])
    table = table[table["region"] == "CONUS"].dropna(subset=values)
    table = table.drop_duplicates(subset=values[:2])
    try:
        rows = table[values].to_numpy(np.float64)
    except ValueError as error:
        raise not_csv(file) from error
    weather = np.column_stack([rows[:, 2] * 1.8 + 32, rows[:, 3], rows[:, 4] * KNOT])
    return Stations(rows[:, :2], weather)
