"""Loader of the HeartSteps V1 study (section 10.2.1): daily active minutes, counted by a wristband.

The minutes counted by the wristband (Jawbone) are predicted from the other data, so no measurement
of the wristband is a feature. Values are in raw units;
:meth:`kem_pymc.data.scaling.Scaling.unit` of the pilot cohort scales them.
"""

import numpy as np
import pandas as pd

from kem_pymc.data.datasets import Split
from kem_pymc.data.datasets.files import Folder
from kem_pymc.errors import InputError

from .days import SOURCE, Callback, filtered, read_days
from .split import Seed

STEPS = ("user.index", "steps.utime.local", "steps")
PHONE = ("user.index", "steps.utime", "steps")
TRAVEL = ("user.index", "travel.start", "travel.end")
SUGGESTIONS = (
    *("user.index", "sugg.select.utime", "sugg.gmtoff", "connect", "avail", "send", "send.active"),
    *("recognized.activity", "response", "dec.location.category", "dec.weather.condition"),
    *("dec.temperature", "dec.windspeed", "dec.precipitation.chance", "dec.snow"),
)
_NUMBERS = ("sugg.gmtoff", *SUGGESTIONS[-4:])

#: The paper has 23 features and names 4: Google Fit steps of the day, day in the study, travel and
#: weekend. The first 14 are numbers, the last 9 binary (any decision point of the day).
HEARTSTEPS = (
    *("study_day", "day_of_week", "google_fit_steps", "google_fit_minutes"),
    *("connected", "available", "suggestions", "walking_suggestions"),
    *("share_home", "share_work", "share_still"),
    *("temperature", "windspeed", "precipitation_chance"),
    *("travel", "weekend", "clear", "rain", "snow", "in_vehicle", "on_foot", "liked", "disliked"),
)
#: Features that are unknown on a day without connection; the user's last known values are used.
_CONTEXT = (
    *("share_home", "share_work", "share_still", "temperature", "windspeed"),
    *("precipitation_chance", "clear", "rain", "snow", "in_vehicle", "on_foot"),
)


def heartsteps(
    data_home: Folder = None,
    seed: Seed = 0,
    *,
    batch: int = 5,
    minimum: int = 10,
    callback: Callback = None,
) -> Split:
    """Load the HeartSteps V1 study: 37 users, half of them pilot users.

    The target is ``root_active_minutes``, the square root of the number of minutes of a local day
    in which the wristband counted steps, from the 23 features of ``HEARTSTEPS``. The original
    user-days are those with a decision point (five a day, at which a suggestion may be sent). Days
    without active minutes are dropped; then days with an unknown feature, and users with fewer
    than `minimum` days. A time step is `batch` days.

    Numeric features: day in the study (from 0); day of the week (0 is Monday); steps, and minutes
    with steps, counted by the phone (0 if it counted none: the file doesn't distinguish this from a
    phone left behind); numbers of decision points at which the phone was connected, the user was
    available, a suggestion was sent, and a suggestion to walk was sent; fractions of the decision
    points with a known place at which the user was at home or at work, and of those with a known
    activity at which the user was still; means of temperature, wind speed and chance of
    precipitation. Binary features: travel, from the first to the last day in ``users.csv``;
    weekend; and, at any decision point, clear sky, rain, snow, in a vehicle, on foot, a suggestion
    liked, and a suggestion disliked. If place, activity or weather is unknown for a whole day, the
    user's last known values are used; days before the first known value remain unknown.

    Files, from the folder ``heartsteps`` of the data home, with these columns among others:

    - ``jbsteps.csv`` (wristband, by minute): user.index, steps.utime.local, steps;
    - ``gfsteps.csv`` (phone, by minute): user.index, steps.utime, steps;
    - ``users.csv``: user.index, travel.start, travel.end;
    - ``suggestions.csv`` (by decision point): user.index, sugg.select.utime, sugg.gmtoff (seconds),
      connect, avail, send, send.active, recognized.activity, response, dec.location.category,
      dec.weather.condition, dec.temperature, dec.windspeed, dec.precipitation.chance, dec.snow.

    Parameters
    ----------
    data_home : path, optional
        Folder of the data files, see :func:`kem_pymc.data.datasets.data_home`.
    seed : int or Generator
        Seed of the random choice of pilot users.
    batch : int
        Number of points (days) per time step.
    minimum : int
        Number of points that a user needs: by default two time steps, one to select a kernel at and
        one to test it on.
    callback : callable, optional
        Called with the counts of user-days after each filter, for example ``print``. The paper's
        counts are ``PAPER_DAYS``.

    Raises
    ------
    DataFileNotFoundError
        If a file isn't there.
    InputError
        If a file isn't the expected one, or fewer than 2 users are left.
    """
    points = read_days("suggestions.csv", data_home, SUGGESTIONS, _NUMBERS)
    points["time"] = _times(points, "sugg.select.utime", "suggestions.csv")
    # A decision point without a time can't be assigned to a day.
    points = points[points["time"].notna() & points["sugg.gmtoff"].notna()]
    offset = pd.to_timedelta(points["sugg.gmtoff"], unit="s")
    points["day"] = (points["time"] + offset).dt.normalize()
    days = _context(points)

    wrist = read_days("jbsteps.csv", data_home, STEPS, ("steps",))
    local = _times(wrist, "steps.utime.local", "jbsteps.csv")
    minutes = _by_day(wrist["user.index"], local, wrist["steps"])["minutes"]
    days["active_minutes"] = minutes.reindex(days.index, fill_value=0)

    phone = read_days("gfsteps.csv", data_home, PHONE, ("steps",))
    phone["time"] = _times(phone, "steps.utime", "gfsteps.csv")
    daily = _by_day(phone["user.index"], _local(phone, points), phone["steps"])
    daily = daily.reindex(days.index, fill_value=0)
    days["google_fit_steps"], days["google_fit_minutes"] = daily["steps"], daily["minutes"]

    days = days.reset_index()
    days["study_day"] = (days["day"] - days.groupby("user")["day"].transform("min")).dt.days
    days["day_of_week"] = days["day"].dt.day_of_week
    days["weekend"] = days["day_of_week"] >= 5
    away = read_days("users.csv", data_home, TRAVEL, ())
    away = away.drop_duplicates("user.index").set_index("user.index")
    first = days["user"].map(_times(away, "travel.start", "users.csv"))
    last = days["user"].map(_times(away, "travel.end", "users.csv"))
    days["travel"] = (days["day"] >= first) & (days["day"] <= last)
    days["root_active_minutes"] = np.sqrt(days["active_minutes"])
    return filtered(
        days,
        HEARTSTEPS,
        "root_active_minutes",
        _CONTEXT,
        batch=batch,
        minimum=minimum,
        seed=seed,
        callback=callback,
    )


def _context(points: pd.DataFrame) -> pd.DataFrame:
    """Summarise decision points by user and local day; values unknown for a whole day are NaN."""
    place, activity = _text(points, "dec.location.category"), _text(points, "recognized.activity")
    weather, response = _text(points, "dec.weather.condition"), _text(points, "response")
    sky = weather.notna()
    flags = {
        "share_home": (place == "home").where(place.notna()),
        "share_work": (place == "work").where(place.notna()),
        "share_still": (activity == "still").where(activity.notna()),
        "clear": weather.str.contains("clear|sunny|fair", na=False).where(sky),
        "rain": weather.str.contains("rain|drizzle|shower|storm", na=False).where(sky),
        "in_vehicle": activity.str.contains("vehicle", na=False).where(activity.notna()),
        "on_foot": activity.str.contains("foot", na=False).where(activity.notna()),
        "snow": (points["dec.snow"] > 0).where(points["dec.snow"].notna()),
        "connected": _true(points["connect"]),
        "available": _true(points["avail"]),
        "suggestions": _true(points["send"]),
        "walking_suggestions": _true(points["send.active"]),
        "liked": response == "good",
        "disliked": response == "bad",
    }
    means = ("share_home", "share_work", "share_still")
    sums = ("connected", "available", "suggestions", "walking_suggestions")
    table = pd.DataFrame({name: flag.astype("float64") for name, flag in flags.items()})
    for name, column in (
        ("temperature", "dec.temperature"),
        ("windspeed", "dec.windspeed"),
        ("precipitation_chance", "dec.precipitation.chance"),
    ):
        table[name] = points[column]
    table["user"], table["day"] = points["user.index"], points["day"]
    how = {name: "sum" if name in sums else "mean" if name in means else "max" for name in flags}
    how |= dict.fromkeys(("temperature", "windspeed", "precipitation_chance"), "mean")
    return table.groupby(["user", "day"]).agg(how)


def _by_day(user: pd.Series, local: pd.Series, steps: pd.Series) -> pd.DataFrame:
    """Return steps, and minutes with steps, by user and local day."""
    active = steps > 0
    table = pd.DataFrame(
        {"user": user[active], "minute": local[active].dt.floor("min"), "steps": steps[active]}
    )
    # A minute may be listed twice, once for each of two decision points.
    table = table.dropna().groupby(["user", "minute"], as_index=False)["steps"].max()
    days = table["minute"].dt.normalize().rename("day")
    return table.groupby(["user", days]).agg(steps=("steps", "sum"), minutes=("steps", "size"))


def _local(phone: pd.DataFrame, points: pd.DataFrame) -> pd.Series:
    """Return the phone's times in local time, using the offset of the nearest decision point."""
    timed = phone[phone["time"].notna()].reset_index().sort_values("time")
    offsets = points[["user.index", "time", "sugg.gmtoff"]].sort_values("time")
    near = pd.merge_asof(timed, offsets, on="time", by="user.index", direction="nearest")
    local = near["time"] + pd.to_timedelta(near["sugg.gmtoff"], unit="s")
    return local.set_axis(near["index"]).reindex(phone.index)


def _times(table: pd.DataFrame, column: str, name: str) -> pd.Series:
    try:
        return pd.to_datetime(table[column], format="ISO8601").astype("datetime64[ns]")
    except (ValueError, TypeError) as error:
        raise InputError(
            f"Column {column} of {name} has values that aren't times like 2015-07-22 16:42:00. "
            f"Give the file from {SOURCE}."
        ) from error


def _text(points: pd.DataFrame, column: str) -> pd.Series:
    """Return a column of text in lower case, with unknown values as missing."""
    text = points[column].astype("str").str.strip().str.lower()
    return text.where(points[column].notna() & ~text.isin(["", "unknown", "nan"]))


def _true(column: pd.Series) -> pd.Series:
    return column.astype("str").str.lower().isin(["true", "1", "1.0"])
