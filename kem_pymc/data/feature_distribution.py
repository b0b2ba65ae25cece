"""The joint distribution of features over pilot users, given which missing inputs are integrated.

Numbers are normal by rank: a feature's normal score is the normal quantile of a value's rank, with
the variance scaled to one. Given the levels of all categories, scores are jointly normal, with
means that depend on the levels and a covariance that doesn't, and levels have the frequencies of
pilot rows: the general location model (Olkin and Tate 1961) of scores. Without categories this is a
Gaussian copula. Users count equally, however many rows they have.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtr, ndtri, softmax
from scipy.stats import qmc

from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError

#: Largest numbers of values of a number, and of combinations of levels: the most frequent ones.
VALUES, CELLS = 64, 64

#: Number of values that stand for the distribution of missing ones, a power of two.
NODES = 64

#: Least probability of a smaller or larger value, and what sums of probabilities may be off by.
LEAST, SUM = 1e-15, 1e-6

#: Least ratio of eigenvalues of a covariance that is positive definite.
SINGULAR = 1e-9


@dataclass(frozen=True, eq=False)
class Margin:
    """The distribution of a number, by at most 64 values.

    Attributes
    ----------
    values : ndarray, shape (K,)
        Increasing values: those that occur or, of more than 64, means of bins of their scores.
    shares : ndarray, shape (K,)
        Their probabilities, which are positive and add up to one.
    """

    values: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, weights: np.ndarray) -> Self:
        """Return the distribution of values (n,) with weights (n,) that add up to one."""
        values, place = np.unique(x, return_inverse=True)
        shares = np.bincount(place, weights)
        if len(values) > VALUES:
            scores = cls(values, shares).scores
            bins = np.floor((scores - scores[0]) / np.ptp(scores) * VALUES).clip(max=VALUES - 1)
            place = np.unique(bins, return_inverse=True)[1]
            sums, shares = np.bincount(place, shares * values), np.bincount(place, shares)
            values = sums / shares
        return cls(values, shares)

    @cached_property
    def scores(self) -> np.ndarray:
        """Normal scores (K,) of the values, with mean zero and variance one if there are two."""
        scores = ndtri((np.cumsum(self.shares) - self.shares / 2).clip(LEAST, 1 - LEAST))
        scores -= self.shares @ scores
        return scores / (np.sqrt(self.shares @ scores**2) or 1.0)

    def at(self, scores: np.ndarray) -> np.ndarray:
        """Return the quantiles whose probabilities are those of standard normal scores."""
        return self.values[np.searchsorted(np.cumsum(self.shares)[:-1], ndtr(scores))]


@dataclass(frozen=True, eq=False)
class FeatureDistribution:
    """The joint distribution of features, see the module.

    Attributes
    ----------
    features : tuple of str, length D
    margins : mapping of str to Margin
        Distributions of the P features that are numbers, in the order of the features. All others
        are categories.
    cells : ndarray, shape (C, D - P)
        Combinations of the codes of categories; without categories, one that is empty.
    shares : ndarray, shape (C,)
        Their probabilities.
    means : ndarray, shape (C, P)
        Means of the normal scores of numbers.
    covariance : ndarray, shape (P, P)
        Covariance of the scores around these means.
    time : str, optional
        Name of the feature that is the time, which has to be known.

    Raises
    ------
    InputError
        If the parts don't fit together, or the covariance isn't positive definite.
    """

    features: tuple[str, ...]
    margins: Mapping[str, Margin]
    cells: np.ndarray
    shares: np.ndarray
    means: np.ndarray
    covariance: np.ndarray
    time: str | None = None

    def __post_init__(self) -> None:
        p, shapes = len(self.margins), [self.cells.shape, self.means.shape, self.covariance.shape]
        c = len(self.shares)
        sound = list(self.margins) == [name for name in self.features if name in self.margins]
        sound &= shapes == [(c, len(self.features) - p), (c, p), (p, p)]
        sound &= self.time is None or self.time in self.features
        for margin in self.margins.values():
            sound &= margin.values.shape == margin.shares.shape
            sound &= bool(np.all(np.diff(margin.values) > 0))
        for shares in (self.shares, *(margin.shares for margin in self.margins.values())):
            sound &= bool((shares > 0).all() and abs(shares.sum() - 1) < SUM)
        symmetric = sound and np.allclose(self.covariance, self.covariance.T, atol=SUM)
        spread = np.linalg.eigvalsh(self.covariance) if symmetric else np.zeros(1)
        if not spread.min(initial=1.0) > SINGULAR * spread.max(initial=1.0):
            raise InputError(
                "The distribution of features has parts that don't fit together. Learn it again, "
                "with Evolutions.from_posterior."
            )

    @classmethod
    def learn(cls, cohort: Cohort) -> Self:
        """Learn the distribution from the rows of pilot users, in their units.

        Means of few users are shrunk to zero, and correlations too: by one user's worth.
        """
        x, rows = np.concatenate(cohort.inputs), [len(each) for each in cohort.inputs]
        weights = np.repeat(1 / (cohort.n_users * np.array(rows)), rows)
        categories = [d for d, name in enumerate(cohort.features) if name in cohort.levels]
        margins = {
            name: Margin.of(x[:, d], weights)
            for d, name in enumerate(cohort.features)
            if d not in categories
        }
        cells, of_row = np.unique(x[:, categories], axis=0, return_inverse=True)
        kept = np.sort(np.argsort(-np.bincount(of_row, weights), kind="stable")[:CELLS])
        within = (of_row == kept[:, None]) * weights
        shares, users = within.sum(axis=1), cohort.n_users
        scores = _scores(cohort.features, margins, x)
        means = within @ scores / (shares + 1 / users)[:, None]
        correlation = (scores.T * weights) @ scores * (users / (users + 1))
        np.fill_diagonal(correlation, 1.0)
        return cls(
            cohort.features,
            margins,
            cells[kept],
            shares / shares.sum(),
            means,
            correlation - (means.T * shares) @ means,
            cohort.time,
        )

    def completed(self, x: np.ndarray, used: Set[int]) -> tuple[np.ndarray, np.ndarray | None]:
        """Return rows in which values aren't missing, and which of them stand for each given row.

        Parameters
        ----------
        x : ndarray, shape (m, D)
            Inputs in the users' units, with NaN for what is missing.
        used : set of int
            Numbers of the features whose values are needed; others stay missing.

        Returns
        -------
        rows : ndarray, shape (n, D)
            The rows that lack nothing, once, and J = 64 nodes for each other row.
        nodes : ndarray of int, shape (J, m), or None
            Numbers of the rows that stand for each row given, with equal weights; None if no row
            lacks anything.
        """
        lacking = np.isnan(x) & [d in used for d in range(x.shape[1])]
        few = lacking.any(axis=1)
        if not few.any():
            return x, None
        made = [self._nodes(row, mask) for row, mask in zip(x[few], lacking[few], strict=True)]
        rows = np.concatenate([x[~few], *made])
        nodes = np.empty((NODES, len(x)), dtype=np.int64)
        nodes[:, ~few] = np.arange((~few).sum())
        nodes[:, few] = np.arange((~few).sum(), len(rows)).reshape(-1, NODES).T
        return rows, nodes

    def _nodes(self, row: np.ndarray, lacking: np.ndarray) -> np.ndarray:
        """Return the nodes (J, D) of one row (D,), given which of its values are lacking (D,)."""
        numbers = np.array([name in self.margins for name in self.features], dtype=bool)
        asked, known = lacking[numbers], ~np.isnan(row[numbers])
        scores = _scores(self.features, self.margins, row[None])[0]
        factor = cho_factor(self.covariance[np.ix_(known, known)])
        gain = cho_solve(factor, self.covariance[np.ix_(known, asked)]).T
        away = scores[known] - self.means[:, known]
        levels = row[~numbers]
        differ = ((self.cells != levels) & ~np.isnan(levels)).sum(axis=1)
        log_shares = np.log(self.shares) - 0.5 * (away * cho_solve(factor, away.T).T).sum(axis=1)
        # A combination that no pilot user had: those that differ from it in the fewest levels.
        shares = softmax(np.where(differ > differ.min(), -np.inf, log_shares))
        uniform, normal = self._sequence
        cell = np.searchsorted(np.cumsum(shares)[:-1], uniform)
        means = self.means[:, asked] + away @ gain.T
        spread = self.covariance[np.ix_(asked, asked)]
        root = np.linalg.cholesky(spread - gain @ self.covariance[np.ix_(known, asked)])
        nodes = np.tile(row, (NODES, 1))
        values = means[cell] + normal[:, asked] @ root.T
        places = np.flatnonzero(numbers)[asked]
        for d, column in zip(places, values.T, strict=True):
            nodes[:, d] = self.margins[self.features[d]].at(column)
        nodes[:, lacking & ~numbers] = self.cells[cell][:, lacking[~numbers]]
        return nodes

    @cached_property
    def _sequence(self) -> tuple[np.ndarray, np.ndarray]:
        """Uniform nodes (J,), for the cells, and standard normal ones (J, P) with variance one."""
        points = qmc.Sobol(1 + len(self.margins), scramble=False).random(NODES) + 0.5 / NODES
        normal = ndtri(points[:, 1:])
        return points[:, 0], normal / np.sqrt((normal**2).mean(axis=0))

    def to_dict(self) -> dict[str, Any]:
        """Return the distribution as plain data that can be written to a file."""
        margins = {
            name: {part: values.tolist() for part, values in asdict(margin).items()}
            for name, margin in self.margins.items()
        }
        parts = ("cells", "shares", "means", "covariance")
        time = {} if self.time is None else {"time": self.time}
        return {"margins": margins, **{name: getattr(self, name).tolist() for name in parts}} | time

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], features: tuple[str, ...]) -> Self:
        """Return the distribution of these features from the data of :meth:`to_dict`.

        Raises
        ------
        InputError
            If the data contradict each other.
        """
        margins = {
            name: Margin(np.array(margin["values"]), np.array(margin["shares"]))
            for name, margin in data["margins"].items()
        }
        c, p = len(data["shares"]), len(margins)
        shapes = {"cells": (c, len(features) - p), "means": (c, p), "covariance": (p, p)}
        try:
            arrays = {name: np.array(data[name], float).reshape(shapes[name]) for name in shapes}
        except ValueError as error:
            raise InputError(
                f"The distribution of features has parts of other sizes than {c} combinations of "
                f"levels and {p} numbers. Learn it again, with Evolutions.from_posterior."
            ) from error
        return cls(
            features, margins, shares=np.array(data["shares"]), time=data.get("time"), **arrays
        )


def _scores(features: tuple[str, ...], margins: Mapping[str, Margin], x: np.ndarray) -> np.ndarray:
    """Return the normal scores (n, P) of the numbers in inputs (n, D); NaN where missing."""
    columns = [
        np.interp(x[:, d], margins[name].values, margins[name].scores)
        for d, name in enumerate(features)
        if name in margins
    ]
    return np.column_stack(columns) if columns else np.empty((len(x), 0))


def check_missing(
    x: np.ndarray, distribution: FeatureDistribution | None, rows: Sequence[str] | None = None
) -> None:
    """Check that what is missing (NaN) in inputs (m, D) has a known distribution.

    Parameters
    ----------
    x : ndarray, shape (m, D)
    distribution : FeatureDistribution or None
    rows : sequence of str, length m, optional
        What the rows are called in messages, by default "row 0" and so on.

    Raises
    ------
    InputError
        If there is no distribution, or the time is missing.
    """
    missing = np.isnan(x)
    if not missing.any():
        return
    rows = [f"row {k}" for k in range(len(x))] if rows is None else rows
    if distribution is None:
        first = int(missing.any(axis=1).argmax())
        raise InputError(
            f"The inputs have a missing value in {rows[first]}, and the distribution of features "
            "isn't known. Give the value; or learn the evolutions again, "
            "with kem fit or Evolutions.from_posterior, which learns it if there are features "
            "besides the time."
        )
    time = missing[:, [name == distribution.time for name in distribution.features]].any(axis=1)
    if time.any():
        raise InputError(
            f"The time, {distribution.time}, is missing in {rows[int(time.argmax())]} of the "
            "inputs. Fill it in: only other features may be missing."
        )
