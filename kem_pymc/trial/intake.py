"""Rows and participants that come and go: what becomes of each is written down."""

import json
import time as clock
from collections.abc import Iterable
from typing import Any, NamedTuple

import pandas as pd
from sqlalchemy import Connection, Table, func, select, update
from sqlalchemy.engine import RowMapping as Row
from sqlalchemy.exc import IntegrityError

from kem_pymc._system.display import plural
from kem_pymc._system.progress import waiting
from kem_pymc.errors import InputError
from kem_pymc.trial import rows, schema
from kem_pymc.trial.rows import Fault, Values
from kem_pymc.trial.store import Store, insert, log, now, participant_row

#: Largest number of rows of an upload, and number that is written at a time.
MOST_ROWS, PART = 100_000, 100

#: Status of rows of participants who aren't registered, and of rows that selections use.
UNKNOWN, USED = "unknown", ("accepted", "corrected", "duplicate")

_e = schema.entries.c

#: Entries that wait for a person.
WAITING = (
    select(_e.id.label("entry"), _e.label, _e.status, _e.reason, _e.content)
    .where(_e.status.in_((UNKNOWN, "quarantined")))
    .order_by(_e.id)
)


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


def register(store: Store, participant: str | int) -> None:
    """Register a participant; rows that waited for it are accepted."""
    label = rows.label_of(participant)
    with schema.writing(store.engine) as db:
        known = participant_row(db, label, lock=True)
        if known is not None:
            how = "was removed" if known["removed"] else "is registered already"
            raise InputError(f"Participant {label} {how}. Give another label.")
        _register(db, label)
        waiting = db.execute(
            select(schema.entries.c.id)
            .where(schema.entries.c.label == label, schema.entries.c.status == UNKNOWN)
            .order_by(schema.entries.c.id)
        ).scalars()
        _release(store, db, list(waiting))


def _register(db: Connection, label: str) -> int:
    found = insert(
        db,
        schema.participants,
        label=label,
        artefact=db.execute(select(schema.trial.c.artefact)).scalar_one(),
        registered=now(),
        lease=0.0,
    )
    log(db, label, "registered", "")
    return found


def add(
    store: Store,
    table: pd.DataFrame | Iterable[dict[str, Any]],
    key: str | None,
    register: bool,
) -> Receipt:
    """Add rows of participants; see :meth:`Trial.add`."""
    if not isinstance(table, pd.DataFrame):
        table = pd.DataFrame(list(table), dtype=object)  # of cells that may be anything
    if not 1 <= len(table) <= MOST_ROWS:
        raise InputError(
            f"The upload has {len(table)} rows. Give between 1 and {MOST_ROWS} at a time."
        )
    evolutions = store.evolutions
    rows.check_columns(table, store.roles, evolutions)
    table = table.rename(columns=str).reset_index(drop=True)
    content = rows.contents(table)
    own = rows.hashed("\n".join(content))
    key = own if key is None else rows.legible(key)
    # What is judged is what is kept.
    table = rows.read(content)
    judged = rows.judged(table, store.roles, evolutions)
    given, repeated = (store, table, content, judged, key, own, register), True
    with waiting("Adding rows") as report:
        while True:
            try:
                upload, done = _add_part(*given)
            except IntegrityError:  # another process registered a participant, or had the key
                upload, done = _add_part(*given)
            if done is None:
                with schema.reading(store.engine) as db:
                    return Receipt(upload, repeated, _entries(db, upload))
            repeated = False
            report(done, len(content))
            clock.sleep(schema.PAUSE)


@schema.lasting
def _add_part(
    store: Store,
    table: pd.DataFrame,
    content: list[str],
    judged: list[Fault | Values],
    key: str,
    own: str,
    register: bool,
) -> tuple[int, int | None]:
    """Write the next rows of an upload; return its number, and how many rows are written.

    In place of the latter it is None if all rows were written before. So an upload that was stopped
    is continued when it comes again, and no one waits for long for a large one.
    """
    with schema.writing(store.engine) as db:
        query = select(schema.uploads).where(schema.uploads.c.key == key).with_for_update()
        before = db.execute(query).mappings().first()
        if before is None:
            upload = insert(db, schema.uploads, key=key, hash=own, received=now())
        elif before["hash"] == own:
            upload = before["id"]
        else:
            raise InputError(f"The upload {key!r} came before with other rows. Give another key.")
        mine = schema.entries.c.upload == upload
        start = db.execute(select(func.count()).where(mine)).scalar_one()
        if start == len(content):
            return upload, None
        end = min(start + PART, len(content))
        for row in range(start, end):
            label = rows.label_of(table.at[row, store.roles.user])
            _enter(db, upload, row, label, content[row], judged[row], register)
        if end == len(content):
            log(db, None, "uploaded", f"Upload {upload}, {plural(end, 'row')}.")
        return upload, end


def _enter(
    db: Connection,
    upload: int,
    number: int,
    label: str,
    text: str,
    found: Fault | Values,
    register: bool,
) -> None:
    """Write an entry, and the observation that it is if nothing is wrong with it."""
    known = participant_row(db, label, lock=True)
    if known is not None and known["removed"]:
        found, text = Fault("refused", f"Participant {label} was removed."), ""
    elif isinstance(found, Values) and known is None and not register:
        found = Fault(UNKNOWN, f"Participant {label} isn't registered.")
    elif isinstance(found, Values) and known is not None:
        found = _other_times(db, known["id"], found) or found
    status, reason = found if isinstance(found, Fault) else ("accepted", "")
    entry = insert(
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
        participant = _register(db, label) if known is None else known["id"]
        _observe(db, entry, participant, text, found)


def _other_times(db: Connection, participant: int, values: Values) -> Fault | None:
    """Return what is wrong if a row's time can't be compared with others of a participant."""
    o = schema.observations.c
    query = select(o.time).where((o.participant == participant) & (o.state == "live"))
    one, kind = db.execute(query.limit(1)).scalar(), rows.kind_of_time(values.time)
    if one is None or kind == rows.kind_of_time(one):
        return None
    return Fault("quarantined", f"Its time is {kind}; others are {rows.kind_of_time(one)}.")


def _observe(db: Connection, entry: int, participant: int, text: str, values: Values) -> None:
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
    insert(
        db,
        schema.observations,
        participant=participant,
        entry=entry,
        time=values.time,
        content=json.dumps([values.x, values.y, values.given]),
        state="live",
    )


def release(store: Store, entries: Iterable[int]) -> None:
    """Accept quarantined entries as they are."""
    with schema.writing(store.engine) as db:
        _release(store, db, list(entries))


def refuse(store: Store, entries: Iterable[int]) -> None:
    """Refuse entries that wait for a person."""
    with schema.writing(store.engine) as db:
        for entry in entries:
            row = _waiting(db, entry)
            log(db, row["label"], "refused", f"Entry {entry}: {row['reason']}")
            _mark(db, entry, "refused", f"A person refused it. {row['reason']}")


def _waiting(db: Connection, entry: int) -> Row:
    """Return the row of an entry that waits for a person."""
    row = db.execute(select(schema.entries).where(schema.entries.c.id == entry)).mappings().first()
    if row is None or row["status"] not in (UNKNOWN, "quarantined"):
        raise InputError(f"Entry {entry} isn't in quarantine. Give one that is.")
    return row


def _release(store: Store, db: Connection, entries: list[int]) -> None:
    for entry in entries:
        row = _waiting(db, entry)
        known, text = participant_row(db, row["label"], lock=True), row["content"]
        if known is None or known["removed"]:
            raise InputError(
                f"Participant {row['label']} of entry {entry} isn't registered. Register it."
            )
        (values,) = rows.despite(rows.read([text]), store.roles, store.evolutions)
        other = _other_times(db, known["id"], values)
        if other is not None:
            raise InputError(f"Entry {entry} can't be used: {other.reason} Correct the row.")
        _mark(db, entry, "accepted", "")
        log(db, row["label"], "released", f"Entry {entry}: {row['reason']}")
        _observe(db, entry, known["id"], text, values)


def withdraw(store: Store, participant: str | int, time: Any) -> None:
    """Withdraw a participant's observation at a time."""
    (value,) = rows.times(pd.DataFrame({store.roles.time: [time]}), store.roles)
    o = schema.observations.c
    with schema.writing(store.engine) as db:
        known = store.known(db, participant, lock=True)
        here = (o.participant == known["id"]) & (o.time == rows.written_time(value))
        done = db.execute(
            update(schema.observations).where(here & (o.state == "live")).values(state="withdrawn")
        )
        if not done.rowcount:
            raise InputError(
                f"Participant {known['label']} has no observation at {time}. Give another time."
            )
        log(db, known["label"], "withdrawn", f"Observation at {time}.")


def remove(store: Store, participant: str | int) -> None:
    """Remove the data of a participant."""
    with schema.writing(store.engine) as db:
        known, p = store.known(db, participant, lock=True), schema.participants.c
        # Also from what refers to the participant: a prediction that is written meanwhile is either
        # found below, or finds that the participant was removed.
        db.execute(select(p.id).where(p.id == known["id"]).with_for_update())
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
            (schema.participants, {"removed": now()}),
        ]
        for table, values in gone:
            db.execute(update(table).where(table.c.label == known["label"]).values(values))
        log(db, known["label"], "removed", "Consent withdrawn.")
    store.forget()


def _entries(db: Connection, upload: int) -> pd.DataFrame:
    e = schema.entries.c
    query = select(e.id.label("entry"), e.status, e.reason).where(e.upload == upload)
    found = db.execute(query.order_by(e.number)).mappings().all()
    return pd.DataFrame([{**one} for one in found], columns=["entry", "status", "reason"])


def _mark(db: Connection, entry: int, status: str, reason: str) -> None:
    where = schema.entries.c.id == entry
    db.execute(update(schema.entries).where(where).values(status=status, reason=reason))
