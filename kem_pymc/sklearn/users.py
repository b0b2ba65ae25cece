"""Regressors of users whose rows arrive in time steps."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.metrics import r2_score
from sklearn.utils import check_consistent_length

from kem_pymc._system.options import check_whole
from kem_pymc.data.cells import Cells
from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.selection.online import Points, select_online_for_user
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.selector import Selector
from kem_pymc.sklearn.base import GaussianRegressor, moments

#: Number of time steps of the user with most rows, where neither times nor `batch` say which there
#: are.
STEPS = 6

#: Label of the only user, where rows have no groups.
EVERYTHING = None

#: What kind of times rows without any have.
NO_TIMES = "no times"


@dataclass(frozen=True)
class TimedRows:
    """The rows of a user in order of time.

    Attributes
    ----------
    x, y : ndarray, shapes (n, D) and (n,)
    times : Series, shape (n,)
        Times, or numbers of time steps.
    ends : ndarray, shape (T,)
        Number of rows at the end of each time step.
    """

    x: np.ndarray
    y: np.ndarray
    times: pd.Series
    ends: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, times: pd.Series, batch: int | None) -> Self:
        """Return rows in order of time, with time steps of `batch` rows or of a time each."""
        order = times.argsort(kind="stable").to_numpy()
        times = times.iloc[order].reset_index(drop=True)
        changes = np.flatnonzero(times.to_numpy()[1:] != times.to_numpy()[:-1]) + 1
        starts = changes if batch is None else np.arange(batch, len(y), batch)
        return cls(x[order], y[order], times, np.append(starts, len(y)))

    def followed_by(
        self, x: np.ndarray, y: np.ndarray, times: pd.Series
    ) -> tuple[np.ndarray, np.ndarray, pd.Series]:
        """Return inputs, targets and times of these rows and of others."""
        every = pd.concat([self.times, times], ignore_index=True)
        return np.vstack([self.x, x]), np.append(self.y, y), every

    def same_steps(self, other: "TimedRows") -> int:
        """Return the number of first time steps that have the same rows in both."""
        for count, (n, end) in enumerate(zip(self.ends, other.ends, strict=False)):
            same = n == end and np.array_equal(self.x[:n], other.x[:n])
            if not (same and np.array_equal(self.y[:n], other.y[:n])):
                return count
        return min(len(self.ends), len(other.ends))


class UserRegressor(GaussianRegressor):
    """Base class of regressors that learn from users, and then predict these and others.

    Attributes
    ----------
    selector_ : Selector
        What selects for a user, by what was learned.
    selections_ : dict of label to list of Selection
        Of each user, the selections so far.
    """

    #: Number of rows of a time step; None if each time is one.
    batch: int | None = None

    #: Whether there is a selection at every time step, and not the last one alone; and whether rows
    #: without groups are those of one user, and not of as many.
    evolves = True

    def _learn(self, cohort: Cohort, grouped: bool) -> Selector:
        """Learn from users, or from rows without groups; return what selects for a new user."""
        raise NotImplementedError

    def _without(self, selector: Selector, user: int) -> Selector:
        """Return what selects for a user who was learned from, by position: without that user."""
        return selector

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "selections_")

    def fit(self, X: Any, y: Any, groups: Any = None, times: Any = None) -> Self:
        """Learn from users' rows.

        Parameters
        ----------
        X : array_like or DataFrame, shape (n, D)
            Features: numbers. The time is a feature if it is one of the columns.
        y : array_like, shape (n,)
        groups : array_like, shape (n,), optional
            The user of each row.
        times : array_like, shape (n,), optional
            Numbers or dates by which a user's rows are ordered. By default they are in order.

        Returns
        -------
        estimator

        Raises
        ------
        InputError
            If users can't be learned from, such as where a column is constant.
        ValueError
            If an array has missing values or another length, or there is a single row.

        Warns
        -----
        SamplingWarning
            If draws don't suffice, such as where chains disagree.
        """
        inputs, targets = self._points(X, y, reset=True, least=2)
        grouped, n = groups is not None, len(targets)
        if not (grouped or self.evolves):
            groups = np.arange(n)
        users = _places(groups, n)
        steps = -(-max(map(len, users.values())) // STEPS)
        at = self._times(users, n, times, steps, {})
        found = self._rows_of(users, inputs, targets, at)
        cohort = Cohort(
            users=tuple(found),
            inputs=tuple(rows.x for rows in found.values()),
            targets=tuple(rows.y for rows in found.values()),
            ends=tuple(rows.ends for rows in found.values()),
            features=self._features,
            target=self._target,
        )
        for name in ("selector_", "selections_"):  # which aren't those of what is learned now
            self.__dict__.pop(name, None)
        selector = self._learn(cohort, grouped)
        known, alone = found if grouped or self.evolves else {}, len(found) < 2
        own = {u: selector if alone else self._without(selector, i) for i, u in enumerate(known)}
        selections = {user: self._selected(own[user], rows) for user, rows in known.items()}
        self._rows, self._kind, self._selectors = known, _kind(times, at), own
        self.selector_, self.selections_ = selector, selections
        return self

    def partial_fit(self, X: Any, y: Any, groups: Any = None, times: Any = None) -> Self:
        """Add rows of users, known or new, without learning anew: what :meth:`fit` learned stays.

        Of each user with new rows, it selects at each time step that is new, or that changed
        because rows came late. Without times and `batch`, a user's rows are one time step. The
        first call of an estimator that isn't fitted is :meth:`fit`.

        Parameters
        ----------
        X, y, groups, times
            As for :meth:`fit`, with times if it had them.

        Returns
        -------
        estimator

        Raises
        ------
        InputError
            If there are times and were none, or the other way round, or they are of another kind.
        ValueError
            If an array has missing values or another shape.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, groups, times)
        inputs, targets = self._points(X, y, reset=False, least=1)
        n = len(targets)
        users = _places(groups, n)
        at = self._times(users, n, times, n, self._rows if self._kind == NO_TIMES else {})
        kind = _kind(times, at)
        if kind != self._kind:
            raise InputError(f"Earlier rows have {self._kind}, and these have {kind}.")
        new = self._rows_of(users, inputs, targets, at, self._rows)
        selected = {}
        for user, rows in new.items():
            kept = self._rows[user].same_steps(rows) if user in self._rows and self.evolves else 0
            selector, before = self._selectors.get(user, self.selector_), self.selections_.get(user)
            selected[user] = self._selected(selector, rows, before[:kept] if before else ())
        self._rows = self._rows | new
        self.selections_ = self.selections_ | selected
        return self

    def predict(
        self, X: Any, groups: Any = None, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, ...]:
        """Predict new observations of users.

        Parameters
        ----------
        X : array_like or DataFrame, shape (m, D)
        groups : array_like, shape (m,), optional
            The user of each row. Of a user without rows so far, a new user is predicted; of rows
            without groups, too, unless there were rows without groups before.
        return_std : bool
            Whether to return the standard deviation of an observation, too.

        Returns
        -------
        ndarray, shape (m,), or two of them
            Mean, and sd if that is asked for. Quantiles and parts are in
            ``selections_[user][-1].predict(X)``.
        """
        inputs = self._inputs(X)
        mean, sd = np.empty(len(inputs)), np.empty(len(inputs))
        users, new = _places(groups, len(inputs)), np.empty(0, dtype=int)
        for user in users.keys() - self.selections_:
            new = np.append(new, users.pop(user))
        kernels = [(self.selections_[user][-1], places) for user, places in users.items()]
        if len(new):
            nothing = np.empty((0, self.n_features_in_)), np.empty(0)
            kernels.append((self.selector_.select(*nothing), new))
        for selection, places in kernels:
            prediction = selection.predict(inputs[places], include_noise=True)
            mean[places], sd[places] = moments(prediction, return_std=True)
        return (mean, sd) if return_std else mean

    def score(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> float:
        """Return the share of the targets' variance that predictions explain.

        Parameters
        ----------
        X, y : array_like, shapes (m, D) and (m,)
        sample_weight : array_like, shape (m,), optional
        groups : array_like, shape (m,), optional
            As for :meth:`predict`.

        Returns
        -------
        float
        """
        return float(r2_score(y, self.predict(X, groups), sample_weight=sample_weight))

    def _times(
        self,
        users: Mapping[Hashable, np.ndarray],
        n: int,
        times: Any,
        steps: int,
        before: Mapping[Hashable, TimedRows],
    ) -> pd.Series:
        """Return the time of each row; without times numbers, every `steps` rows the next one."""
        if times is not None:
            check_consistent_length(np.empty(n), times)
            given = pd.Series(np.asarray(times), name="times")
            if given.isna().any():
                raise InputError("Times are missing. Fill them in, or leave out these rows.")
            if given.dtype.kind in "biuf":
                return given.astype(float)
            return Cells(given).times(None)
        numbers = np.empty(n)
        for user, places in users.items():
            first = before[user].times.iloc[-1] + 1 if user in before else 0
            numbers[places] = first + np.arange(len(places)) // steps
        return pd.Series(numbers)

    def _rows_of(
        self,
        users: Mapping[Hashable, np.ndarray],
        x: np.ndarray,
        y: np.ndarray,
        times: pd.Series,
        before: Mapping[Hashable, TimedRows] | None = None,
    ) -> dict[Hashable, TimedRows]:
        """Return users' rows, after those that they had before."""
        if self.batch is not None:
            check_whole(batch=self.batch)
        found = {}
        for user, places in users.items():
            own = x[places], y[places], times.iloc[places]
            if before and user in before:
                own = before[user].followed_by(*own)
            found[user] = TimedRows.of(*own, self.batch)
        return found

    def _selected(
        self, selector: Selector, rows: TimedRows, kept: Sequence[Selection] = ()
    ) -> list[Selection]:
        """Return a user's selections: those that are kept, and of all later time steps."""
        points: Points = rows.x, rows.y, rows.ends if self.evolves else rows.ends[-1:], {}
        last = kept[-1] if kept else None
        return [*kept, *select_online_for_user(selector, points, len(kept), last)]


def _places(groups: Any, n: int) -> dict[Hashable, np.ndarray]:
    """Return the places of each user's rows, in the order in which users appear."""
    if groups is None:
        return {EVERYTHING: np.arange(n)}
    labels = pd.Series(list(groups), dtype=object)  # an array would make text of numbers beside it
    check_consistent_length(np.empty(n), labels)
    if labels.isna().any():
        raise InputError("Groups are missing. Say of each row which user's it is.")
    codes, users = pd.factorize(labels)
    return {user: np.flatnonzero(codes == k) for k, user in enumerate(users)}


def _kind(times: Any, read: pd.Series) -> str:
    """Return in words of which kind times are."""
    if times is None:
        return NO_TIMES
    kind = {"f": "numbers", "m": "durations"}.get(read.dtype.kind, "dates")
    zoned = getattr(read.dtype, "tz", None) is not None
    return f"{kind} with a UTC offset as times" if zoned else f"{kind} as times"
