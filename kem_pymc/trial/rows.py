"""Rows of uploads: what is wrong with them, and the cohort that a participant's rows make.

They are read by :meth:`kem_pymc.Cohort.from_frame`, like all tables, so that one rule decides what
data are. An entry keeps the cells as they were uploaded, as JSON.
"""

import json
import re
import threading
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, time, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from kem_pymc.data.cells import Cells, Role
from kem_pymc.data.cohort import Cohort
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

    def quietly(self, table: pd.DataFrame, evolutions: Evolutions) -> Cohort:
        """Read rows that were judged before."""
        with ALONE, warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            return self.cohort(table, evolutions)

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
    return [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows]


def hashed(content: str) -> str:
    """Return the SHA-256 of a text."""
    return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


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
    return str(cell)[:LONGEST]


def read(content: Sequence[str]) -> pd.DataFrame:
    """Return the table of entries' contents."""
    return pd.DataFrame([json.loads(row) for row in content])


def faults(table: pd.DataFrame, roles: Roles, evolutions: Evolutions) -> list[Fault | None]:
    """Return what is wrong with each row.

    Rows that can't be read are refused. Rows with an empty cell, and those that a warning would be
    about in other tables, such as values far from the pilot users', are quarantined.
    """
    found: list[Fault | None] = [None] * len(table)
    columns, whole = roles.columns(evolutions), []
    absent = {name: Cells(table[name]).absent(role) for name, role in columns.items()}
    for row in range(len(table)):
        empty = [name for name, mask in absent.items() if mask[row]]
        if {roles.user, roles.time} & {*empty}:
            found[row] = Fault("refused", f"The cell {' and '.join(empty)} is empty.")
        elif empty:
            found[row] = Fault("quarantined", f"The cell {' and '.join(empty)} is empty.")
        else:
            whole.append(row)
    if whole:
        # Each row is a participant of its own: their order and repetitions are another matter.
        alone = table.iloc[whole].assign(**{roles.user: [f"row {row}" for row in whole]})
        _halve(alone.reset_index(drop=True), np.array(whole), roles, evolutions, found)
    return found


def _halve(
    table: pd.DataFrame,
    rows: np.ndarray,
    roles: Roles,
    evolutions: Evolutions,
    found: list[Fault | None],
) -> None:
    """Find the rows that are at fault by halving the table."""
    fault = _fault(table, roles, evolutions)
    if fault is None:
        return
    if len(rows) == 1:
        found[rows[0]] = fault
        return
    half = len(rows) // 2
    for part in (slice(0, half), slice(half, None)):
        _halve(table.iloc[part].reset_index(drop=True), rows[part], roles, evolutions, found)


def _fault(table: pd.DataFrame, roles: Roles, evolutions: Evolutions) -> Fault | None:
    with ALONE, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            check_users(roles.cohort(table, evolutions), evolutions)
        except InputError as error:
            return Fault("refused", ROW.sub("", str(error))[:LONGEST])
    about = [str(one.message) for one in said if issubclass(one.category, DataWarning)]
    return Fault("quarantined", " ".join(about)[:LONGEST]) if about else None


def times(table: pd.DataFrame, roles: Roles) -> pd.Series:
    """Return the times of rows, which can be compared."""
    return Cells(table[roles.time]).times(roles.date_format)


def written_time(value: Any) -> str:
    """Return a time as text, the same for times that are equal."""
    if isinstance(value, pd.Timestamp):
        return (value.tz_convert("UTC") if value.tzinfo else value).isoformat()
    return value.isoformat() if isinstance(value, pd.Timedelta) else repr(float(value))


def label_of(cell: Hashable) -> str:
    """Return a participant's label as text."""
    return str(cell)[:LONGEST]


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
