"""Features that mislead: known only at the end of a user's follow-up, or nearly equal to another.

A table can't show when a value became known. It can show that a feature which never changes within
users goes with how long they were followed, which what is known at the start seldom does.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import chi2, rankdata

from kem_pymc._system.display import some
from kem_pymc.data.cells import place
from kem_pymc.data.columns import Columns

#: Share of tables with a warning by mistake, if no feature has to do with the length of follow-up.
FALSE_ALARMS = 0.01

#: A column is an end if it is at or after the last time of at least this share of users.
BOUNDED = 0.9

#: Features with a correlation beyond this, in at least so many rows, are doubles; how many are
#: named.
DOUBLES, FEWEST, NAMED = 0.99, 10, 5


def known_at_end(
    columns: Columns,
    x: np.ndarray,
    times: np.ndarray,
    rows: Sequence[np.ndarray],
    index: pd.Index,
) -> Iterator[str]:
    """Yield warnings of features that may be known only at the end, and of rows after an end.

    The rank of a user's length of follow-up, from first to last row, is regressed on the rank of
    each feature that is constant within users, or on its levels. With U users and R^2 explained,
    (U - 1) R^2 is the statistic of Kruskal and Wallis for levels, and the square of Spearman's
    correlation in units of its standard error for numbers; under permutations of the users it is
    about chi-squared. Bonferroni's correction holds `FALSE_ALARMS` over all features of a table. A
    column that equals every user's last time needs no test.

    Parameters
    ----------
    columns : Columns
    x : ndarray, shape (n, D)
    times : ndarray, shape (n,)
    rows : sequence of ndarray, length U
        Positions of each user's rows, in order of time.
    index : Index, length n
        Labels of the rows, for messages.
    """
    first, last = (times[[places[k] for places in rows]] for k in (0, -1))
    followed = rankdata(last - first)
    constant = np.all([np.ptp(x[places], axis=0) == 0 for places in rows], axis=0)
    if not np.ptp(followed):
        return
    for d in np.flatnonzero(constant):
        column, values = columns.features[d], x[[places[0] for places in rows], d]
        regressors = values[:, None] == np.unique(values)[1:]
        if not column.levels:
            regressors = rankdata(values)[:, None]
        regressors, centred = regressors - regressors.mean(axis=0), followed - followed.mean()
        slopes = np.linalg.lstsq(regressors, centred)[0]
        explained = (centred @ regressors @ slopes) / (centred @ centred)
        p = chi2.sf((len(rows) - 1) * explained, regressors.shape[1])
        if p * constant.sum() > FALSE_ALARMS and not np.array_equal(values, last):
            continue
        text = f"{column.name} is the same throughout each user's rows, and "
        if column.levels or slopes[0] < 0 or np.mean(values >= last) < BOUNDED:
            yield (
                f"{text}goes with how long users were followed (p = {p:.0e}): leave it out of the "
                "features if it became known at the end, as an outcome, and keep it if it was "
                "known at the start."
            )
            continue
        yield (
            f"{text}at or after the end of their follow-up, with which it goes: leave "
            "it out of the features if it became known at the end."
        )
        late = np.concatenate(
            [places[times[places] > end] for places, end in zip(rows, values, strict=True)]
        )
        if late.size:
            row = late.min()
            yield (
                f"Rows later than the user's {column.name}: {late.size}, the first one at "
                f"{columns.time} {times[row]:g} in {place(index, row)}: correct or drop these rows."
            )


def doubles(columns: Columns, x: np.ndarray) -> Iterator[str]:
    """Yield a warning of pairs of features, numbers or two levels, that nearly repeat each other.

    Parameters
    ----------
    columns : Columns
    x : ndarray, shape (n, D)
        No column is constant.
    """
    if len(x) < FEWEST:
        return
    with np.errstate(over="ignore"):
        correlations = np.atleast_2d(np.corrcoef(x, rowvar=False))
    names = {d: f"{c.name}" for d, c in enumerate(columns.features) if len(c.levels) <= 2}
    pairs = [
        f"{names[d]} and {names[e]} ({correlations[d, e]:.3g})"
        for d, e in combinations(names, 2)
        if abs(correlations[d, e]) > DOUBLES
    ]
    if pairs:
        yield (
            f"Correlations of features are beyond {DOUBLES:g}, so that their effects can't be "
            f"separated: leave out one of {some(pairs, NAMED)}."
        )
