"""Means over users with intervals, and paired gains of one method over others.

The unit of observation is a distinct user: the column ``person`` of a table of selections, from
:attr:`kem_pymc.comparison.output.Evidence.selections`. Trials of a user are averaged
first, so that one who is a test user in five trials isn't counted five times.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import t as student

LEVEL = 0.95

#: Number of bootstrap samples of users.
RESAMPLES = 2000


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


def errors(values: np.ndarray, rng: np.random.Generator, resamples: int = RESAMPLES) -> np.ndarray:
    """Return standard errors of means over users, by bootstrap.

    Users are drawn with replacement, the same ones for every column. The variance of a bootstrap of
    n users is too small by the factor (n - 1) / n, which is corrected.

    Parameters
    ----------
    values : ndarray, shape (U, K)
        Means of each user; NaN if a user has none.
    rng : numpy.random.Generator
    resamples : int
        Number of bootstrap samples.

    Returns
    -------
    ndarray, shape (K,)
        NaN for fewer than two users.
    """
    there = np.isfinite(values)
    users = there.sum(axis=0)
    out = np.full(values.shape[1], np.nan)
    if users.size == 0 or users.max() < 2:
        return out
    number = len(values)
    weights = rng.multinomial(number, np.full(number, 1 / number), size=resamples).astype(float)
    with np.errstate(invalid="ignore"):  # a resample may leave a column empty
        means = (weights @ np.where(there, values, 0.0)) / (weights @ there)
    several = users > 1
    spread = np.nanstd(means[:, several], axis=0, ddof=1)
    out[several] = spread * np.sqrt(users[several] / (users[several] - 1))
    return out


def by_step(table: pd.DataFrame, value: str, rng: np.random.Generator) -> pd.DataFrame:
    """Return means over users, with intervals, by study, method and time step.

    Parameters
    ----------
    table : DataFrame
        Selections with a column ``person``.
    value : str
        Column to average.
    rng : numpy.random.Generator
        Random number generator of the bootstrap.

    Returns
    -------
    DataFrame
        Columns study, method, time_step, mean, half (half the length of the interval), users
        (number of users).
    """
    parts = []
    for study, own in table.dropna(subset=value).groupby("study", sort=False):
        keys = ["method", "time_step"]
        wide = own.groupby(["person", *keys], sort=False)[value].mean().unstack(keys, sort=False)
        part = _over_users(wide, rng).reset_index().assign(study=study)
        parts.append(part.rename(columns={"error": "half"}))
        parts[-1]["half"] = half_interval(parts[-1]["half"], parts[-1]["users"])
    columns = ["study", "method", "time_step", "mean", "half", "users"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _over_users(wide: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return means over users, their standard errors and numbers of users, from a row per user."""
    values = wide.to_numpy(np.float64)
    return pd.DataFrame(
        {"mean": wide.mean(), "error": errors(values, rng), "users": wide.count()}, wide.columns
    )


def paired(table: pd.DataFrame, value: str, method: str) -> dict[tuple[str, str], pd.DataFrame]:
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
    dict
        Tables of differences by study and other method, with a row for every trial and person and
        a column for every time step.
    """
    keys = ["trial", "person", "time_step"]
    out = {}
    for study, own in table.dropna(subset=value).groupby("study", sort=False):
        wide = own.groupby([*keys, "method"], sort=False)[value].mean().unstack("method")
        if method not in wide:
            continue
        for other in [name for name in own["method"].unique() if name != method]:
            difference = (wide[method] - wide[other]).dropna().unstack("time_step")
            out[str(study), str(other)] = difference.sort_index(axis="columns")
    return out


def gains(table: pd.DataFrame, value: str, method: str, rng: np.random.Generator) -> pd.DataFrame:
    """Return the mean gain of a method over each other method at every time step.

    Parameters
    ----------
    table, value, method
        As for :func:`paired`.
    rng : numpy.random.Generator
        Random number generator of the bootstrap.

    Returns
    -------
    DataFrame
        Columns study, other (method), time_step, gain, error (standard error), half (half the
        length of the interval), users (number of users). If gain - half is above zero, the gain is
        larger than its uncertainty.
    """
    parts = []
    for (study, other), difference in paired(table, value, method).items():
        part = _over_users(difference.groupby("person").mean(), rng).reset_index()
        parts.append(part.rename(columns={"mean": "gain"}).assign(study=study, other=other))
        parts[-1]["half"] = half_interval(parts[-1]["error"], parts[-1]["users"])
    columns = ["study", "other", "time_step", "gain", "error", "half", "users"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def mean_gains(
    table: pd.DataFrame, value: str, method: str, rng: np.random.Generator
) -> pd.DataFrame:
    """Return the mean gain of a method over each other method, over all time steps.

    The differences of a user are averaged over trials, then over time steps, so every user has the
    same weight.

    Parameters
    ----------
    table, value, method, rng
        As for :func:`gains`.

    Returns
    -------
    DataFrame
        Columns study, other (method), gain, half (half the length of the interval), users (number
        of users), trials (number of trials), and deals: half the length of Student's t interval
        over the means of trials. Users of a trial have the same pilot users, and with real data
        trials have test users in common.
    """
    rows = []
    for (study, other), difference in paired(table, value, method).items():
        own = difference.groupby("person").mean().mean(axis="columns").to_frame()
        (found,) = _over_users(own, rng).itertuples()
        trials = difference.mean(axis="columns").groupby("trial").mean()
        rows.append(
            {
                "study": study,
                "other": other,
                "gain": found.mean,
                "half": float(half_interval(found.error, found.users)),
                "users": found.users,
                "deals": interval(trials),
                "trials": len(trials),
            }
        )
    return pd.DataFrame(rows)


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
