"""Tests of a trial's participants against pilot users who were predicted as if new.

If nothing is wrong, participants and pilot users are exchangeable; rows of one person aren't
independent. So persons are compared: each has one value of a quantity, the mean per point of its
outcomes less that of everyone at the same time step. Pilot users' time steps have the weights that
they have in participants' data. The difference is a t statistic with a variance for each group, and
the test permutes who is a pilot user (Janssen 1997), which is exact if participants have the same
time steps. All quantities and periods of a week are tested together, by the largest statistic
(Westfall and Young 1993).
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control, t

from kem_pymc.gp.calibration import Outcome

#: Largest probability of any false alarm, in all weeks of a trial together, and its share that is
#: spent in week k = 1, 2, ...: half of it in the first 26.
FALSE_ALARMS = 0.05

#: False discovery rate up to which participants are called unusual, and the share of those called
#: so who aren't, at most: values have heavier tails than the normal distribution.
DISCOVERY, FALSE_DISCOVERIES = 0.05, 0.1

#: Numbers of weeks that are tested, the last ones; and the last ones less those before.
PERIODS, RECENT = (1, 2, 4), 4

#: What is compared, per point.
QUANTITIES = ("log_density", "probit", "distance")

#: Fewest participants and pilot users who are compared.
FEWEST = 3

#: Permutations at a time. They end when this many statistics were as large as the smallest that was
#: observed, or with 5 / probability.
BATCH, ENOUGH = 2000, 20


class Persons(NamedTuple):
    """Means per point of persons' outcomes.

    Attributes
    ----------
    points : ndarray, shape (n, T)
        Number of points of each person and time step.
    means : ndarray, shape (n, T, Q)
        Means per point of each quantity; zero without points.
    """

    points: np.ndarray
    means: np.ndarray

    @classmethod
    def of(
        cls, rows: pd.DataFrame, users: pd.Index, last: int, names: tuple[str, ...]
    ) -> "Persons":
        """Return the outcomes of users; time steps after the last are like the last."""
        points, sums = np.zeros((len(users), last)), np.zeros((len(users), last, len(names)))
        place = users.get_indexer(rows["user"]), np.minimum(rows["time_step"], last) - 1
        np.add.at(points, place, rows["points"])
        np.add.at(sums, place, rows[list(names)].to_numpy(dtype=float))
        return cls(points, sums / np.maximum(points, 1)[..., None])

    @property
    def weights(self) -> np.ndarray:
        """Shares (n, T) of a person's points that each time step has."""
        return self.points / self.points.sum(axis=1, keepdims=True)


def spent(week: int) -> float:
    """Return the probability of a false alarm that the test of week 1, 2, ... has, at most."""
    return FALSE_ALARMS * 26 / ((week + 25) * (week + 26))


def relative(own: Persons, pilots: Persons) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of persons (n, T, Q), less those of all who have the time step."""
    both = [np.concatenate(pair) for pair in zip(own, pilots, strict=True)]
    there = (both[0] > 0)[..., None]
    typical = both[1].sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    less = np.where(there, both[1] - typical, 0)
    return less[: len(own.points)], less[len(own.points) :]


def values(own: Persons, pilots: Persons) -> tuple[np.ndarray, np.ndarray]:
    """Return the values (n, Q) of participants, and those of pilot users at these time steps."""
    weights = own.weights
    first, second = relative(own, pilots)
    theirs = weights.mean(axis=0) * (pilots.points > 0)
    theirs /= np.maximum(theirs.sum(axis=1, keepdims=True), 1e-12)
    return (first * weights[..., None]).sum(axis=1), (second * theirs[..., None]).sum(axis=1)


def looks(rows: pd.DataFrame, pilots: pd.DataFrame) -> pd.DataFrame:
    """Test every week.

    Parameters
    ----------
    rows : DataFrame
        Outcomes of participants, with the ``week`` in which each was written, in this order. A
        later one of the same time step takes the place of an earlier one.
    pilots : DataFrame
        Outcomes of pilot users.

    Returns
    -------
    DataFrame
        One row for each ``week``, ``quantity`` and ``period`` (``1``, ``2`` or ``4`` weeks, or
        ``drift``: the last four less all before): the ``difference`` of participants and pilot
        users, its ``p``, and ``spent``, up to which it is an alarm.
    """
    columns = ["week", "quantity", "period", "difference", "p", "spent"]
    found: list[tuple[object, ...]] = []
    theirs = persons_of(pilots)
    first = rows.groupby(["user", "time_step"])["week"].transform("min")
    for number, week in enumerate(sorted(rows["week"].unique()), start=1):
        known = rows.assign(first=first)[rows["week"] <= week]
        known = known.drop_duplicates(["user", "time_step"], keep="last")
        ago = (week - known["first"]) // pd.Timedelta(weeks=1)
        users = pd.Index(known["user"].unique())
        compared = {
            str(length): _compared(known[ago < length], users, theirs) for length in PERIODS
        }
        late, early = compared[str(RECENT)], _compared(known[ago >= RECENT], users, theirs)
        compared["drift"] = late - early
        table = np.hstack([*compared.values()])
        there = [(name, q) for name in compared for q in QUANTITIES]
        enough = (~np.isnan(table[: len(users)])).sum(axis=0) >= FEWEST
        if len(theirs.points) < FEWEST or not enough.any():
            continue
        table = table[:, enough]
        # Who has no value in a period is like all others.
        table = np.where(np.isnan(table), np.nanmean(table, axis=0), table)
        p, difference = permuted(table, len(theirs.points), spent(number), number)
        there = [one for one, kept in zip(there, enough, strict=True) if kept]
        for (period, quantity), gap, probability in zip(there, difference, p, strict=True):
            found.append((week, quantity, period, gap, probability, spent(number)))
    return pd.DataFrame(found, columns=columns)


def persons_of(pilots: pd.DataFrame) -> Persons:
    """Return pilot users' means."""
    last = max(pilots["time_step"], default=1)
    return Persons.of(pilots, pd.Index(pilots["user"].unique()), last, QUANTITIES)


def _compared(rows: pd.DataFrame, users: pd.Index, pilots: Persons) -> np.ndarray:
    """Return the values (n + pilots, Q) of all users, NaN of those without rows."""
    there = pd.Index(rows["user"].unique())
    table = np.full((len(users) + len(pilots.points), len(QUANTITIES)), np.nan)
    if len(there):
        own = Persons.of(rows, there, pilots.points.shape[1], QUANTITIES)
        table[users.get_indexer(there)], table[len(users) :] = values(own, pilots)
    return table


def permuted(
    table: np.ndarray, pilots: int, level: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Compare persons with the last ones, the pilot users, in all columns of a table together.

    Parameters
    ----------
    table : ndarray, shape (n, C)
    pilots : int
    level : float
        Probability that the p-values are compared with.
    seed : int
        Seed of the permutations.

    Returns
    -------
    p, difference : ndarray, shape (C,)
        Probabilities that the largest statistic of all columns is at least the column's, and the
        differences of means.
    """
    n, total, squares = len(table), table.sum(axis=0), (table**2).sum(axis=0)

    def statistic(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        drawn = table[chosen]
        one, two = drawn.sum(axis=-2) / pilots, (total - drawn.sum(axis=-2)) / (n - pilots)
        inner = (drawn**2).sum(axis=-2)
        first = (inner / pilots - one**2) / (pilots - 1)
        second = ((squares - inner) / (n - pilots) - two**2) / (n - pilots - 1)
        return two - one, np.abs(two - one) / np.sqrt(np.maximum(first + second, 1e-12))

    rng, done = np.random.default_rng(seed), 0
    difference, observed = statistic(np.arange(n - pilots, n))
    beyond = np.zeros(len(total))
    while done < 5 / level and beyond.min() < ENOUGH:
        chosen = rng.random((BATCH, n)).argpartition(pilots, axis=1)[:, :pilots]
        largest = statistic(chosen)[1].max(axis=1, keepdims=True)
        beyond += (largest >= observed * (1 - 1e-9)).sum(axis=0)
        done += BATCH
    return (1 + beyond) / (1 + done), difference


def unusual(rows: pd.DataFrame, pilots: pd.DataFrame) -> pd.DataFrame:
    """Compare each participant with the pilot users at the same time steps.

    A value is one more from the pilot users' normal distribution, whose mean and variance are
    estimated: Student's t. The smallest of a participant's p-values is multiplied by their number,
    and false discoveries are controlled as Benjamini and Hochberg (1995) do.

    Returns
    -------
    DataFrame
        One row for each user: the ``quantity`` that is most unusual, the ``difference`` from the
        pilot users' mean, and ``q``, the smallest false discovery rate at which the user is
        unusual.
    """
    theirs = persons_of(pilots)
    users = pd.Index(rows["user"].unique())
    n, count = len(users), len(theirs.points)
    if count < FEWEST or not n:
        return pd.DataFrame(columns=["user", "quantity", "difference", "q"])
    own = Persons.of(rows, users, theirs.points.shape[1], QUANTITIES)
    weights = own.weights
    first, second = relative(own, theirs)
    shares = np.maximum(weights @ (theirs.points > 0).T, 1e-12)[..., None]
    reference = np.einsum("it,jtq->ijq", weights, second) / shares
    difference = (first * weights[..., None]).sum(axis=1) - reference.mean(axis=1)
    sd = reference.std(axis=1, ddof=1) * np.sqrt(1 + 1 / count)
    beyond = difference / np.maximum(sd, 1e-12)
    # Poor densities are too skewed to compare, and large distances say the same.
    p = np.column_stack([t.sf(beyond[:, 0], count - 1), 2 * t.sf(np.abs(beyond[:, 1:]), count - 1)])
    most, every = p.argmin(axis=1), np.arange(n)
    return pd.DataFrame(
        {
            "user": users,
            "quantity": np.array(QUANTITIES)[most],
            "difference": difference[every, most],
            "q": false_discovery_control(np.minimum(len(QUANTITIES) * p[every, most], 1)),
        }
    )


def frame(outcomes: object) -> pd.DataFrame:
    """Return outcomes as a table."""
    return pd.DataFrame(outcomes, columns=list(Outcome._fields))
