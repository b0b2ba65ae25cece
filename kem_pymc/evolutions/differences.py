"""How the evolutions that were learned anew differ from those before."""

import numpy as np
import pandas as pd

from kem_pymc.evolutions.evolutions import Evolutions

#: An evolution is there if it has this probability, and occurs in this share of draws.
LEAST = 0.05

#: Number of Monte Carlo standard errors beyond which probabilities differ.
BEYOND = 2.0

#: Columns of :func:`differences`.
COLUMNS = ["parent", "child", "before", "after", "error", "change"]

#: Least number of draws, in two batches of two, of which there is a standard error.
FEWEST = 4


def differences(before: Evolutions, after: Evolutions) -> pd.DataFrame:
    """Compare the probabilities of evolutions, from which those that are improbable are left out.

    Parameters
    ----------
    before, after : Evolutions

    Returns
    -------
    DataFrame
        One row per ``parent`` and ``child`` with a probability of at least 0.05 in one of the two,
        where it occurs in at least 5 % of draws; the largest difference comes first. ``before`` and
        ``after`` are the probabilities, 0 if an evolution doesn't occur, ``error`` is the Monte
        Carlo standard error of their difference, and ``change`` is "gained" or "lost" if the
        evolution is there in one of the two only, "changed", or "" if the difference is within two
        standard errors.

    Notes
    -----
    Draws depend on each other, so the standard error of a mean of n of them is that of the means of
    about sqrt(n) batches of draws that follow each other (Flegal and Jones 2010). It is infinite
    for fewer than four draws. Chains that stay in different modes differ by more than it says.
    """
    frames = [one.to_frame().set_index(["parent", "child"]) for one in (before, after)]
    there = [{*f.index[(f["probability"] >= LEAST) & (f["occurrence"] >= LEAST)]} for f in frames]
    rows = []
    for parent, child in sorted(there[0] | there[1]):
        (old, old_error), (new, new_error) = (
            _mean(one.shares(parent, child)) for one in (before, after)
        )
        error = float(np.hypot(old_error, new_error))
        change = ""
        if abs(new - old) > BEYOND * error:
            was, is_now = ((parent, child) in one for one in there)
            change = "changed" if was and is_now else "gained" if is_now else "lost"
        rows.append((parent, child, old, new, error, change))
    table = pd.DataFrame(rows, columns=COLUMNS)
    largest = (table["after"] - table["before"]).abs().sort_values(ascending=False, kind="stable")
    return table.loc[largest.index].reset_index(drop=True)


def _mean(shares: np.ndarray) -> tuple[float, float]:
    """Return the mean of draws and its Monte Carlo standard error; zeros if there are no draws."""
    if not len(shares):
        return 0.0, 0.0
    if len(shares) < FEWEST:
        return float(shares.mean()), np.inf
    batches = [part.mean() for part in np.array_split(shares, int(np.sqrt(len(shares))))]
    return float(shares.mean()), float(np.std(batches, ddof=1) / np.sqrt(len(batches)))
