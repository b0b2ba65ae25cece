"""Verdicts on whether a method predicts no worse than another, unless the data are too few."""

import numpy as np
import pandas as pd

from kem_pymc.comparison.summaries import LEVEL, gains, half_interval, mean_gains

#: Nats per point by which a method may be behind, on average and at a time step.
MARGIN, STEP_MARGIN = 0.02, 0.05

#: Smallest numbers of trials and of distinct test users for a verdict.
LEAST_TRIALS, LEAST_USERS = 5, 6


def verdicts(
    table: pd.DataFrame, method: str, rng: np.random.Generator, value: str = "log_likelihood"
) -> pd.DataFrame:
    """Return a verdict on a method against each other method, by study.

    Parameters
    ----------
    table : DataFrame
        Selections with a column ``person``.
    method : str
    rng : numpy.random.Generator
        Random number generator of the bootstrap.
    value : str
        Column to compare, in nats per point; larger values are better.

    Returns
    -------
    DataFrame
        Columns of :func:`~kem_pymc.comparison.summaries.mean_gains`; ``worst_step`` (from 0), the
        time step with the smallest gain, and ``worst_gain``; and ``verdict``, see :func:`verdict`.
    """
    means, steps = mean_gains(table, value, method, rng), gains(table, value, method, rng)
    rows = []
    for mean in means.to_dict("records"):
        own = steps[(steps["study"] == mean["study"]) & (steps["other"] == mean["other"])]
        worst = own.loc[own["gain"].idxmin()]
        word = verdict(mean["gain"], mean["half"], own, mean["users"], mean["trials"])
        rows.append(
            {
                **mean,
                "worst_step": int(worst["time_step"]),
                "worst_gain": float(worst["gain"]),
                "verdict": word,
            }
        )
    return pd.DataFrame(rows)


def verdict(gain: float, half: float, steps: pd.DataFrame, users: int, trials: int) -> str:
    """Return a verdict on one method against another on one study.

    Parameters
    ----------
    gain, half : float
        Mean gain over users, and half the length of its interval.
    steps : DataFrame
        Columns gain, error and users, with one row for every time step.
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
    if high < -MARGIN or behind_at(steps).any():
        return "behind"
    if low <= -MARGIN and high >= 0:
        return "undecided"
    return "ahead" if low > 0 else "not behind"


def behind_at(steps: pd.DataFrame) -> np.ndarray:
    """Return a mask of the time steps at which a method is significantly behind.

    These have a gain below -.05, and an interval at the Bonferroni-corrected level that is entirely
    below zero.

    Parameters
    ----------
    steps : DataFrame
        Columns gain, error and users, with one row for every time step.
    """
    level = 1 - (1 - LEVEL) / len(steps)
    high = steps["gain"] + half_interval(steps["error"], steps["users"], level)
    return np.asarray((steps["gain"] < -STEP_MARGIN) & (high < 0))
