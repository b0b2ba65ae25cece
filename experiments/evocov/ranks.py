"""Friedman's test of methods on several data sets, comparisons of pairs, and their picture.

As in Roman et al. (2019, section 6.3), pairs are compared by the normal approximation of
differences of mean ranks, and p-values are adjusted by Shaffer's static procedure (Shaffer 1986;
García and Herrera 2008).
"""

from functools import cache
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import friedmanchisquare, norm

from kem_pymc.plots import style

#: Level of the tests.
LEVEL = 0.05


class Ranks(NamedTuple):
    """Comparison of methods on several data sets.

    Attributes
    ----------
    means : Series
        Mean rank of each method, the smallest first; the smallest error has rank 1.
    p : float
        p-value of Friedman's test.
    pairs : Series
        Adjusted p-value of each pair of methods, in the order of `means`.
    """

    means: pd.Series
    p: float
    pairs: pd.Series


def compare(errors: pd.DataFrame) -> Ranks | None:
    """Compare methods by the ranks of their errors.

    Parameters
    ----------
    errors : DataFrame
        A row for each data set, a column for each method. Rows with missing values are left out;
        infinite errors have the last rank.

    Returns
    -------
    Ranks or None
        None for fewer than three methods or two data sets, for which there is no test.
    """
    errors = errors.dropna()
    sets, methods = errors.shape
    if methods < 3 or sets < 2:
        return None
    ranks = errors.rank(axis=1)  # SciPy accepts no infinite errors
    means = ranks.mean().sort_values(kind="stable")
    p = float(friedmanchisquare(*ranks.to_numpy().T).pvalue)
    pairs = list(combinations(means.index, 2))
    gaps = np.array([means[b] - means[a] for a, b in pairs])
    raw = 2 * norm.sf(gaps / np.sqrt(methods * (methods + 1) / (6 * sets)))
    return Ranks(means, p, pd.Series(shaffer(raw, methods), pd.MultiIndex.from_tuples(pairs)))


def shaffer(p: np.ndarray, methods: int) -> np.ndarray:
    """Return p-values of all pairs of methods, adjusted by Shaffer's static procedure.

    The i-th smallest p-value is multiplied by the largest number of hypotheses that can be true
    when i - 1 are false.
    """
    order = np.argsort(p, kind="stable")
    possible = true_hypotheses(methods)
    left = range(len(p), 0, -1)
    factors = [max(count for count in possible if count <= most) for most in left]
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p[order]), 1.0)
    return adjusted


@cache
def true_hypotheses(methods: int) -> frozenset[int]:
    """Return the numbers of pairs that can be equal, for all partitions into groups of equals."""
    if methods < 2:
        return frozenset({0})
    return frozenset(
        comb(size, 2) + rest
        for size in range(1, methods + 1)
        for rest in true_hypotheses(methods - size)
    )


def groups(ranks: Ranks) -> list[tuple[int, int]]:
    """Return the largest groups without significant differences, as first and last places."""
    names = list(ranks.means.index)
    groups: list[tuple[int, int]] = []
    for first in range(len(names)):
        last = first
        while last + 1 < len(names) and ranks.pairs[names[first], names[last + 1]] >= LEVEL:
            last += 1
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups


def table(ranks: Ranks) -> pd.DataFrame:
    """Return mean ranks, and adjusted p-values against each other method."""
    names = list(ranks.means.index)
    rows = pd.DataFrame(index=pd.Index(names, name="method"))
    rows["mean rank"] = [f"{mean:.2f}" for mean in ranks.means]
    for other in names:
        rows[f"p, {other}"] = [
            "" if name == other else f"{ranks.pairs[_in_order(names, name, other)]:.3g}"
            for name in names
        ]
    return rows


def _in_order(names: list[str], one: str, other: str) -> tuple[str, str]:
    first, last = sorted((one, other), key=names.index)
    return first, last


def draw(ranks: Ranks, ax: Axes) -> None:
    """Draw mean ranks on a scale, with a line over methods that don't differ significantly."""
    count = len(ranks.means)
    half = -(-count // 2)
    margin = 0.6 * (count - 1)  # for names
    ax.set(xlim=(1 - margin, count + margin), ylim=(-half - 0.7, 0.7))
    ax.axis("off")
    ax.plot([1, count], [0, 0], color=style.INK, linewidth=1)
    for rank in range(1, count + 1):
        ax.plot([rank, rank], [0, 0.15], color=style.INK, linewidth=1)
        ax.text(rank, 0.25, str(rank), ha="center", fontsize="small", color=style.MUTED)
    for place, (name, mean) in enumerate(ranks.means.items()):
        left = place < half
        height = -(place if left else count - 1 - place) - 0.9
        side = 1 - margin / 20 if left else count + margin / 20
        ax.plot([mean, mean, side], [0, height, height], color=style.MUTED, linewidth=0.8)
        label = f"{name} ({mean:.2f}) " if left else f" {name} ({mean:.2f})"
        align = "right" if left else "left"
        ax.text(side, height, label, ha=align, va="center", fontsize="small")
    for line, (first, last) in enumerate(groups(ranks)):
        ends = ranks.means.iloc[[first, last]] + [-0.04, 0.04]
        height = -0.2 - 0.2 * line
        ax.plot(ends, [height, height], color=style.INK, linewidth=3, solid_capstyle="butt")
