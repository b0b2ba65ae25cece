"""Means over users with intervals, paired gains of one method over others, and verdicts.

The unit of observation is a distinct user: the column ``person`` of a table of selections, from
:attr:`kem_pymc.comparison.output.Evidence.selections`. Trials of a user are averaged
first, so that one who is a test user in five trials isn't counted five times.
"""

from ast import literal_eval
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import t as student

LEVEL = 0.95

#: Nats per point by which a method may be behind, on average and at a time step.
MARGIN, STEP_MARGIN = 0.02, 0.05

#: Smallest numbers of trials and of distinct test users for a verdict.
LEAST_TRIALS, LEAST_USERS = 5, 6


#: Parts of about as many rows, from small to large predicted probabilities of a class.
PARTS = 5


def interval(values: Sequence[float] | np.ndarray | pd.Series, level: float = LEVEL) -> float:
    """Return half the length of Student's t interval for a mean; NaN for fewer than two values."""
    values = np.asarray(values, dtype=np.float64)
    if len(values) < 2:
        return float("nan")
    error = values.std(ddof=1) / np.sqrt(len(values))
    return float(half_interval(error, len(values), level))


def half_interval(error: npt.ArrayLike, users: npt.ArrayLike, level: float = LEVEL) -> np.ndarray:
    """Return half lengths of Student's t intervals, from standard errors and numbers of users."""
    freedom = np.maximum(np.asarray(users) - 1, 1)
    return np.asarray(student.ppf(0.5 + level / 2, freedom) * np.asarray(error))


def by_step(table: pd.DataFrame, value: str) -> pd.DataFrame:
    """Return means over users, with intervals, by study, method and time step.

    Parameters
    ----------
    table : DataFrame
        Selections with a column ``person``.
    value : str
        Column to average.

    Returns
    -------
    DataFrame
        Columns study, method, time_step, mean, error (standard error), half (half the length of the
        interval), users (number of users).
    """
    keys = ["study", "method", "time_step"]
    of_users = table.dropna(subset=value).groupby([*keys, "person"], sort=False)[value].mean()
    return _over_users(of_users, keys)


def _over_users(values: pd.Series, keys: list[str]) -> pd.DataFrame:
    """Return means over users, standard errors, half intervals and numbers of users, by keys."""
    rows = values.groupby(keys, sort=False).agg(mean="mean", error="sem", users="count")
    return rows.assign(half=half_interval(rows["error"], rows["users"])).reset_index()


def paired(table: pd.DataFrame, value: str, method: str) -> pd.Series:
    """Return the differences of a method to every other method, wherever both have a value.

    Parameters
    ----------
    table : DataFrame
        Selections with a column ``person``.
    value : str
        Column of which differences are taken.
    method : str

    Returns
    -------
    Series
        Differences by study, other (method), trial, person and time step.
    """
    keys = ["study", "method", "trial", "person", "time_step"]
    values = table.dropna(subset=value).groupby(keys, sort=False)[value].mean()
    ours = values.index.get_level_values("method") == method
    others, mine = values[~ours], values[ours].droplevel("method")
    differences = (mine.reindex(others.droplevel("method").index).to_numpy() - others).dropna()
    return differences.rename_axis(["study", "other", *keys[2:]])


def gains(table: pd.DataFrame, value: str, method: str) -> pd.DataFrame:
    """Return the mean gain of a method over each other method at every time step.

    Parameters
    ----------
    table, value, method
        As for :func:`paired`.

    Returns
    -------
    DataFrame
        Columns study, other (method), time_step, mean, error (standard error), half (half the
        length of the interval), users (number of users). If mean - half is above zero, the gain is
        larger than its uncertainty.
    """
    keys = ["study", "other", "time_step"]
    differences = paired(table, value, method)
    return _over_users(differences.groupby([*keys, "person"], sort=False).mean(), keys)


def verdicts(table: pd.DataFrame, method: str, value: str = "log_likelihood") -> pd.DataFrame:
    """Return the mean gain of a method over each other method, by study, with a verdict.

    The differences of a user are averaged over trials, then over time steps, so every user has the
    same weight.

    Parameters
    ----------
    table : DataFrame
        Selections with a column ``person``.
    method : str
    value : str
        Column to compare, in nats per point; larger values are better.

    Returns
    -------
    DataFrame
        Columns study, other (method), mean (gain), half (half the length of the interval), users
        (number of users), trials (number of trials), and deals: half the length of Student's t
        interval over the means of trials. Users of a trial have the same pilot users, and with real
        data trials have test users in common. ``worst_step`` (from 0) is the time step with the
        smallest gain, ``worst_gain``; for ``verdict`` see :func:`verdict`.
    """
    keys = ["study", "other"]
    differences = paired(table, value, method)
    of_steps = differences.groupby([*keys, "person", "time_step"], sort=False).mean()
    means = _over_users(of_steps.groupby([*keys, "person"], sort=False).mean(), keys)
    steps = gains(table, value, method)
    rows = []
    for row in means.to_dict("records"):
        trials = differences.loc[row["study"], row["other"]].unstack("time_step")
        trials = trials.mean(axis="columns").groupby("trial").mean()
        profile = steps[(steps["study"] == row["study"]) & (steps["other"] == row["other"])]
        worst = profile.loc[profile["mean"].idxmin()]
        row |= {"deals": interval(trials), "trials": len(trials)}
        row |= {"worst_step": int(worst["time_step"]), "worst_gain": float(worst["mean"])}
        word = verdict(row["mean"], row["half"], profile, row["users"], row["trials"])
        rows.append(row | {"verdict": word})
    return pd.DataFrame(rows)


def verdict(gain: float, half: float, steps: pd.DataFrame, users: int, trials: int) -> str:
    """Return a verdict on one method against another on one study.

    Parameters
    ----------
    gain, half : float
        Mean gain over users, and half the length of its interval.
    steps : DataFrame
        Columns mean, error and users, with one row for every time step.
    users, trials : int
        Numbers of distinct users and of trials.

    Returns
    -------
    str
        "behind" if the whole interval is below -.02, or if at a time step the gain is below -.05
        and its interval, at the Bonferroni-corrected level for the study's time steps, below zero.
        Otherwise "undecided" if the interval contains both -.02 and 0, "ahead" if the whole
        interval is above zero, else "not behind". With fewer than 5 trials or 6 users there is no
        verdict, but a text like "2 trials are too few".
    """
    if trials < LEAST_TRIALS:
        return f"{trials} trial{'s are' if trials != 1 else ' is'} too few"
    if users < LEAST_USERS:
        return f"{users} user{'s are' if users != 1 else ' is'} too few"
    low, high = gain - half, gain + half
    level = 1 - (1 - LEVEL) / len(steps)
    ends = steps["mean"] + half_interval(steps["error"], steps["users"], level)
    if high < -MARGIN or ((steps["mean"] < -STEP_MARGIN) & (ends < 0)).any():
        return "behind"
    if low <= -MARGIN and high >= 0:
        return "undecided"
    return "ahead" if low > 0 else "not behind"


def reliability(table: pd.DataFrame) -> pd.DataFrame:
    """Return how often classes occurred among rows for which similar probabilities were predicted.

    Parameters
    ----------
    table : DataFrame
        Selections with a column ``person``, whose targets are classes.

    Returns
    -------
    DataFrame
        Columns study, method, level, part (a fifth of the rows, by predicted probability),
        predicted (mean probability), share (of rows in which the class occurred), low and high (the
        share's interval), rows, and users (number of users).
    """
    keys = ["study", "method", "level"]
    points = pd.DataFrame(
        [
            (row.study, row.method, level, row.person, probability, float(seen == level))
            for row in table.dropna(subset="classes").itertuples()
            for level, probabilities in literal_eval(row.classes).items()
            for probability, seen in zip(probabilities, literal_eval(row.observed), strict=True)
        ],
        columns=[*keys, "person", "predicted", "seen"],
    )
    inner = np.arange(1, PARTS) / PARTS
    points["part"] = points.groupby(keys, sort=False)["predicted"].transform(
        lambda p: np.searchsorted(np.quantile(p, inner), p)
    )
    groups = points.groupby([*keys, "part"], sort=False)
    rows = groups.agg(
        **{"predicted": ("predicted", "mean"), "share": ("seen", "mean")},
        **{"rows": ("seen", "size"), "users": ("person", "nunique")},
    )
    ends = [share_interval(own["seen"], own["person"]) for _, own in groups]
    rows[["low", "high"]] = ends
    return rows.reset_index().sort_values(["study", "method", "level", "part"], kind="stable")


def share_interval(seen: pd.Series, persons: pd.Series) -> tuple[float, float]:
    """Return Wilson's interval for a share, of as many rows as independent ones would tell as much.

    Parameters
    ----------
    seen : Series
        One where a class occurred in a row, else zero.
    persons : Series
        Users of the rows, which are alike: the variance is that between totals of users. If there
        is none, users count as rows.

    Returns
    -------
    low, high : float
        Student's t in place of the normal quantile makes up for few users; NaN for a single one.
    """
    share, n = seen.mean(), len(seen)
    totals = (seen - share).groupby(persons).sum()
    users = len(totals)
    variance = totals.var() * users / n**2
    effective = min(share * (1 - share) / variance, n) if variance > 0 else users
    z = student.ppf(0.5 + LEVEL / 2, users - 1)
    centre, spread = share + z**2 / effective / 2, share * (1 - share) / effective
    half = z * np.sqrt(spread + (z / effective) ** 2 / 4)
    low, high = (centre + np.array([-half, half])) / (1 + z**2 / effective)
    return float(low), float(high)


def tidy(table: pd.DataFrame, *values: str) -> pd.DataFrame:
    """Return a table in long form: a row for every trial, method, user, time step and quantity.

    Rows without a value are left out.
    """
    keys = ["study", "trial", "method", "user", "time_step"]
    long = table.melt(id_vars=keys, value_vars=list(values), var_name="quantity")
    return long.dropna(subset="value")


def plus_minus(mean: float, half: float, digits: int = 2) -> str:
    """Return a mean and half the length of its interval as text, like "0.12 ± 0.03".

    Empty if the mean isn't finite; without the interval if that isn't finite.
    """
    if not np.isfinite(mean):
        return ""
    rounded = round(mean, digits) + 0.0  # -0.004 is 0.00, not -0.00
    return f"{rounded:.{digits}f}" + (f" ± {half:.{digits}f}" if np.isfinite(half) else "")
