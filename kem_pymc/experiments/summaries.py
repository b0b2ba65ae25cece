"""Means and intervals over trials."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import t as student

LEVEL = 0.95


def interval(values: Sequence[float] | np.ndarray | pd.Series, level: float = LEVEL) -> float:
    """Return half the length of Student's interval for a mean; NaN for fewer than two values."""
    values = np.asarray(values, dtype=np.float64)
    if len(values) < 2:
        return float("nan")
    error = values.std(ddof=1) / np.sqrt(len(values))
    return float(student.ppf(0.5 + level / 2, len(values) - 1) * error)


def units_of(table: pd.DataFrame) -> list[str]:
    """Return what varies independently: trials, or users where there is one trial."""
    return ["trial"] if table["trial"].nunique() > 1 else ["user"]


def by_step(table: pd.DataFrame, value: str) -> pd.DataFrame:
    """Return means and half intervals by study, method and time step, over independent units.

    Returns
    -------
    DataFrame
        Columns study, method, time_step, mean, half, units.
    """
    keys = ["study", "method", "time_step"]
    units = table.dropna(subset=value).groupby([*keys, *units_of(table)], sort=False)[value].mean()
    grouped = units.groupby(keys, sort=False)
    out = grouped.agg(["mean", "count"]).rename(columns={"count": "units"})
    out["half"] = grouped.agg(interval)
    return out.reset_index()


def gains(table: pd.DataFrame, value: str, method: str) -> pd.DataFrame:
    """Return by how much a method is ahead of each other one, paired by unit and time step.

    Returns
    -------
    DataFrame
        Columns study, other, time_step, gain, half, units. Where gain - half is above zero, the
        method is better by more than its uncertainty.
    """
    keys = ["study", "time_step", *units_of(table)]
    wide = table.dropna(subset=value).pivot_table(
        index=keys, columns="method", values=value, sort=False
    )
    rows = []
    for other in wide.columns.drop(method):
        differences = (wide[method] - wide[other]).dropna()
        for (study, step), own in differences.groupby(["study", "time_step"], sort=False):
            rows.append(
                {
                    "study": study,
                    "other": other,
                    "time_step": step,
                    "gain": own.mean(),
                    "half": interval(own),
                    "units": len(own),
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
    return f"{mean:.{digits}f}" + (f" ± {half:.{digits}f}" if np.isfinite(half) else "")
