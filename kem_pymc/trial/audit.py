"""What happened in a trial, and whether it can be computed again."""

import json
from itertools import groupby
from typing import Any

import pandas as pd
from sqlalchemy import Connection, select
from sqlalchemy.engine import RowMapping as Row

from kem_pymc._system.display import plural
from kem_pymc._system.progress import waiting
from kem_pymc._system.resources import one_blas_thread
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import describe
from kem_pymc.selection.stored import to_dict
from kem_pymc.trial import rows, schema
from kem_pymc.trial.answers import answers
from kem_pymc.trial.store import Store, participant_row


def selections(store: Store, participant: str | int | None = None) -> pd.DataFrame:
    """Return the selections of a participant, or of all, in order."""
    s, p = schema.selections.c, schema.participants.c
    query = (
        select(
            *(s.id.label("selection"), p.label.label("participant"), s.time_step, s.points),
            *(s.composition, s.log_evidence, s.answer, s.severity, s.reason, s.seconds),
            s.artefact,
            s.created,
        )
        .join(schema.participants, s.participant == p.id)
        .order_by(s.id)
    )
    if participant is not None:
        query = query.where(p.label == rows.label_of(participant))
    return store.table(query)


def history(store: Store, participant: str | int) -> pd.DataFrame:
    """Return what happened to a participant, in sentences; see :meth:`Trial.history`."""
    label = rows.label_of(participant)
    e, u, v = schema.entries.c, schema.uploads.c, schema.events.c
    with schema.reading(store.engine) as db:
        if participant_row(db, label) is None:
            raise InputError(f"Participant {label} isn't registered. Give one who is or was.")
        lines = [
            (one.at, f"{one.kind.capitalize()}. {one.text}".strip(), None)
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
        lines.append((received, said.strip(), None))
    names = store.evolutions.features
    made = selections(store, label)
    several = made["artefact"].nunique() > 1
    for one in made.itertuples():
        by = f" by artefact {one.artefact}" if several else ""
        kernel = "a kernel that is gone"
        if one.composition is not None:
            kernel = describe(Composition.parse(one.composition, len(names)), names)
        said = f"Selection {one.selection}{by} from {plural(one.points, 'point')}: {kernel}"
        said += f" ({one.severity})."
        lines.append((one.created, f"{said} {one.reason}".strip(), one.selection))
    lines.sort(key=lambda line: line[0])
    return pd.DataFrame(lines, columns=["at", "what", "selection"]).astype({"selection": "Int64"})


@one_blas_thread()
def replay(store: Store) -> str | None:
    """Recompute every selection, and return the first difference; see :meth:`Trial.replay`."""
    store.forget()  # what counts is what is in the database
    s = schema.selections.c
    with schema.reading(store.engine) as db, waiting("Selecting again") as report:
        numbers = db.scalars(select(s.id).where(s.content.is_not(None)).order_by(s.id)).all()
        for place, number in enumerate(numbers):
            difference = _replayed(store, db, number)
            if difference:
                return difference
            report(place + 1, len(numbers))
    return None


def _replayed(store: Store, db: Connection, number: int) -> str | None:
    """Return what is different if a selection is made again."""

    def row_of(number: int) -> Row:
        query = select(schema.selections).where(schema.selections.c.id == number)
        return db.execute(query).mappings().one()

    row = row_of(number)
    x, y, given = store.used(db, row)
    before = row["previous"]
    previous = None if before is None else store.selection(db, row_of(before))
    ways = answers(store.selector(row["artefact"]), x, y, previous, given)
    stored = json.loads(row["content"])
    where = f"selection {number}, time step {row['time_step']}"
    if fingerprint(stored) != row["hash"]:
        return f"The record of {where} was changed after it was written."
    found = json.loads(json.dumps(to_dict(ways[row["answer"]]())))
    different = _difference(stored, found)
    return f"In {where}, {different}." if different else None


def fingerprint(data: dict[str, Any]) -> str:
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
