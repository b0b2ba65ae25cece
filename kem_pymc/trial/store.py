"""The database of a trial: its rows, and what follows from them and is kept in memory."""

import json
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from sqlalchemy import Connection, Engine, Table, select
from sqlalchemy.engine import RowMapping as Row

from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.stored import from_dict
from kem_pymc.trial import rows, schema
from kem_pymc.trial.rows import Accrued, Roles, Values

#: Selections of n points are kept in memory while the sum of their (n + 30)^2 isn't larger. They
#: take about 400 bytes times that once they have predicted: half a gigabyte in all.
KEPT = 1_250_000

#: Packages on which selections depend.
PACKAGES = ("kem-pymc", "numpy", "numba", "scipy")


@dataclass(frozen=True)
class Observations:
    """A participant's observations: their numbers, and their points, in order of time."""

    observations: list[int]
    points: Accrued

    def until(self, n: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Return the first n inputs and targets, and what is known of them besides."""
        given = {name: values[:n] for name, values in self.points.given.items()}
        return self.points.x[:n], self.points.y[:n], given

    def hash(self, n: int) -> str:
        """Return the SHA-256 of the first n observations."""
        x, y, given = self.until(n)
        parts = (np.ascontiguousarray(part).tobytes() for part in (x, y, *given.values()))
        return sha256(b"".join(parts)).hexdigest()


class Store:
    """The database of a trial.

    Attributes
    ----------
    engine : Engine
    roles : Roles
        What the columns of uploads are.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._selectors: dict[int, KEMSelector] = {}
        self._loaded: dict[int, Selection] = {}
        self._keeping = threading.Lock()
        with schema.reading(engine) as db:
            self.roles = Roles(**json.loads(db.execute(select(schema.trial.c.roles)).scalar_one()))

    @property
    def artefact(self) -> int:
        """Number of the evolutions of participants who register now."""
        with schema.reading(self.engine) as db:
            return db.execute(select(schema.trial.c.artefact)).scalar_one()

    @property
    def evolutions(self) -> Evolutions:
        """The evolutions of participants who register now."""
        return self.selector(self.artefact).evolutions

    def selector(self, artefact: int) -> KEMSelector:
        """Return the selector of an artefact."""
        if artefact not in self._selectors:
            with schema.reading(self.engine) as db:
                where = schema.artefacts.c.id == artefact
                text = db.execute(select(schema.artefacts.c.content).where(where)).scalar()
            if text is None:
                raise InputError(f"There is no artefact {artefact}. Give the number of one.")
            self._selectors[artefact] = KEMSelector(evolutions_of(text))
        return self._selectors[artefact]

    def known(self, db: Connection, participant: str | int, lock: bool = False) -> Row:
        """Return the row of a participant who takes part."""
        label = rows.label_of(participant)
        known = participant_row(db, label, lock)
        if known is None or known["removed"]:
            how = "isn't registered" if known is None else "was removed"
            raise InputError(f"Participant {label} {how}. Give one who takes part.")
        return known

    def data(self, db: Connection, known: Row) -> Observations | None:
        """Return a participant's live observations; None without any."""
        o = schema.observations.c
        where = (o.participant == known["id"]) & (o.state == "live")
        return self.read(db, where, known["artefact"])

    def read(self, db: Connection, where: Any, artefact: int) -> Observations | None:
        """Return the observations that fulfil a condition, in order of time."""
        o = schema.observations.c
        query = select(o.id, o.time, o.content).where(where).order_by(o.id)
        found = db.execute(query).all()
        if not found:
            return None
        values = [Values(one.time, *json.loads(one.content)) for one in found]
        points = Accrued.of(values, self.roles, self.selector(artefact).evolutions)
        return Observations([found[place].id for place in points.order], points)

    def last(
        self, db: Connection, participant: int, artefact: int, before: int | None = None
    ) -> Row | None:
        """Return the row of a participant's last selection by an artefact, before a time step."""
        s = schema.selections.c
        mine = (s.participant == participant) & (s.artefact == artefact)
        query = select(schema.selections).where(mine)
        if before is not None:
            query = query.where(s.time_step < before)
        return db.execute(query.order_by(s.number.desc()).limit(1)).mappings().first()

    def selection(self, db: Connection, row: Row) -> Selection:
        """Return the selection of a row, as it was made.

        If it is in memory, the row's number is enough.
        """
        found = self._loaded.get(row["id"])
        if found is None:
            if "content" not in row:
                where = schema.selections.c.id == row["id"]
                row = db.execute(select(schema.selections).where(where)).mappings().one()
            x, y, given = self.used(db, row)
            data = json.loads(row["content"])
            selector = self.selector(row["artefact"])
            found = from_dict(data, selector, x, y, **given)
            self.keep(row["id"], found)
        return found

    def keep(self, number: int, selection: Selection) -> None:
        """Keep a selection in memory, and forget those that came first if there are too many."""
        with self._keeping:
            self._loaded[number] = selection
            sizes = {key: (len(one.y) + 30) ** 2 for key, one in self._loaded.items()}
            while sum(sizes.values()) > KEPT and len(sizes) > 1:
                first = next(iter(sizes))
                del sizes[first], self._loaded[first]

    def forget(self) -> None:
        """Forget the selections that are kept in memory."""
        with self._keeping:
            self._loaded.clear()

    def used(
        self, db: Connection, row: Row
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Return the data from which a selection was made, as they were then."""
        where = schema.observations.c.id.in_(json.loads(row["observations"]))
        data = self.read(db, where, row["artefact"])
        assert data is not None
        return data.until(row["points"])

    def table(self, query: Any) -> pd.DataFrame:
        """Return the result of a query."""
        with schema.reading(self.engine) as db:
            result = db.execute(query)
            return pd.DataFrame(result.all(), columns=list(result.keys()))


def participant_row(db: Connection, label: str, lock: bool = False) -> Row | None:
    """Return the row of a participant, which others can't change meanwhile if it is locked."""
    query = select(schema.participants).where(schema.participants.c.label == label)
    if lock:  # but not its key, so that others can write what refers to it, such as predictions
        query = query.with_for_update(key_share=True)
    return db.execute(query).mappings().first()


def insert(db: Connection, table: Table, **values: Any) -> int:
    """Insert a row, and return its number."""
    (number,) = db.execute(table.insert().values(**values)).inserted_primary_key or (0,)
    return int(number)


def insert_artefact(db: Connection, evolutions: Evolutions, about: str | None = None) -> int:
    """Insert evolutions, with what is known of how they were learned, and return their number."""
    return insert(
        db,
        schema.artefacts,
        hash=evolutions.content_hash,
        content=text_of(evolutions),
        versions=versions(),
        created=now(),
        about=about,
    )


def log(db: Connection, label: str | None, kind: str, text: str) -> None:
    """Write an event, of a participant if there is a label."""
    insert(db, schema.events, at=now(), label=label, kind=kind, text=text)


@cache
def versions() -> str:
    """Return the versions of packages on which selections depend, as JSON."""
    return json.dumps({name: version(name) for name in PACKAGES})


def now() -> str:
    """Return the present time."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def text_of(evolutions: Evolutions) -> str:
    """Return the content of the file that :meth:`Evolutions.save` writes."""
    with TemporaryDirectory() as folder:
        evolutions.save(Path(folder) / "evolutions.json")
        return (Path(folder) / "evolutions.json").read_text("utf-8")


def evolutions_of(text: str) -> Evolutions:
    """Return the evolutions of a file's content."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "evolutions.json").write_text(text, "utf-8")
        return Evolutions.load(Path(folder) / "evolutions.json")
