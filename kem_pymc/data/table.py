"""The path from a table to the arrays of a cohort: every check and every conversion, once.

The roles of the columns are decided before (:mod:`kem_pymc.data.columns`). Problems of one kind of
check are collected and raised together, so that a user learns of all of them at once.
"""

import warnings
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from numbers import Integral
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from kem_pymc._system.display import plural, some
from kem_pymc._system.options import check_choice
from kem_pymc.data.cells import Cells, Role, days, place
from kem_pymc.data.columns import Columns
from kem_pymc.data.leaks import doubles, known_at_end
from kem_pymc.data.validation import LARGEST, LEAST_SPREAD
from kem_pymc.errors import DataWarning, InputError, Problems

#: Share of other users who have a planned time, and of rows at times that are shared.
PLANNED = 0.5

#: Largest number of columns and of users named in a message.
NAMED = 10


class PointsByUser(NamedTuple):
    """The points of every user, in order of arrival.

    Attributes
    ----------
    users : tuple of labels, length U
    inputs : tuple of ndarray, shape (n_u, D) each
    targets : tuple of ndarray, shape (n_u,) each
    ends : tuple of ndarray, shape (T_u,) each
        Number of points at the end of each time step.
    noise, sizes : tuple of ndarray, shape (n_u,) each, or None
        As in :class:`kem_pymc.Cohort`.
    """

    users: tuple[Hashable, ...]
    inputs: tuple[np.ndarray, ...]
    targets: tuple[np.ndarray, ...]
    ends: tuple[np.ndarray, ...]
    noise: tuple[np.ndarray, ...] | None
    sizes: tuple[np.ndarray, ...] | None


def user_points(
    df: pd.DataFrame,
    columns: Columns,
    *,
    batch: int | None = None,
    gaps: Literal["error", "skip"] = "error",
    missing: Literal["error", "drop"] = "error",
    short: Literal["error", "drop"] = "error",
) -> PointsByUser:
    """Return the points of every user of a table.

    The arguments, errors and warnings are those of :meth:`kem_pymc.Cohort.from_frame`, after the
    roles of the columns have been decided.
    """
    if batch is not None and not (isinstance(batch, Integral) and batch >= 1):
        raise InputError("{batch} isn't a valid number of points. Give 1 or more.", batch=batch)
    check_choice(("error", "skip"), gaps=gaps)
    check_choice(("error", "drop"), missing=missing, short=short)
    pilot, learnt = columns.scope == "pilot", columns.scope != "new"
    target = columns.target
    if missing == "drop":
        df, message = _without_missing(df, columns, least=1 + pilot)
        if message:
            warnings.warn(message, DataWarning, stacklevel=4)
            gaps = "skip"
    if pilot and short == "drop":
        df, message = _without_short(df, columns.user)
        if message:
            warnings.warn(message, DataWarning, stacklevel=4)

    # What each column holds.
    problems, cells = Problems(), dict[Hashable, np.ndarray]()
    held = {name: Cells(df[name]) for name in columns.used}
    for column in columns.features:
        with problems:
            if column.levels:
                levels, labels = column.levels, df[columns.user]
                cells[column.name] = held[column.name].codes(levels, labels, columns.scope)
            elif column.kind != "time":
                cells[column.name] = held[column.name].numbers()
    for name in (target, *columns.given.values()):
        with problems:
            cells[name] = held[name].numbers()
    with problems:
        times = held[columns.time].times(columns.date_format)
    with problems:
        codes, users = held[columns.user].labels()
    problems.check()
    for message in chain(*(held[name].said(role) for name, role in columns.roles.items())):
        warnings.warn(message, DataWarning, stacklevel=4)
    for column in columns.features:
        if column.kind == "numbers" and held[column.name].calendar:
            warnings.warn(
                f"Column {column.name!r} has numbers such as {np.nanmin(cells[column.name]):.0f}, "
                "which may be dates. Convert dates to days, or leave them out of the features.",
                DataWarning,
                stacklevel=4,
            )
    cells[columns.time] = days(times, codes)
    with problems:
        _check_complete(cells, held, users, codes, least=1 + pilot)

    # Each user's rows, in order of arrival. Rows without a time are among the problems.
    order = times.rank(method="dense").fillna(0).to_numpy(dtype=np.int64)
    rows = np.split(np.argsort(codes, kind="stable"), np.bincount(codes).cumsum()[:-1])
    if np.isfinite(cells[columns.time]).all():
        with problems:
            _check_order(users, rows, order, df.index)
        if batch is None and gaps == "error" and is_numeric_dtype(times):
            with problems:
                _check_gaps(users, rows, cells[columns.time])
    for name in (*columns.names, target, *columns.given.values()):
        with problems:
            _check_size(name, cells[name], df.index)
    single = [user for user, places in zip(users, rows, strict=True) if len(places) < 2]
    if pilot and single:
        named = some(map(repr, single), NAMED)
        which = f"User {named} has" if len(single) == 1 else f"Users {named} have"
        problems.add_problem(
            f"{which} one point, too few to learn from. Leave them out with {{short}}; "
            "new users and those of a population model ({scope}) may have one.",
            see="One row",
            short="drop",
            scope="population",
        )
    problems.check()
    x, y = np.column_stack([cells[name] for name in columns.names]), cells[target]
    if learnt:
        check_varies((*columns.names, target), np.column_stack([x, y]))
        for message in (
            *known_at_end(columns, x, cells[columns.time], rows, df.index),
            *doubles(columns, x),
        ):
            warnings.warn(message, DataWarning, stacklevel=4)
    if message := _repeats(np.column_stack([codes, order, x, y])):
        warnings.warn(message, DataWarning, stacklevel=4)
    return PointsByUser(
        users,
        tuple(x[places] for places in rows),
        tuple(y[places] for places in rows),
        tuple(ends_of(order[places], batch) for places in rows),
        *(
            tuple(cells[columns.given[name]][places] for places in rows)
            if name in columns.given
            else None
            for name in ("noise", "sizes")
        ),
    )


def number_columns(df: pd.DataFrame, names: Sequence[Hashable]) -> np.ndarray:
    """Return columns of numbers (n, number of names), for a table without users.

    Raises
    ------
    InputError
        If a cell isn't a number, or is missing, infinite or larger than 1e12 in size.
    """
    problems, cells = Problems(), dict[Hashable, np.ndarray]()
    held = {name: Cells(df[name]) for name in names}
    for name in names:
        with problems:
            cells[name] = held[name].numbers()
    problems.check()
    with problems:
        _check_complete(cells, held)
    for name in names:
        with problems:
            _check_size(name, cells[name], df.index)
    problems.check()
    return np.column_stack([cells[name] for name in names])


def _without_missing(df: pd.DataFrame, columns: Columns, least: int) -> tuple[pd.DataFrame, str]:
    """Drop rows with missing values, and describe what was dropped.

    Users who lose rows and keep fewer than `least` are dropped entirely. Infinite values don't
    count as missing. The description is empty if no value was missing.
    """
    incomplete, in_columns = incomplete_rows(df, columns.roles)
    if not incomplete.any():
        return df, ""
    labels = Cells(df[columns.user]).names
    by_user = labels[incomplete].value_counts(sort=False)
    of_users = [f"{label}: {count}" for label, count in by_user.items()]
    message = (
        f"Left out {incomplete.sum()} of {len(df)} rows with missing values: {in_columns}. "
        f"By user: {some(of_users, NAMED)}."
    )
    kept = labels[~incomplete].value_counts()
    few = [label for label in by_user.index if kept.get(label, 0) < least]
    if few:
        message += f" Users with too few remaining rows are also left out: {some(few, NAMED)}."
    left = df[~incomplete & ~labels.isin(few).to_numpy()]
    if left.empty:
        raise InputError(
            f"There are no rows without missing values, of users with at least {least}: values are "
            f"missing of {in_columns}. Fill them in, or choose other features with {{features}}.",
            features=...,
        )
    return left, message


def _without_short(df: pd.DataFrame, user: Hashable) -> tuple[pd.DataFrame, str]:
    """Drop users with one row, and say which; the message is empty if there is none."""
    names = Cells(df[user]).names
    few = (~names.duplicated(keep=False) & names.notna()).to_numpy()
    if few.all():
        raise InputError("Every user has one row, too few to learn from. Give several rows.")
    left_out = (
        f"Left out {plural(few.sum(), 'user')} with one row: {some(names[few].map(str), NAMED)}."
    )
    return df[~few], left_out if few.any() else ""


def incomplete_rows(df: pd.DataFrame, roles: Mapping[Hashable, Role]) -> tuple[np.ndarray, str]:
    """Return which rows have missing values, and how many there are by column and mark, as text.

    Parameters
    ----------
    df : DataFrame
    roles : mapping of column name to {"user", "category", "number"}
        Columns that have to be known, and what each of their cells is.
    """
    held = {name: Cells(df[name]) for name in roles}
    absent = {name: held[name].absent(role) for name, role in roles.items()}
    return np.logical_or.reduce([*absent.values()]), _in_columns(held, absent)


def _in_columns(held: Mapping[Hashable, Cells], absent: Mapping[Hashable, np.ndarray]) -> str:
    """Return how many cells are missing, by column and by mark, as text."""
    return some([held[n].counted(mask) for n, mask in absent.items() if mask.any()], NAMED)


def _check_complete(
    columns: Mapping[Hashable, np.ndarray],
    held: Mapping[Hashable, Cells],
    users: Sequence[Hashable] = (),
    codes: np.ndarray | None = None,
    least: int = 1,
) -> None:
    """Check that no cell is missing or infinite.

    Parameters
    ----------
    columns, held : mapping of column name to ndarray and to Cells
        The columns as numbers, and as they are.
    users, codes : sequence of labels, ndarray of int
        The users, and the number of each row's user.
    least : int
        Number of rows with which a user can be kept.
    """
    absent = {name: ~np.isfinite(values) for name, values in columns.items()}
    rows = np.logical_or.reduce([*absent.values()])
    if not rows.any():
        return
    first, count = int(rows.argmax()), rows.sum()
    column = next(name for name, mask in absent.items() if mask[first])
    where = place(held[column].values.index, first)
    if codes is not None:
        where += f" (user {users[codes[first]]!r})"
    mark = f" ({held[column].values.iloc[first]!r})" if held[column].marks[first] else ""
    what, s = f"Column {column!r} has a missing or infinite value{mark} in {where}", ""
    if count > 1:
        what, s = f"{count} of {len(rows)} rows have missing or infinite values", "s"
        what += f", {_in_columns(held, absent)}; the first one is {column!r} in {where}"
    infinite = np.logical_or.reduce([np.isinf(values) for values in columns.values()])
    kept = np.bincount(np.zeros(len(rows), dtype=int) if codes is None else codes, ~rows)
    if infinite.any():
        remedy = "Correct infinite values, or leave their rows out of the table."
    elif (kept < least).all():
        remedy = (
            "If such rows are dropped, nothing is left: fill in the values, or choose {features} "
            "that are known in the same rows."
        )
    else:
        remedy = f"Fill in the value{s}, or drop the row{s} with {{missing}}."
    raise InputError(f"{what}. {remedy}", see="Missing values", missing="drop", features=...)


def _check_size(name: Hashable, cells: np.ndarray, index: pd.Index) -> None:
    huge = np.isfinite(cells) & (np.abs(cells) > LARGEST)
    if huge.any():
        raise InputError(
            f"Column {name!r} has a value beyond {LARGEST:.0e} in {place(index, huge.argmax())}. "
            "Rescale the column, for example to another unit."
        )


def _check_order(
    users: Sequence[Hashable], rows: Sequence[np.ndarray], order: np.ndarray, index: pd.Index
) -> None:
    """Check that each user's rows are in order of time; `order` are the ranks of the times."""
    for label, places in zip(users, rows, strict=True):
        late = np.diff(order[places]) < 0
        if late.any():
            raise InputError(
                f"{place(index[places], late.argmax() + 1).capitalize()} of user {label!r} is "
                "earlier than the one before. Sort the table by user and time."
            )


def _check_gaps(users: Sequence[Hashable], rows: Sequence[np.ndarray], times: np.ndarray) -> None:
    """Check that no user lacks a planned time between two of their own.

    Of whole-numbered times, those are planned that at least half of the other users have who were
    observed before and after; and none are, unless the rows are for the most part at such times.
    Where visits are irregular, as on days, or no user has a time, as in a plan of weeks 1, 2, 4 and
    8, there are no gaps.
    """
    distinct, numbers = np.unique(times, return_inverse=True)
    if np.any(distinct != np.floor(distinct)):
        return
    visits = [np.unique(numbers[places]) for places in rows]
    having, observed = np.zeros((2, len(distinct)))
    for own in visits:
        having[own] += 1
        observed[own[0] : own[-1] + 1] += 1
    with np.errstate(invalid="ignore", divide="ignore"):
        shared = (having - 1) / (observed - 1)  # share of the others, of a user who has the time
    known = shared[np.concatenate(visits)]
    known = known[np.isfinite(known)]
    if not known.size or known.mean() < PLANNED:
        return
    for label, own in zip(users, visits, strict=True):
        between = np.setdiff1d(np.arange(own[0], own[-1]), own)
        lacked = between[having[between] >= PLANNED * (observed[between] - 1)]
        if lacked.size:
            raise InputError(
                f"User {label!r} has no data at time {distinct[lacked[0]]:.0f}, "
                "but other users have. Add the missing rows, or allow gaps with {gaps}.",
                see="Gaps",
                gaps="skip",
            )


def check_varies(names: Sequence[Hashable], values: np.ndarray) -> None:
    """Check that no column (n, number of names) is constant; the last one is the target."""
    problems = Problems()
    for name, column in zip(names, values.T, strict=True):
        if np.ptp(column) > 0 and column.std() < LEAST_SPREAD:
            problems.add_problem(
                f"Column {name!r} has values so small that their standard deviation is below "
                f"{LEAST_SPREAD:.0e}. Rescale the column, for example to another unit."
            )
        elif np.ptp(column) == 0:
            remedy = "Choose another target" if name == names[-1] else "Leave it out of {features}"
            problems.add_problem(
                f"Column {name!r} is constant over the whole cohort. "
                f"{remedy}, or add users for whom it varies.",
                features=...,
            )
    problems.check()


def _repeats(rows: np.ndarray) -> str:
    """Return a message with the number of rows that equal an earlier row; "" if there is none."""
    count = pd.DataFrame(rows).duplicated().sum()
    if not count:
        return ""
    return (
        f"The user, time, inputs and target of {plural(count, 'row')} are those of an earlier "
        "one. Check that they are separate measurements, or drop them."
    )


def ends_of(order: np.ndarray, batch: int | None) -> np.ndarray:
    """Return the numbers of points at the ends of time steps, of points in order of time."""
    last = len(order)
    inner = np.flatnonzero(np.diff(order)) + 1 if batch is None else np.arange(batch, last, batch)
    return np.append(inner, last)
