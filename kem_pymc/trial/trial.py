"""A running trial in a database."""

import json
import time as clock
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import logsumexp
from sqlalchemy import Connection, Engine, Table, inspect, select, update
from sqlalchemy.engine import RowMapping as Row
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.data.cells import days
from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.gp.prediction import Prediction
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import describe
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.stored import from_dict, to_dict
from kem_pymc.trial import monitor, rows, schema
from kem_pymc.trial.answers import answer, answers
from kem_pymc.trial.rows import Accrued, Fault, Roles, Values

#: Seconds after which another updater may take a participant on whom one stopped.
LEASE = 60.0

#: Number of participants whom an updater keeps others from at a time.
BLOCK = 10

#: Largest number of rows of an upload.
MOST_ROWS = 100_000

#: Largest number of selections that are kept in memory.
KEPT = 2000

#: Status of rows of participants who aren't registered.
UNKNOWN = "unknown"

#: Packages on which selections depend.
PACKAGES = ("kem-pymc", "numpy", "numba", "scipy")

#: What is recorded of predictions, with the probabilities of quantiles.
SERVED = {"low_95": 0.025, "median": 0.5, "high_95": 0.975}


class Receipt(NamedTuple):
    """What became of an upload.

    Attributes
    ----------
    upload : int
        Number of the upload.
    repeated : bool
        Whether it had come before, so that nothing was done.
    entries : DataFrame
        Columns ``entry`` (its number), ``status`` and ``reason``, one row for each uploaded row.
    """

    upload: int
    repeated: bool
    entries: pd.DataFrame

    def __str__(self) -> str:
        counts = self.entries["status"].value_counts()
        what = ", ".join(f"{count} {status}" for status, count in counts.items()) or "no rows"
        again = ", as when it came first" if self.repeated else ""
        return f"Upload {self.upload}: {what}{again}"


class Served(NamedTuple):
    """A prediction, the number of its selection, and what kind of answer that is."""

    prediction: Prediction
    selection: int
    answer: str
    severity: str


@dataclass(frozen=True)
class _Data:
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


class Trial:
    """A trial in a database: participants, their data, and their selections.

    Participants are pinned to the evolutions with which they were registered. All that is said of a
    participant follows from the database, so several processes may update one trial: each time
    step of a participant is selected by one of them.

    Create one with :meth:`create`, or open an existing one with :meth:`open`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._selectors: dict[int, KEMSelector] = {}
        self._loaded: dict[int, Selection] = {}
        with schema.reading(self._engine) as db:
            row = db.execute(select(schema.trial)).mappings().one()
        self.roles, self._artefact = Roles(**json.loads(row["roles"])), row["artefact"]

    @classmethod
    def create(
        cls,
        url: str,
        evolutions: Evolutions,
        *,
        user: str,
        time: str,
        batch: int | None = None,
        noise: str | None = None,
        size: str | None = None,
        date_format: str | None = None,
    ) -> Self:
        """Create the tables of a trial in a database.

        Parameters
        ----------
        url : str
            Database, as for SQLAlchemy, like ``sqlite:///trial.db``.
        evolutions : Evolutions
            Evolutions learned from pilot users. They are copied into the database.
        user, time, batch, noise, size, date_format
            Columns of uploads and what they are, as for :meth:`kem_pymc.Cohort.from_frame`. Rows
            also have the features and the target of the evolutions.

        Raises
        ------
        InputError
            If the database can't be used, or has a trial already.
        """
        roles = Roles(user, time, batch, noise, size, date_format)
        engine = schema.connected(url)
        try:
            if inspect(engine).has_table(schema.trial.name):
                raise InputError(
                    f"There is a trial in {url} already. Open it, or give another database."
                )
            with schema.writing(engine) as db:
                schema.tables.create_all(db)
                artefact = _insert(
                    db,
                    schema.artefacts,
                    hash=evolutions.content_hash,
                    content=_text_of(evolutions),
                    versions=_versions(),
                    created=_now(),
                )
                _insert(
                    db,
                    schema.trial,
                    version=schema.VERSION,
                    roles=json.dumps(asdict(roles)),
                    artefact=artefact,
                )
                _log(db, None, "created", f"Evolutions {evolutions.content_hash[:12]}.")
        except SQLAlchemyError as error:
            raise _unusable(url, error) from error
        finally:
            engine.dispose()
        return cls(engine)

    @classmethod
    def open(cls, url: str) -> Self:
        """Open the trial in a database.

        Raises
        ------
        InputError
            If the database can't be used, has no trial, or one that a newer version made.
        """
        engine = schema.connected(url)
        file = engine.url.database if engine.dialect.name == "sqlite" else None
        try:
            # To look into a file that doesn't exist would create it.
            there = file is None or Path(file).is_file()
            if not (there and inspect(engine).has_table(schema.trial.name)):
                raise InputError(
                    f"There is no trial in {url}. Create one first, or give another database."
                )
            with engine.connect() as db:
                version = db.execute(select(schema.trial.c.version)).scalar_one()
        except SQLAlchemyError as error:
            raise _unusable(url, error) from error
        finally:
            engine.dispose()
        if version > schema.VERSION:
            raise InputError(
                f"The trial in {url} was made by a newer version of kem_pymc. Update kem_pymc."
            )
        return cls(engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the database."""
        self._engine.dispose()

    def _selector(self, artefact: int) -> KEMSelector:
        """Return the selector of an artefact."""
        if artefact not in self._selectors:
            with schema.reading(self._engine) as db:
                where = schema.artefacts.c.id == artefact
                text = db.execute(select(schema.artefacts.c.content).where(where)).scalar_one()
            self._selectors[artefact] = KEMSelector(_evolutions(text))
        return self._selectors[artefact]

    @property
    def evolutions(self) -> Evolutions:
        """The evolutions of participants who register now."""
        return self._selector(self._artefact).evolutions

    # Participants and their data.

    def register(self, participant: str | int) -> None:
        """Register a participant; rows that waited for it are accepted.

        Raises
        ------
        InputError
            If the participant is registered, or was removed.
        """
        label = rows.label_of(participant)
        with schema.writing(self._engine) as db:
            known = _participant(db, label, lock=True)
            if known is not None:
                how = "was removed" if known["removed"] else "is registered already"
                raise InputError(f"Participant {label} {how}. Give another label.")
            self._register(db, label)
            waiting = db.execute(
                select(schema.entries.c.id)
                .where(schema.entries.c.label == label, schema.entries.c.status == UNKNOWN)
                .order_by(schema.entries.c.id)
            ).scalars()
            self._release(db, list(waiting))

    def _register(self, db: Connection, label: str) -> int:
        found = _insert(
            db,
            schema.participants,
            label=label,
            artefact=self._artefact,
            registered=_now(),
            lease=0.0,
        )
        _log(db, label, "registered", "")
        return found

    def participants(self) -> pd.DataFrame:
        """Return all participants: label, when registered, and whether removed."""
        p = schema.participants.c
        return self._table(select(p.label, p.registered, p.removed).order_by(p.id))

    def add(
        self,
        table: pd.DataFrame | Iterable[dict[str, Any]],
        *,
        key: str | None = None,
        register: bool = False,
    ) -> Receipt:
        """Add rows of participants, and say of each what became of it.

        ==============  ============================================================================
        status          meaning
        ==============  ============================================================================
        accepted        a new observation, also if it is later than others that came before it
        corrected       it takes the place of the participant's observation at the same time
        duplicate       that observation has the same cells: nothing changes
        quarantined     an empty cell, or values that are far from the pilot users': see `release`
        unknown         its participant isn't registered: see `register`
        refused         it can't be read, or its participant was removed
        ==============  ============================================================================

        Parameters
        ----------
        table : DataFrame or iterable of mappings
            Rows, with the columns of the trial; other columns are kept, and not used.
        key : str, optional
            Name of this upload: another one with the same name does nothing, and is an error if its
            rows are others. By default the hash of the rows.
        register : bool
            Whether to register participants who aren't.

        Returns
        -------
        Receipt

        Raises
        ------
        InputError
            If columns are missing, there are no rows or too many, or the key is that of other rows.
        """
        if not isinstance(table, pd.DataFrame):
            table = pd.DataFrame(list(table), dtype=object)  # of cells that may be anything
        if not 1 <= len(table) <= MOST_ROWS:
            raise InputError(
                f"The upload has {len(table)} rows. Give between 1 and {MOST_ROWS} at a time."
            )
        evolutions = self.evolutions
        rows.check_columns(table, self.roles, evolutions)
        table = table.rename(columns=str).reset_index(drop=True)
        content = rows.contents(table)
        own = rows.hashed("\n".join(content))
        key = own if key is None else rows.legible(key)
        # What is judged is what is kept.
        table = rows.read(content)
        judged = rows.judged(table, self.roles, evolutions)
        try:
            return self._add(table, content, judged, key, own, register)
        except IntegrityError:  # another process registered a participant, or had the key, first
            return self._add(table, content, judged, key, own, register)

    def _add(
        self,
        table: pd.DataFrame,
        content: list[str],
        judged: list[Fault | Values],
        key: str,
        own: str,
        register: bool,
    ) -> Receipt:
        with schema.writing(self._engine) as db:
            before = db.execute(select(schema.uploads).where(schema.uploads.c.key == key))
            if (one := before.mappings().first()) is not None:
                if one["hash"] != own:
                    raise InputError(
                        f"The upload {key!r} came before with other rows. Give another key."
                    )
                return Receipt(one["id"], True, self._entries(db, one["id"]))
            upload = _insert(db, schema.uploads, key=key, hash=own, received=_now())
            for row, (text, found) in enumerate(zip(content, judged, strict=True)):
                label = rows.label_of(table.at[row, self.roles.user])
                self._enter(db, upload, row, label, text, found, register)
            _log(db, None, "uploaded", f"Upload {upload}, {len(content)} rows.")
            return Receipt(upload, False, self._entries(db, upload))

    def _enter(
        self,
        db: Connection,
        upload: int,
        number: int,
        label: str,
        text: str,
        found: Fault | Values,
        register: bool,
    ) -> None:
        """Write an entry, and the observation that it is if nothing is wrong with it."""
        known = _participant(db, label, lock=True)
        if known is not None and known["removed"]:
            found, text = Fault("refused", f"Participant {label} was removed."), ""
        elif isinstance(found, Values) and known is None and not register:
            found = Fault(UNKNOWN, f"Participant {label} isn't registered.")
        elif isinstance(found, Values) and known is not None:
            found = self._other_times(db, known["id"], found) or found
        status, reason = found if isinstance(found, Fault) else ("accepted", "")
        entry = _insert(
            db,
            schema.entries,
            upload=upload,
            number=number,
            label=label,
            content=text or None,
            hash=rows.hashed(text),
            status=status,
            reason=reason,
        )
        if isinstance(found, Values):
            participant = self._register(db, label) if known is None else known["id"]
            self._observe(db, entry, participant, text, found)

    def _other_times(self, db: Connection, participant: int, values: Values) -> Fault | None:
        """Return what is wrong if a row's time can't be compared with others of a participant."""
        o = schema.observations.c
        query = select(o.time).where((o.participant == participant) & (o.state == "live"))
        one, kind = db.execute(query.limit(1)).scalar(), rows.kind_of_time(values.time)
        if one is None or kind == rows.kind_of_time(one):
            return None
        return Fault("quarantined", f"Its time is {kind}; others are {rows.kind_of_time(one)}.")

    def _observe(
        self, db: Connection, entry: int, participant: int, text: str, values: Values
    ) -> None:
        """Make an accepted entry an observation, in place of one at its time."""
        o = schema.observations.c
        here = (o.participant == participant) & (o.time == values.time) & (o.state == "live")
        live = db.execute(
            select(o.id, schema.entries.c.content)
            .join(schema.entries, o.entry == schema.entries.c.id)
            .where(here)
        ).first()
        if live is not None and live.content == text:
            _mark(db, entry, "duplicate", "")
            return
        if live is not None:
            db.execute(update(schema.observations).where(here).values(state="superseded"))
            _mark(db, entry, "corrected", f"It takes the place of observation {live.id}.")
        _insert(
            db,
            schema.observations,
            participant=participant,
            entry=entry,
            time=values.time,
            content=json.dumps([values.x, values.y, values.given]),
            state="live",
        )

    def release(self, entries: Iterable[int]) -> None:
        """Accept quarantined entries as they are, after a person has looked at them.

        Raises
        ------
        InputError
            If an entry isn't in quarantine, lacks a cell, or its participant isn't registered.
        """
        with schema.writing(self._engine) as db:
            self._release(db, list(entries))

    def _release(self, db: Connection, entries: list[int]) -> None:
        e = schema.entries.c
        for entry in entries:
            row = db.execute(select(schema.entries).where(e.id == entry)).mappings().first()
            if row is None or row["status"] not in (UNKNOWN, "quarantined"):
                raise InputError(f"Entry {entry} isn't in quarantine. Give one that is.")
            known, text = _participant(db, row["label"], lock=True), row["content"]
            if known is None or known["removed"]:
                raise InputError(
                    f"Participant {row['label']} of entry {entry} isn't registered. Register it."
                )
            (values,) = rows.despite(rows.read([text]), self.roles, self.evolutions)
            other = self._other_times(db, known["id"], values)
            if other is not None:
                raise InputError(f"Entry {entry} can't be used: {other.reason} Correct the row.")
            _mark(db, entry, "accepted", "")
            _log(db, row["label"], "released", f"Entry {entry}: {row['reason']}")
            self._observe(db, entry, known["id"], text, values)

    def quarantined(self) -> pd.DataFrame:
        """Return the entries that wait for a person: in quarantine, or of unknown participants."""
        e = schema.entries.c
        return self._table(
            select(e.id.label("entry"), e.label, e.status, e.reason, e.content)
            .where(e.status.in_((UNKNOWN, "quarantined")))
            .order_by(e.id)
        )

    def withdraw(self, participant: str | int, time: Any) -> None:
        """Withdraw a participant's observation at a time. It stays readable, and isn't used.

        Raises
        ------
        InputError
            If there is no such participant or observation.
        """
        (value,) = rows.times(pd.DataFrame({self.roles.time: [time]}), self.roles)
        o = schema.observations.c
        with schema.writing(self._engine) as db:
            known = self._known(db, participant, lock=True)
            here = (o.participant == known["id"]) & (o.time == rows.written_time(value))
            done = db.execute(
                update(schema.observations)
                .where(here & (o.state == "live"))
                .values(state="withdrawn")
            )
            if not done.rowcount:
                raise InputError(
                    f"Participant {known['label']} has no observation at {time}. Give another time."
                )
            _log(db, known["label"], "withdrawn", f"Observation at {time}.")

    def remove(self, participant: str | int) -> None:
        """Remove a participant who withdraws consent: all data go, hashes and the label stay.

        Raises
        ------
        InputError
            If there is no such participant.
        """
        with schema.writing(self._engine) as db:
            known = self._known(db, participant, lock=True)
            nothing = dict.fromkeys(("content", "observations", "composition", "outcome"))
            gone: list[tuple[Table, dict[str, Any]]] = [
                (schema.selections, {**nothing, "reason": ""}),
                (schema.predictions, dict.fromkeys(("inputs", "served"))),
                (schema.observations, {"state": "removed", "time": "", "content": None}),
            ]
            for table, values in gone:
                db.execute(update(table).where(table.c.participant == known["id"]).values(values))
            # Reasons quote cells.
            gone = [
                (schema.entries, {"content": None, "reason": ""}),
                (schema.events, {"text": ""}),
                (schema.participants, {"removed": _now()}),
            ]
            for table, values in gone:
                db.execute(update(table).where(table.c.label == known["label"]).values(values))
            _log(db, known["label"], "removed", "Consent withdrawn.")
        self._loaded.clear()

    def _known(self, db: Connection, participant: str | int, lock: bool = False) -> Row:
        """Return the row of a participant who takes part."""
        label = rows.label_of(participant)
        known = _participant(db, label, lock)
        if known is None or known["removed"]:
            how = "isn't registered" if known is None else "was removed"
            raise InputError(f"Participant {label} {how}. Give one who takes part.")
        return known

    # Selections.

    @one_blas_thread()
    def update(
        self,
        participants: Iterable[str | int] | None = None,
        time_budget: float | None = None,
    ) -> pd.DataFrame:
        """Select for every time step that has none yet, in order of participants and time steps.

        A time step that is new is selected from the data up to it. Where data of time steps that
        have selections changed, the last time step is selected again from all that is known now;
        earlier selections stay as they were made. Each selection is written as soon as it is made,
        so that an update may be stopped at any time, and another one may run beside it.

        Parameters
        ----------
        participants : iterable of labels, optional
            By default all who take part.
        time_budget : float, optional
            Seconds after which no other selection begins.

        Returns
        -------
        DataFrame
            The selections that were made: ``participant``, ``time_step``, ``points``,
            ``composition``, ``answer``, ``severity``, ``reason`` and ``seconds``.

        Raises
        ------
        InputError
            If a participant doesn't take part.
        """
        began, made = clock.monotonic(), []
        with schema.reading(self._engine) as db:
            if participants is None:
                p = schema.participants.c
                every = db.execute(select(p.label).where(p.removed.is_(None)).order_by(p.id))
                labels = list(every.scalars())
            else:
                labels = [self._known(db, one)["label"] for one in participants]
        for start in range(0, len(labels), BLOCK):
            with self._leased(labels[start : start + BLOCK]) as ours:
                for label in ours:
                    while time_budget is None or clock.monotonic() - began < time_budget:
                        row = self._selected(label)
                        if row is None:
                            break
                        made.append(row)
                        if row["answer"] == "none":
                            break
        columns = ["participant", "time_step", "points", "composition", "answer"]
        return pd.DataFrame(made, columns=[*columns, "severity", "reason", "seconds"])

    @contextmanager
    def _leased(self, labels: list[str]) -> Iterator[list[str]]:
        """Keep other updaters from those of the participants that none has; give their labels."""
        p = schema.participants.c
        until = clock.time() + LEASE
        free = p.label.in_(labels) & p.removed.is_(None) & (p.lease < clock.time())
        with schema.writing(self._engine) as db:
            ours = db.execute(select(p.label).where(free).order_by(p.id).with_for_update())
            taken = list(ours.scalars())
            mine = p.label.in_(taken)
            db.execute(update(schema.participants).where(mine).values(lease=until))
        try:
            yield taken
        finally:
            with schema.writing(self._engine) as db:
                own = mine & (p.lease == until)
                db.execute(update(schema.participants).where(own).values(lease=0.0))

    def _selected(self, label: str) -> dict[str, Any] | None:
        """Select for a participant's next time step; a failure is recorded, and no one else's."""
        try:
            return self._select(label)
        except SQLAlchemyError:
            raise  # the database is gone for all
        except Exception as error:
            reason = rows.legible(f"{type(error).__name__}: {error}")
            with schema.writing(self._engine) as db:
                _log(db, label, "failed", reason)
            return {
                **{"participant": label, "time_step": None, "points": None, "composition": None},
                **{"answer": "none", "severity": "red", "reason": reason, "seconds": 0.0},
            }

    def _select(self, label: str) -> dict[str, Any] | None:
        """Select for a participant's next time step; None if there is none to do."""
        with schema.reading(self._engine) as db:
            known = _participant(db, label)
            if known is None:
                return None
            data = self._data(db, known)
            last = self._last(db, known["id"])
        if data is None:
            return None
        final = len(data.points.ends) - 1
        step = 0 if last is None else min(last["time_step"] + 1, final)
        n = int(data.points.ends[step])
        if last is not None and last["time_step"] >= final and last["data_hash"] == data.hash(n):
            return None
        selector = self._selector(known["artefact"])
        x, y, given = data.until(n)
        with schema.reading(self._engine) as db:
            before = self._last(db, known["id"], step)
            previous = None if before is None else self._selection(db, before)
        began = clock.perf_counter()
        found = answer(selector, x, y, previous, given)
        seconds = clock.perf_counter() - began
        number = 0 if last is None else last["number"] + 1
        observations, outcome = data.observations[:n], None
        if before is not None and previous is not None:
            used = json.loads(before["observations"])
            known_by_then = (previous, used, data.observations, data.points)
            outcome = monitor.outcome(known["id"], step, *known_by_then)
        content = json.dumps(to_dict(found.selection))
        row = {
            "time_step": step,
            "points": n,
            "composition": found.selection.label(),
            "answer": found.name,
            "severity": found.severity,
            "reason": rows.legible(found.reason),
            "seconds": seconds,
        }
        try:
            with schema.writing(self._engine) as db:
                self._known(db, label, lock=True)  # who may have been removed meanwhile
                _insert(
                    db,
                    schema.selections,
                    participant=known["id"],
                    artefact=known["artefact"],
                    number=number,
                    observations=json.dumps(observations),
                    data_hash=data.hash(n),
                    previous=None if before is None else before["id"],
                    log_evidence=float(
                        logsumexp([one.score for one in found.selection.considered])
                    ),
                    content=content,
                    outcome=outcome,
                    hash=_fingerprint(to_dict(found.selection)),
                    versions=_versions(),
                    created=_now(),
                    **row,
                )
        except (IntegrityError, InputError):
            return None  # another updater came first, or the participant was removed
        return {"participant": label, **row}

    def _data(self, db: Connection, known: Row) -> _Data | None:
        """Return a participant's live observations; None without any."""
        o = schema.observations.c
        where = (o.participant == known["id"]) & (o.state == "live")
        return self._read(db, where, known["artefact"])

    def _read(self, db: Connection, where: Any, artefact: int) -> _Data | None:
        """Return the observations that fulfil a condition, in order of time."""
        o = schema.observations.c
        query = select(o.id, o.time, o.content).where(where).order_by(o.id)
        found = db.execute(query).all()
        if not found:
            return None
        values = [Values(one.time, *json.loads(one.content)) for one in found]
        points = Accrued.of(values, self.roles, self._selector(artefact).evolutions)
        return _Data([found[place].id for place in points.order], points)

    def _last(self, db: Connection, participant: int, before: int | None = None) -> Row | None:
        """Return the row of a participant's last selection, of one before a time step."""
        s = schema.selections.c
        query = select(schema.selections).where(s.participant == participant)
        if before is not None:
            query = query.where(s.time_step < before)
        return db.execute(query.order_by(s.number.desc()).limit(1)).mappings().first()

    def _selection(self, db: Connection, row: Row) -> Selection:
        """Return the selection of a row, as it was made."""
        if row["id"] not in self._loaded:
            if len(self._loaded) >= KEPT:
                self._loaded.pop(next(iter(self._loaded)), None)  # by another thread, perhaps
            x, y, given = self._used(db, row)
            data = json.loads(row["content"])
            self._loaded[row["id"]] = from_dict(
                data, self._selector(row["artefact"]), x, y, **given
            )
        return self._loaded[row["id"]]

    def _used(
        self, db: Connection, row: Row
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Return the data from which a selection was made, as they were then."""
        where = schema.observations.c.id.in_(json.loads(row["observations"]))
        data = self._read(db, where, row["artefact"])
        assert data is not None
        return data.until(row["points"])

    # Answers.

    def predict(
        self, participant: str | int, at: npt.ArrayLike | pd.DataFrame, *, calibrated: bool = True
    ) -> Served:
        """Predict new observations of a participant, by the last selection; nothing is fitted.

        Parameters
        ----------
        participant : label
        at : array_like, shape (m, D), or DataFrame
            Inputs in the unit of the features, in which dates are days since the participant's
            first row; or rows with the columns of uploads, of which targets aren't needed.
        calibrated : bool
            Whether quantiles are calibrated, if the evolutions are.

        Returns
        -------
        Served

        Raises
        ------
        InputError
            If the participant doesn't take part or has no selection yet, or inputs are invalid.
        """
        with schema.reading(self._engine) as db:
            known = self._known(db, participant)
            row = self._last(db, known["id"])
            if row is None:
                raise InputError(
                    f"Participant {known['label']} has no selection yet. Add rows, and update."
                )
            selection = self._selection(db, row)
            x = self._inputs(db, known, at) if isinstance(at, pd.DataFrame) else at
        sure = calibrated and selection.calibration is not None
        prediction = selection.predict(x, include_noise=True, calibrated=sure)
        served = {name: prediction.quantile(p).tolist() for name, p in SERVED.items()}
        with schema.writing(self._engine) as db:
            _insert(
                db,
                schema.predictions,
                participant=known["id"],
                selection=row["id"],
                inputs=json.dumps(np.asarray(x, dtype=float).tolist()),
                served=json.dumps({"mean": prediction.mean.tolist(), **served}),
                created=_now(),
            )
        return Served(prediction, row["id"], row["answer"], row["severity"])

    def _inputs(self, db: Connection, known: Row, at: pd.DataFrame) -> np.ndarray:
        """Return the inputs (m, D) of rows: dates count from the participant's first row."""
        evolutions, o = self._selector(known["artefact"]).evolutions, schema.observations.c
        live = (o.participant == known["id"]) & (o.state == "live")
        coming = rows.read(rows.contents(at.rename(columns=str).assign(**{self.roles.user: 0})))
        if evolutions.target not in coming:
            query = select(o.content).where(live).limit(1)
            coming[evolutions.target] = json.loads(db.execute(query).scalar_one())[1]
        for name in (self.roles.noise, self.roles.size):
            if name is not None:
                coming[name] = 1
        rows.check_columns(coming, self.roles, evolutions)
        values = rows.despite(coming, self.roles, evolutions)
        x = np.array([one.x for one in values])
        if self.roles.time in evolutions.features:
            every = rows.stamps_of(list(db.execute(select(o.time).where(live)).scalars()))
            stamps = pd.concat(
                [every.sort_values().iloc[:1], rows.stamps_of([v.time for v in values])]
            )
            since = days(stamps, np.zeros(len(stamps), dtype=int))
            x[:, evolutions.features.index(self.roles.time)] = since[1:]
        return x

    def selections(self, participant: str | int | None = None) -> pd.DataFrame:
        """Return the selections of a participant, or of all, in order."""
        s, p = schema.selections.c, schema.participants.c
        query = (
            select(
                *(s.id.label("selection"), p.label.label("participant"), s.time_step, s.points),
                *(s.composition, s.log_evidence, s.answer, s.severity, s.reason, s.seconds),
                s.created,
            )
            .join(schema.participants, s.participant == p.id)
            .order_by(s.id)
        )
        if participant is not None:
            query = query.where(p.label == rows.label_of(participant))
        return self._table(query)

    def selection(self, participant: str | int) -> Selection | None:
        """Return a participant's last selection; None if there is none.

        Raises
        ------
        InputError
            If there never was such a participant.
        """
        label = rows.label_of(participant)
        with schema.reading(self._engine) as db:
            known = _participant(db, label)
            if known is None:
                raise InputError(f"Participant {label} isn't registered. Give one who is or was.")
            row = None if known["removed"] else self._last(db, known["id"])
            return None if row is None else self._selection(db, row)

    def history(self, participant: str | int) -> pd.DataFrame:
        """Return what happened to a participant, in sentences, in the order of time.

        Raises
        ------
        InputError
            If there never was such a participant.
        """
        label = rows.label_of(participant)
        e, u, v = schema.entries.c, schema.uploads.c, schema.events.c
        with schema.reading(self._engine) as db:
            if _participant(db, label) is None:
                raise InputError(f"Participant {label} isn't registered. Give one who is or was.")
            lines = [
                (one.at, f"{one.kind.capitalize()}. {one.text}".strip())
                for one in db.execute(select(v.at, v.kind, v.text).where(v.label == label))
            ]
            query = select(u.received, u.id, e.number, e.status, e.reason).where(e.label == label)
            found = db.execute(query.join(schema.uploads, e.upload == u.id).order_by(e.id)).all()
        alike = groupby(found, lambda one: (one.received, one.id, one.status, one.reason))
        for (received, upload, status, reason), group in alike:
            places = [one.number + 1 for one in group]
            said = f"Row {places[0]} of upload {upload} is {status}. {reason}"
            if len(places) > 1:
                said = f"{len(places)} rows of upload {upload}, from row {places[0]}, are {status}."
            lines.append((received, said.strip()))
        names = self.evolutions.features
        for one in self.selections(label).itertuples():
            kernel = "a kernel that is gone"
            if one.composition is not None:
                kernel = describe(Composition.parse(one.composition, len(names)), names)
            said = f"Selection {one.selection} from {one.points} points: {kernel} ({one.severity})."
            lines.append((one.created, f"{said} {one.reason}".strip()))
        lines.sort(key=lambda line: line[0])
        return pd.DataFrame(lines, columns=["at", "what"])

    @one_blas_thread()
    def replay(self) -> str | None:
        """Recompute every selection from what was known when it was made.

        Returns
        -------
        str or None
            The first difference, beyond 1e-10 in a number; None if there is none. Selections of
            participants who were removed can't be recomputed.
        """
        with schema.reading(self._engine) as db:
            s = schema.selections.c
            query = select(schema.selections).where(s.content.is_not(None)).order_by(s.id)
            for row in db.execute(query).mappings().all():
                x, y, given = self._used(db, row)
                previous = None
                if row["previous"] is not None:
                    before = select(schema.selections).where(s.id == row["previous"])
                    previous = self._selection(db, db.execute(before).mappings().one())
                ways = answers(self._selector(row["artefact"]), x, y, previous, given)
                stored = json.loads(row["content"])
                where = f"selection {row['id']}, time step {row['time_step']}"
                if _fingerprint(stored) != row["hash"]:
                    return f"The record of {where} was changed after it was written."
                found = json.loads(json.dumps(to_dict(ways[row["answer"]]())))
                different = _difference(stored, found)
                if different:
                    return f"In {where}, {different}."
        return None

    def monitor(self) -> monitor.Monitoring:
        """Compare how well participants are predicted with what pilot users promised.

        It is about those with the evolutions of participants who register now.

        Returns
        -------
        Monitoring
            Tables, alarms and unusual participants; printed, it is sentences.
        """
        with schema.reading(self._engine) as db:
            found = monitor.outcomes(db, self._artefact)
            same = monitor.same_answers(db, self._artefact)
        now, promise = datetime.fromisoformat(_now()), self.evolutions.held_out
        return monitor.monitored(found, promise, self.quarantined(), now, same)

    # Tables of the database.

    def _entries(self, db: Connection, upload: int) -> pd.DataFrame:
        e = schema.entries.c
        query = select(e.id.label("entry"), e.status, e.reason).where(e.upload == upload)
        found = db.execute(query.order_by(e.number)).mappings().all()
        return pd.DataFrame([{**one} for one in found], columns=["entry", "status", "reason"])

    def _table(self, query: Any) -> pd.DataFrame:
        """Return the result of a query."""
        with schema.reading(self._engine) as db:
            result = db.execute(query)
            return pd.DataFrame(result.all(), columns=list(result.keys()))


def _insert(db: Connection, table: Table, **values: Any) -> int:
    """Insert a row, and return its number."""
    (number,) = db.execute(table.insert().values(**values)).inserted_primary_key or (0,)
    return int(number)


def _log(db: Connection, label: str | None, kind: str, text: str) -> None:
    _insert(db, schema.events, at=_now(), label=label, kind=kind, text=text)


def _mark(db: Connection, entry: int, status: str, reason: str) -> None:
    where = schema.entries.c.id == entry
    db.execute(update(schema.entries).where(where).values(status=status, reason=reason))


def _participant(db: Connection, label: str, lock: bool = False) -> Row | None:
    """Return the row of a participant, which others can't change meanwhile if it is locked."""
    query = select(schema.participants).where(schema.participants.c.label == label)
    return db.execute(query.with_for_update() if lock else query).mappings().first()


@cache
def _versions() -> str:
    return json.dumps({name: version(name) for name in PACKAGES})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _text_of(evolutions: Evolutions) -> str:
    """Return the content of the file that :meth:`Evolutions.save` writes."""
    with TemporaryDirectory() as folder:
        evolutions.save(Path(folder) / "evolutions.json")
        return (Path(folder) / "evolutions.json").read_text("utf-8")


def _evolutions(text: str) -> Evolutions:
    with TemporaryDirectory() as folder:
        (Path(folder) / "evolutions.json").write_text(text, "utf-8")
        return Evolutions.load(Path(folder) / "evolutions.json")


def _unusable(url: str, error: SQLAlchemyError) -> InputError:
    said = str(getattr(error, "orig", None) or error).splitlines()[0]
    return InputError(
        f"The database {url} can't be used ({said}). Give one that can be written to."
    )


def _fingerprint(data: dict[str, Any]) -> str:
    """Return the hash of a selection's record, but for run times."""
    return rows.hashed(json.dumps(_timeless(data), sort_keys=True))


def _timeless(data: dict[str, Any]) -> dict[str, Any]:
    unshared = data["unshared"]
    rest = {name: value for name, value in data.items() if name != "run_time"}
    return rest | {"unshared": None if unshared is None else _timeless(unshared)}


def _difference(then: Any, now: Any, place: str = "") -> str:
    """Return the first difference of plain data, in words; nothing if there is none."""
    if isinstance(then, dict) and isinstance(now, dict) and then.keys() == now.keys():
        pairs = [(f"{place}.{name}", then[name], now[name]) for name in then if name != "run_time"]
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        pairs = [(f"{place}[{i}]", *both) for i, both in enumerate(zip(then, now, strict=True))]
    elif isinstance(then, float) and isinstance(now, float):
        close = then == now or abs(then - now) <= 1e-10 * max(abs(then), 1.0)
        return "" if close else f"{place[1:]} was {then!r} and is now {now!r}"
    else:
        return "" if then == now else f"{place[1:]} was {then!r} and is now {now!r}"
    return next(filter(None, (_difference(a, b, at) for at, a, b in pairs)), "")
