"""Whether a method predicts no worse than another: said in one word, or not said."""

import numpy as np
import pandas as pd

from kem_pymc.experiments.summaries import LEVEL, gains, half_interval, mean_gains

#: Nats per point by which a method may be behind, on average and at a time step.
MARGIN, STEP_MARGIN = 0.02, 0.05

#: Fewer trials or distinct test users give no verdict.
LEAST_TRIALS, LEAST_USERS = 5, 6


def verdicts(
    table: pd.DataFrame, method: str, rng: np.random.Generator, value: str = "log_likelihood"
) -> pd.DataFrame:
    """Return whether a method is behind each other one, by study.

    Parameters
    ----------
    table : DataFrame
        Selections with a column ``person``.
    method : str
    rng : numpy.random.Generator
        Of the bootstrap.
    value : str
        Larger is better; in nats per point.

    Returns
    -------
    DataFrame
        Those of :func:`~kem_pymc.experiments.summaries.mean_gains`; ``worst_step`` (from 0), where
        the gain is smallest, with ``worst_gain``; and the ``verdict``, see :func:`verdict`.
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
        Mean over users, and half its interval.
    steps : DataFrame
        Columns gain, error and users, for every time step.
    users, trials : int
        How many there are; distinct ones.

    Returns
    -------
    str
        "behind" if the whole interval is below -.02, or at a time step the gain is below -.05 and
        its interval, at Bonferroni's level for the study's time steps, below zero. Else "undecided"
        if the interval holds both -.02 and 0, "ahead" if all of it is above zero, and "not behind".
        From too few trials or users no verdict: "2 trials say little".
    """
    if trials < LEAST_TRIALS:
        return f"{trials} trial{'s say' if trials != 1 else ' says'} little"
    if users < LEAST_USERS:
        return f"{users} user{'s say' if users != 1 else ' says'} little"
    low, high = gain - half, gain + half
    if high < -MARGIN or behind_at(steps).any():
        return "behind"
    if low <= -MARGIN and high >= 0:
        return "undecided"
    return "ahead" if low > 0 else "not behind"


def behind_at(steps: pd.DataFrame) -> np.ndarray:
    """Return at which time steps a method is behind for certain, given one row for each."""
    level = 1 - (1 - LEVEL) / len(steps)
    high = steps["gain"] + half_interval(steps["error"], steps["users"], level)
    return np.asarray((steps["gain"] < -STEP_MARGIN) & (high < 0))
