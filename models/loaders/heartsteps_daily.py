"""Loader of HeartSteps daily steps: 20 of the users of HeartSteps V1, not the paper's data.

It allows trying the study of :func:`heartsteps` if the data by minute that the
paper uses aren't available. As there, no measurement of the wristband is a feature.
"""

import numpy as np
import pandas as pd

from kem_pymc.data.datasets import Split
from kem_pymc.data.datasets.files import Folder

from .days import Callback, filtered, read_days
from .split import Seed

#: Features of HeartSteps daily steps. The first 12 are numbers, the last 5 binary.
HEARTSTEPS_DAILY = (
    *("study_day", "day_of_week", "google_fit_steps", "app_sessions", "available", "suggestions"),
    *("dosage", "share_home", "share_work", "temperature", "windspeed", "precipitation_chance"),
    *("travel", "weekend", "planned", "clear", "evening_home"),
)
#: The same features without the one that is known only after the day.
HEARTSTEPS_FORECAST = tuple(f for f in HEARTSTEPS_DAILY if f != "google_fit_steps")
_DAILY_NUMBERS = {
    "study_day": "study_day",
    "day_of_week": "dow",
    "google_fit_steps": "gf_steps",
    "app_sessions": "app_sessions",
    "available": "n_avail",
    "suggestions": "n_sent",
    "dosage": "mean_dosage",
    "share_home": "frac_home",
    "share_work": "frac_work",
    "temperature": "temperature_c",
    "windspeed": "windspeed",
    "precipitation_chance": "precip_chance",
    "travel": "travel",
}
_DAILY_CONTEXT = (
    *("app_sessions", "dosage", "share_home", "share_work"),
    *("temperature", "windspeed", "precipitation_chance", "clear", "evening_home"),
)


def heartsteps_daily(
    data_home: Folder = None,
    seed: Seed = 0,
    *,
    batch: int = 5,
    minimum: int = 10,
    callback: Callback = None,
    forecast: bool = False,
) -> Split:
    """Load HeartSteps daily steps: user-days of 20 of the users of HeartSteps V1.

    This isn't the paper's data. The target is ``root_steps``, the square root of the wristband's
    daily steps, from the 17 features of ``HEARTSTEPS_DAILY``. The original user-days are those with
    a number of steps. Days with zero steps are dropped, then days with an unknown feature, then
    users with fewer than `minimum` days. If no pilot user travelled, the feature ``travel`` is
    constant and scaling raises an error; choose another seed then.

    ``google_fit_steps`` is the phone's count of the same day's steps, which is known only
    afterwards: with it this is a study of how kernels evolve, not a forecast. ``forecast=True``
    excludes it and uses the 16 features of ``HEARTSTEPS_FORECAST``, which also keeps the users
    whose phone counted no steps. Features of what the app did on the day are kept: they are known
    by the evening.

    Missing values: steps of the phone aren't imputed, because they are the most informative feature
    of the day, so users whose phone counted none are dropped. Days without decision points, for
    example during travel, have 0 available ones and 0 suggestions. For place, weather, use of the
    app and the recent dosage of suggestions, missing values are replaced by the user's last known
    ones, except before the first known one. The wristband's steps of the day before aren't a
    feature, as they are the target.

    File ``heartsteps/daily_users_01_20.csv``, with columns user, weekday, location, weather,
    planning_today, jb_steps_agg, study_day, dow, gf_steps, app_sessions, n_avail, n_sent,
    mean_dosage, frac_home, frac_work, temperature_c, windspeed, precip_chance and travel. The file
    itself isn't published: it was made from the study's daily questionnaires and suggestions.

    Parameters and errors are those of :func:`heartsteps`.
    """
    numbers = ("user", "weekday", "jb_steps_agg", *_DAILY_NUMBERS.values())
    name = "daily_users_01_20.csv"
    columns = (*numbers, "location", "weather", "planning_today")
    table = read_days(name, data_home, columns, numbers)
    days = pd.DataFrame({feature: table[column] for feature, column in _DAILY_NUMBERS.items()})
    days["user"], days["day"] = table["user"], table["study_day"]
    days["weekend"] = table["weekday"] == 0
    days["planned"] = table["planning_today"].isin(["structured", "unstructured"])
    for feature, column, value in (
        ("clear", "weather", "clear"),
        ("evening_home", "location", "home"),
    ):
        given = table[column].notna() & (table[column] != "unknown")
        days[feature] = (table[column] == value).astype(np.float64).where(given)
    days[["available", "suggestions"]] = days[["available", "suggestions"]].fillna(0)
    days["root_steps"] = np.sqrt(table["jb_steps_agg"].clip(lower=0))
    return filtered(
        days,
        HEARTSTEPS_FORECAST if forecast else HEARTSTEPS_DAILY,
        "root_steps",
        _DAILY_CONTEXT,
        batch=batch,
        minimum=minimum,
        seed=seed,
        callback=callback,
    )
