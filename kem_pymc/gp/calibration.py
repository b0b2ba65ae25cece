"""Calibration of predictive intervals: how far they have to reach, learned from pilot users.

A target's score is how far the narrowest central interval that contains it reaches, in sds of a
normal distribution: ``max(probit P(Y < y), -probit P(Y <= y), 0)``. That is ``abs(probit F(y))``
if targets are continuous. Of discrete ones an interval contains its ends, so that it covers at
least what it should, and nothing is random. The scores of pilot users, each predicted as if new,
say how far intervals have to reach (split-conformal prediction: Vovk et al. 2005; Lei et al. 2018).

Users are exchangeable, but the rows of a user aren't: all users have the same weight, and a new
user stands for a score that may be infinite (Dunn, Wasserman and Ramdas 2022; Lee, Barber and
Willett 2023). Numbers of points seen are categories with quantiles of their own (Vovk et al. 2005,
section 4.5).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy.special import ndtr, ndtri

#: Probabilities of the central intervals that are calibrated, and how far they reach if predictions
#: are right. Between them the reach is interpolated; beyond, it is proportional to the last.
LEVELS = (0.5, 0.8, 0.95)
NORMAL = ndtri((1 + np.array(LEVELS)) / 2)

#: Largest score: beyond it probabilities round to zero or one.
FURTHEST = 8.0

#: Least number of time steps of users that a quantile is taken from.
ENOUGH = 60

#: Tolerance for sums of weights, which are rounded.
ROUNDED = 1e-9


@dataclass(frozen=True)
class Calibration:
    """How far the central intervals of a new user's next targets have to reach.

    Attributes
    ----------
    points : tuple of int (G,)
        Numbers of points seen from which each of the following applies, in increasing order.
    reaches : tuple of tuples of float (G, 3)
        How far intervals of 50, 80 and 95 % reach, as probits: 0.67, 1.28 and 1.96 if predictions
        are right as they are.
    users : int
        Number of pilot users from whose scores this is.
    """

    points: tuple[int, ...]
    reaches: tuple[tuple[float, ...], ...]
    users: int

    @classmethod
    def of(cls, scores: np.ndarray, users: np.ndarray, points: np.ndarray) -> Self:
        """Learn a calibration from scores of rows (r,), their users and numbers of points seen.

        Consecutive numbers of points are pooled until a group has `ENOUGH` time steps of users.
        """
        steps = np.unique(np.stack([points, users]), axis=1)[0]
        numbers, counts = np.unique(steps, return_counts=True)
        before = np.cumsum(counts) - counts  # numbers of time steps with fewer points
        starts = [0]
        for i, done in enumerate(before):
            if min(done - before[starts[-1]], len(steps) - done) >= ENOUGH:
                starts.append(i)
        first = numbers[starts].astype(int)
        groups = (
            (points >= low) & (points < high) for low, high in pairwise([*first.tolist(), np.inf])
        )
        reaches = tuple(tuple(reach(scores[own], users[own]).tolist()) for own in groups)
        return cls(tuple(first.tolist()), reaches, len(np.unique(users)))

    def at(self, points: int) -> tuple[float, ...]:
        """Return how far intervals reach for a user of whom so many points are seen."""
        return self.reaches[max(int(np.searchsorted(self.points, points, "right")) - 1, 0)]

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration as plain data, for files."""
        reaches = [list(reach) for reach in self.reaches]
        return {"points": list(self.points), "reaches": reaches, "users": self.users}

    def __str__(self) -> str:
        first, *others = (price([reach]) for reach in self.reaches)
        later = zip(others, self.points[1:], strict=True)
        more = "; ".join([first, *(f"from {n} points on {text}" for text, n in later)])
        return f"Calibrated on {self.users} pilot users, 95 % intervals of new users become {more}"


def price(reaches: Sequence[tuple[float, ...]]) -> str:
    """Return as text how much wider 95 % intervals are, on average, where predictions are normal.

    `reaches` are those of several predictions.
    """
    change = np.mean([reach[-1] for reach in reaches]) / NORMAL[-1] - 1
    return f"{100 * abs(change):.0f} % {'wider' if change >= 0 else 'narrower'}"


def score(before: np.ndarray, until: np.ndarray) -> np.ndarray:
    """Return the scores (m,) of targets, from P(Y < y) and P(Y <= y) (m,)."""
    return np.clip(np.maximum(ndtri(before), -ndtri(until)), 0, FURTHEST)


def reach(scores: np.ndarray, users: np.ndarray) -> np.ndarray:
    """Return how far the intervals of `LEVELS` have to reach to cover a new user's target.

    With one row of each of n users it is the score with the rank ``ceil(level (n + 1))``, below
    which a new score is with the probability ``ceil(level (n + 1)) / (n + 1)``, whatever the
    distribution. With several rows, n is replaced by the number of independent rows of which the
    share of scores beyond the quantile would vary as much as its mean over the users does. (With n
    users, coverage is guaranteed, but too large, the more so the more rows there are.) If the rank
    exceeds n, the largest score is taken for the probability ``n / (n + 1)``, and the reach beyond
    for proportional to that of a normal distribution.

    Parameters
    ----------
    scores, users : ndarray, shape (r,)
        Scores of rows, and whose they are.

    Returns
    -------
    ndarray, shape (3,)
    """
    own, counts = np.unique(users, return_inverse=True, return_counts=True)[1:]
    n, order = len(counts), np.argsort(scores)
    ranked = scores[order]
    cumulated = np.cumsum(1 / (n * counts[own[order]]))
    found = []
    for level, normal in zip(LEVELS, NORMAL, strict=True):
        beyond = scores > ranked[np.searchsorted(cumulated, level - ROUNDED)]
        shares = np.bincount(own, beyond) / counts
        share, variance = shares.mean(), shares.var() * n / max(n - 1, 1)
        rows = n * share * (1 - share) / variance if variance > 0 else n
        rows = np.clip(rows, n, len(scores))
        rank = level * (rows + 1) / rows
        if rank <= 1:
            found.append(ranked[np.searchsorted(cumulated, rank - ROUNDED)])
        else:
            found.append(ranked[-1] * normal / ndtri((1 + rows / (rows + 1)) / 2))
    return np.minimum(np.maximum.accumulate(found), FURTHEST)


def calibrated(probability: float, reaches: tuple[float, ...]) -> float:
    """Return the probability whose quantile is the calibrated quantile of another probability."""
    probit = abs(ndtri(probability))
    if probit > NORMAL[-1]:
        further = reaches[-1] * probit / NORMAL[-1]
    else:
        further = np.interp(probit, [0, *NORMAL], [0, *reaches])
    return float(ndtr(np.copysign(min(further, FURTHEST), probability - 0.5)))
