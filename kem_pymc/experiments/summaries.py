"""Means over users, with intervals; gains of one method over others, paired.

What counts is a distinct user: column ``person`` of a table of selections, from
:attr:`kem_pymc.experiments.figures.output.Evidence.selections`. Trials of a user are averaged
first, so that one who is a test user in five trials isn't counted five times.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import t as student

LEVEL = 0.95

#: Resamples of users.
RESAMPLES = 2000


def interval(values: Sequence[float] | np.ndarray | pd.Series, level: float = LEVEL) -> float:
    """Return half the length of Student's interval for a mean; NaN for fewer than two values."""
    values = np.asarray(values, dtype=np.float64)
    if len(values) < 2:
        return float("nan")
    error = values.std(ddof=1) / np.sqrt(len(values))
    return float(half_interval(error, len(values), level))


def half_interval(error: npt.ArrayLike, users: npt.ArrayLike, level: float = LEVEL) -> np.ndarray:
    """Return half lengths of Student's intervals, given standard errors and numbers of users."""
    freedom = np.maximum(np.asarray(users) - 1, 1)
    return np.asarray(student.ppf(0.5 + level / 2, freedom) * np.asarray(error))


def errors(values: np.ndarray, rng: np.random.Generator, resamples: int = RESAMPLES) -> np.ndarray:
    """Return standard errors of means over users, by bootstrap.

    Users are drawn with replacement, the same ones for every column. A bootstrap of n users has a
    variance that is too small by (n - 1) / n, which is made good.

    Parameters
    ----------
    values : ndarray, shape (U, K)
        A user's own means; NaN where a user has none.
    rng : numpy.random.Generator
    resamples : int

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
    """Return means over users and half intervals by study, method and time step.

    Returns
    -------
    DataFrame
        Columns study, method, time_step, mean, half, users.
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
    """Return columns mean, error and users, given a row for each user."""
    values = wide.to_numpy(np.float64)
    return pd.DataFrame(
        {"mean": wide.mean(), "error": errors(values, rng), "users": wide.count()}, wide.columns
    )


def paired(table: pd.DataFrame, value: str, method: str) -> dict[tuple[str, str], pd.DataFrame]:
    """Return a method's differences to every other one, wherever both have a value.

    Returns
    -------
    dict
        By study and other method: a row for every trial and person, a column for every time step.
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
    """Return by how much a method is ahead of each other one at every time step.

    Returns
    -------
    DataFrame
        Columns study, other, time_step, gain, error, half, users. Where gain - half is above zero,
        the method is better by more than its uncertainty.
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
    """Return by how much a method is ahead of each other one, all time steps taken together.

    A user's mean over time steps counts once.

    Returns
    -------
    DataFrame
        Columns study, other, gain, half, users; and deals, half of Student's interval over means
        of trials, which share pilot users within and, in real data, test users between them.
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
    """Return one row for every trial, method, user, time step and quantity."""
    keys = ["study", "trial", "method", "user", "time_step"]
    long = table.melt(id_vars=keys, value_vars=list(values), var_name="quantity")
    return long.dropna(subset="value")


def plus_minus(mean: float, half: float, digits: int = 2) -> str:
    """Return a mean with its interval, as text."""
    if not np.isfinite(mean):
        return ""
    rounded = round(mean, digits) + 0.0  # -0.004 is 0.00, not -0.00
    return f"{rounded:.{digits}f}" + (f" ± {half:.{digits}f}" if np.isfinite(half) else "")
