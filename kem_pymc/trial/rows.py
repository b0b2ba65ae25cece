"""Rows of uploads: what they say, or what is wrong with them, and the points of a participant.

They are read by :meth:`kem_pymc.Cohort.from_frame`, like all tables, so that one rule decides what
data are; each row on its own, so that no other row makes it readable or unreadable. An entry keeps
the cells as they were uploaded, as JSON; an observation what they say.
"""

import json
import re
import threading
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, time, timedelta
from hashlib import sha256
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from kem_pymc.data.cells import Cells, Role, days, written
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.table import ends_of
from kem_pymc.errors import DataWarning, InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.selection.new_users import check_users

#: What is warned of is recorded by one thread at a time: Python has one list of filters.
ALONE = threading.RLock()

#: Who has a row in messages, where each is a participant of its own.
ROW = re.compile(r" of user row \d+")

#: Number of characters of a cell or a reason beyond which it isn't kept.
LONGEST = 1000


@dataclass(frozen=True)
class Roles:
    """What the columns of uploads are; the options of :meth:`kem_pymc.Cohort.from_frame`."""

    user: str
    time: str
    batch: int | None = None
    noise: str | None = None
    size: str | None = None
    date_format: str | None = None

    def columns(self, evolutions: Evolutions) -> dict[str, Role]:
        """Return the columns that rows need, with the kind of their cells."""
        columns: dict[str, Role] = {self.user: "user", self.time: "number"}
        for name in evolutions.features:
            columns.setdefault(name, "category" if name in evolutions.levels else "number")
        given = [name for name in (self.noise, self.size) if name is not None]
        return columns | dict.fromkeys((evolutions.target, *given), "number")

    def cohort(self, table: pd.DataFrame, evolutions: Evolutions) -> Cohort:
        """Read the rows of participants, each in order of time."""
        options = asdict(self)
        return Cohort.from_frame(
            table,
            target=evolutions.target,
            features=list(evolutions.features),
            categorical=evolutions.levels,
            gaps="skip",
            scope="new",
            family=evolutions.scaling.family,
            **options,
        )


class Fault(NamedTuple):
    """Why a row isn't accepted: it is ``refused``, or ``quarantined`` until a person decides."""

    status: str
    reason: str


def contents(table: pd.DataFrame) -> list[str]:
    """Return the cells of every row as JSON."""
    names = list(map(str, table.columns))
    rows = zip(*(map(_plain, table[name]) for name in table.columns), strict=True)
    return [json.dumps(dict(zip(names, row, strict=True))) for row in rows]


def hashed(content: str) -> str:
    """Return the SHA-256 of a text."""
    return sha256(content.encode()).hexdigest()


def legible(text: str) -> str:
    """Return a text with escapes in place of what databases don't store, shortened."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:LONGEST])


def _plain(cell: Any) -> Any:
    """Return a cell as a number, a truth, a text, or None if it is empty."""
    if isinstance(cell, np.generic):
        cell = cell.item()
    if (
        cell is None
        or cell is pd.NaT
        or cell is pd.NA
        or (isinstance(cell, float) and cell != cell)
    ):
        return None
    if isinstance(cell, pd.Timestamp | date | time):
        return cell.isoformat()
    if isinstance(cell, pd.Timedelta | timedelta):
        return pd.Timedelta(cell).isoformat()
    if isinstance(cell, bool | int | float) and abs(cell) <= 1e300:
        return cell
    return str(cell)[:LONGEST].encode("utf-8", "backslashreplace").decode()


def read(content: Sequence[str]) -> pd.DataFrame:
    """Return the table of entries' contents."""
    return pd.DataFrame([json.loads(row) for row in content])


class Values(NamedTuple):
    """What a row says, read: an observation.

    Attributes
    ----------
    time : str
        Its time, the same for times that are equal.
    x : list of float (D,)
        Inputs in the unit of the features; zero where the time is a feature.
    y : float
        The target.
    given : dict of str to float
        ``noise`` and ``sizes``, as far as they are known.
    """

    time: str
    x: list[float]
    y: float
    given: dict[str, float]


class Accrued(NamedTuple):
    """The observations of a participant, in order of time.

    Attributes
    ----------
    order : ndarray of int, shape (n,)
        Their places among those that were given.
    x, y : ndarray, shapes (n, D) and (n,)
    given : dict of str to ndarray, shape (n,)
    ends : ndarray of int
        Numbers of points at the ends of time steps.
    """

    order: np.ndarray
    x: np.ndarray
    y: np.ndarray
    given: dict[str, np.ndarray]
    ends: np.ndarray

    @classmethod
    def of(cls, values: Sequence[Values], roles: Roles, evolutions: Evolutions) -> Self:
        """Return the observations in order, of which there is at least one."""
        stamps = stamps_of([one.time for one in values])
        order = stamps.argsort(kind="stable").to_numpy()
        stamps = stamps.iloc[order].reset_index(drop=True)
        x = np.array([values[place].x for place in order])
        if roles.time in evolutions.features:
            x[:, evolutions.features.index(roles.time)] = days(stamps, np.zeros(len(x), dtype=int))
        names = values[0].given
        return cls(
            order,
            x,
            np.array([values[place].y for place in order]),
            {name: np.array([values[place].given[name] for place in order]) for name in names},
            ends_of(stamps.rank(method="dense").to_numpy(dtype=np.int64), roles.batch),
        )


def judged(table: pd.DataFrame, roles: Roles, evolutions: Evolutions) -> list[Fault | Values]:
    """Return what each row says, or what is wrong with it.

    Rows that can't be read are refused. Rows with an empty cell, and those that a warning would be
    about in other tables, such as values far from the pilot users', are quarantined.
    """
    found: dict[int, Fault | Values] = {}
    columns, whole = roles.columns(evolutions), []
    absent = {name: Cells(table[name]).absent(role) for name, role in columns.items()}
    for row in range(len(table)):
        empty = [name for name, mask in absent.items() if mask[row]]
        if empty:
            status = "refused" if {roles.user, roles.time} & {*empty} else "quarantined"
            found[row] = Fault(status, f"The cell {' and '.join(empty)} is empty.")
        else:
            whole.append(row)
    # Each row is a participant of its own: their order and repetitions are another matter.
    parts = [np.array(whole, dtype=int)] if whole else []
    while parts:
        rows = parts.pop()
        read = _read(table.iloc[rows], roles, evolutions)
        if not isinstance(read, Fault):
            found |= dict(zip(rows.tolist(), read, strict=True))
        elif len(rows) == 1:
            found[int(rows[0])] = read
        else:
            parts += np.array_split(rows, 2)
    return [found[row] for row in range(len(table))]


def _read(table: pd.DataFrame, roles: Roles, evolutions: Evolutions) -> Fault | list[Values]:
    """Return what rows say; of several of which one has a fault, any fault."""
    with ALONE, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            values = readings(table, roles, evolutions)
        except InputError as error:
            return Fault("refused", legible(ROW.sub("", str(error))))
    about = [str(one.message) for one in said if issubclass(one.category, DataWarning)]
    return Fault("quarantined", legible(" ".join(about))) if about else values


def readings(table: pd.DataFrame, roles: Roles, evolutions: Evolutions) -> list[Values]:
    """Return what rows say, each on its own.

    Raises
    ------
    InputError
        If one can't be read.

    Warns
    -----
    DataWarning
        If one is unusual.
    """
    alone = table.assign(**{roles.user: [f"row {row}" for row in range(len(table))]})
    cohort = roles.cohort(alone.reset_index(drop=True), evolutions)
    check_users(cohort, evolutions)
    stamps = times(table, roles)
    return [
        Values(
            written_time(stamps.iloc[row]),
            cohort.inputs[row][0].tolist(),
            float(cohort.targets[row][0]),
            {name: float(value[0]) for name, value in cohort.given(row).items()},
        )
        for row in range(len(table))
    ]


def despite(table: pd.DataFrame, roles: Roles, evolutions: Evolutions) -> list[Values]:
    """Return what rows say, also if it is unusual; as :func:`readings`."""
    with ALONE, warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return readings(table, roles, evolutions)


def stamps_of(written: Sequence[str]) -> pd.Series:
    """Return times that were written as text."""
    kind = kind_of_time(written[0])
    if kind == "numbers":
        return pd.Series([float(one) for one in written])
    if kind == "durations":
        return pd.Series(pd.to_timedelta(list(written)))
    return pd.Series(pd.to_datetime(list(written), format="ISO8601"))


def times(table: pd.DataFrame, roles: Roles) -> pd.Series:
    """Return the times of rows, which can be compared."""
    return Cells(table[roles.time]).times(roles.date_format)


def written_time(value: Any) -> str:
    """Return a time as text, the same for times that are equal."""
    if isinstance(value, pd.Timestamp):
        return (value.tz_convert("UTC") if value.tzinfo else value).isoformat()
    return value.isoformat() if isinstance(value, pd.Timedelta) else repr(float(value))


def kind_of_time(time: str) -> str:
    """Return the kind of a time as text, within which times can be compared."""
    if time.startswith("P"):
        return "durations"
    if "T" not in time:
        return "numbers"
    return "dates with a UTC offset" if time.endswith("+00:00") else "dates without a UTC offset"


def label_of(cell: Hashable) -> str:
    """Return a participant's label as text, the same for 7 and 7.0."""
    return legible(str(written(cell)))


def check_columns(table: pd.DataFrame, roles: Roles, evolutions: Evolutions) -> None:
    """Check that a table has the columns that rows need.

    Raises
    ------
    InputError
        If it lacks one or has two of the same name.
    """
    names = list(map(str, table.columns))
    columns: Mapping[str, Role] = roles.columns(evolutions)
    wrong = [name for name in columns if names.count(name) != 1]
    if wrong:
        raise InputError(
            f"The upload needs the columns {', '.join(columns)}, each once; {', '.join(wrong)} "
            f"{'is' if len(wrong) == 1 else 'are'} missing or repeated. Add them."
        )
