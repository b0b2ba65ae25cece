"""Calibration of predictive intervals: how far they have to reach, learned from pilot users.

A target's score is how far the narrowest central interval that contains it reaches, in sds of a
normal distribution: ``max(probit P(Y < y), -probit P(Y <= y), 0)``. That is ``abs(probit F(y))``
if targets are continuous. Of discrete ones an interval contains its ends, so that it covers at
least what it should, and nothing is random. Intervals of new users reach as far as the scores of
pilot users, each predicted as if new, say. Rows of a user aren't exchangeable, but users are, and
all have the same weight. The new user is one of them: in split-conformal prediction (Vovk et al.
2005) the new score may be infinite, which guarantees coverage with intervals that are much too wide
if there are few users. Here its distribution is Student's t, nearly what predictions say.

So coverage isn't guaranteed. On average over studies it is close to the level if pilot and new
users are from the same population, there are ten or more pilot users, and selections for a pilot
user who is left out are like those for a new user. It is the coverage of all new users' next
targets together, not of each user, of each time step, or further ahead.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit
from scipy.stats import beta

#: Probabilities of the central intervals that are calibrated, and how far they reach if predictions
#: are right. Between them the reach is interpolated; beyond, it is proportional to the last.
LEVELS = np.array([0.5, 0.8, 0.95])
NORMAL = ndtri((1 + LEVELS) / 2)

#: Degrees of freedom of the distribution of the new user's scores. With a normal distribution,
#: coverage of simulated targets was half a per cent too low.
DEGREES = 4

#: Largest score: beyond it probabilities round to zero or one.
FURTHEST = 8.0


@dataclass(frozen=True)
class Calibration:
    """How far the central intervals of a new user's next targets have to reach.

    Attributes
    ----------
    reaches : tuple of float (3,)
        How far intervals of 50, 80 and 95 % reach, as probits: 0.67, 1.28 and 1.96 if predictions
        are right as they are.
    users : int
        Number of pilot users from whose scores this is.
    """

    reaches: tuple[float, ...]
    users: int

    @classmethod
    def of(cls, scores: np.ndarray, users: np.ndarray) -> Self:
        """Learn a calibration from scores of rows (r,), and whose they are (r,).

        Reaches are the smallest within which the share of a level is, on average over the pilot
        users' scores and the distribution of the new user's.
        """
        own, counts = np.unique(users, return_inverse=True, return_counts=True)[1:]
        order, n = np.argsort(scores), len(counts)
        reached = np.append(0, scores[order])
        within = np.append(0, np.cumsum(1 / counts[own[order]]))
        # Probability that the new user's has to be within the reach, if so many of these are.
        share = np.clip(LEVELS[:, None] * (n + 1) - within, 0, 1)
        reaches = np.maximum(reached, stdtrit(DEGREES, (1 + share) / 2)).min(axis=1)
        return cls(tuple(np.minimum(reaches, FURTHEST).tolist()), n)

    def probability(self, probability: float) -> float:
        """Return the probability whose quantile is the calibrated quantile of another one."""
        probit = abs(ndtri(probability))
        beyond = max(probit / NORMAL[-1], 1)
        reach = beyond * np.interp(probit, [0, *NORMAL], [0, *self.reaches])
        return float(ndtr(np.copysign(min(reach, FURTHEST), probability - 0.5)))

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration as plain data, for files."""
        return {"reaches": list(self.reaches), "users": self.users}

    def __str__(self) -> str:
        change = self.reaches[-1] / NORMAL[-1] - 1
        far = f"{100 * abs(change):.0f} % {'further' if change >= 0 else 'less far'}"
        return (
            f"95 % intervals of new users, calibrated on {self.users} pilot users, reach {far} "
            "than predictions say"
        )


class Outcome(NamedTuple):
    """How the points of a user's time step compare with what was predicted of them before.

    Sums over the points, so that outcomes can be added. The probit of a point is that of
    P(Y < y) + P(Y = y) / 2, standard normal if predictions are right and targets continuous.

    Attributes
    ----------
    user : int
        Position of the user, or number of the participant.
    time_step : int
        Time step of the points, from 1: nothing is predicted of the first, 0.
    points : int
        Number of points.
    within50, within80, within95 : int
        Number of points in central intervals, calibrated if predictions are.
    log_density : float
        Sum of the log predictive densities, in the target's unit.
    probit, distance : float
        Sum of the probits, and of their absolute values.
    """

    user: int
    time_step: int
    points: int
    within50: int
    within80: int
    within95: int
    log_density: float
    probit: float
    distance: float


def score(before: np.ndarray, until: np.ndarray) -> np.ndarray:
    """Return the scores (m,) of targets, from P(Y < y) and P(Y <= y) (m,)."""
    return np.clip(np.maximum(ndtri(before), -ndtri(until)), 0, FURTHEST)


def share_interval(values: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of the mean of persons' shares (n,) (Korn and Graubard 1998).

    It is that of Clopper and Pearson, for as many independent rows as have the variance of the mean
    over persons; where that is zero, for as many as there are persons.
    """
    n, share = len(values), values.mean()
    if n < 2:
        return 0.0, 1.0
    variance, rows = values.var(ddof=1) / n, float(n)
    if variance > 0:
        rows = share * (1 - share) / variance * (stdtrit(1e9, 0.025) / stdtrit(n - 1, 0.025)) ** 2
    inside = share * rows
    low = beta.ppf(0.025, inside, rows - inside + 1) if share > 0 else 0.0
    high = beta.ppf(0.975, inside + 1, rows - inside) if share < 1 else 1.0
    return float(low), float(high)
