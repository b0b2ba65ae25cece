"""Comparison of methods by their ranks on several data sets: Friedman's test, then pairs."""

from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import friedmanchisquare, norm, rankdata

from kem_pymc.plots import style

#: Significance level.
LEVEL = 0.05


class Ranks(NamedTuple):
    """Mean ranks of k methods on N data sets.

    Attributes
    ----------
    mean : Series
        Mean rank by method, smallest first; 1 is best.
    p : float
        P value of Friedman's test that all methods are equally good.
    pairs : Series
        P values of pairs of methods, by pair, adjusted by Holm's method.
    """

    mean: pd.Series
    p: float
    pairs: pd.Series


def ranks(errors: pd.DataFrame) -> Ranks:
    """Compare methods by Friedman's test, then in pairs.

    The statistic of a pair is the difference of mean ranks over ``sqrt(k (k + 1) / (6 N))``, which
    is approximately standard normal if the methods are equally good (Demsar 2006, section 3.2.2).

    Parameters
    ----------
    errors : DataFrame, shape (N, k)
        Errors, smaller for better methods: one row per data set, one column per method. There are
        at least three methods.
    """
    n, k = errors.shape
    ranked = rankdata(errors.to_numpy(), axis=1)
    mean = pd.Series(ranked.mean(axis=0), errors.columns).sort_values(kind="stable")
    p = float(friedmanchisquare(*errors.to_numpy().T).pvalue)
    pairs = list(combinations(mean.index, 2))
    z = np.array([mean[b] - mean[a] for a, b in pairs]) / np.sqrt(k * (k + 1) / (6 * n))
    adjusted = holm(2 * norm.sf(np.abs(z)))
    return Ranks(mean, p, pd.Series(adjusted, pd.MultiIndex.from_tuples(pairs)))


def holm(p: np.ndarray) -> np.ndarray:
    """Return p values (m,) adjusted for m tests by Holm's step-down method."""
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def draw_ranks(found: Ranks, ax: Axes) -> Axes:
    """Draw mean ranks on an axis, with lines over methods that don't differ significantly."""
    ax.scatter(found.mean, np.zeros(len(found.mean)), color=style.INK, zorder=3)
    count = len(found.mean)
    for place, (name, rank) in enumerate(found.mean.items()):
        better = place < count / 2  # labels of the better half are on the left
        edge, side = (0.5, "left") if better else (count + 0.5, "right")
        height = -0.4 * (1 + (place if better else count - 1 - place))
        ax.plot([rank, rank, edge], [0, height, height], color=style.MUTED, linewidth=0.8)
        label = f"{name} ({rank:.2f})"
        ax.annotate(label, (edge, height), (0, 2), textcoords="offset points", ha=side)
    for level, (low, high) in enumerate(groups(found)):
        height = 0.25 + 0.2 * level
        ax.plot([low, high], [height, height], color=style.PALETTE[0], linewidth=3)
    lowest = -0.4 * (1 + count // 2)
    ax.set(xlabel="mean rank", xlim=(0.5, count + 0.5), ylim=(lowest, 1.0), yticks=[])
    ax.set_title(f"Friedman's test: p = {found.p:.2g}", fontsize="medium")
    ax.spines["left"].set_visible(False)
    return style.tidy(ax)


def groups(found: Ranks) -> list[tuple[float, float]]:
    """Return the mean ranks of the first and last method of each group without differences.

    Groups that are parts of others are left out.
    """
    names = list(found.mean.index)
    ends: list[tuple[int, int]] = []
    for i in range(len(names)):
        last = i
        while last + 1 < len(names) and found.pairs[names[i], names[last + 1]] >= LEVEL:
            last += 1
        if last > i and (not ends or last > ends[-1][1]):
            ends.append((i, last))
    return [(float(found.mean.iloc[i]), float(found.mean.iloc[j])) for i, j in ends]
