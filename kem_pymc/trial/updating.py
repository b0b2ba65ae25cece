"""Selections for time steps that have none yet, by any number of updaters at a time."""

import json
import time as clock
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import pandas as pd
from scipy.special import logsumexp
from sqlalchemy import Connection, func, select, update
from sqlalchemy.engine import RowMapping as Row
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from kem_pymc._system.progress import waiting
from kem_pymc._system.resources import one_blas_thread
from kem_pymc.errors import InputError
from kem_pymc.selection.stored import to_dict
from kem_pymc.trial import monitor, rows, schema
from kem_pymc.trial.answers import answer
from kem_pymc.trial.audit import fingerprint
from kem_pymc.trial.store import Observations, Store, insert, log, now, participant_row, versions

#: Seconds after which another updater may take a participant on whom one stopped.
LEASE = 60.0

#: Number of participants whom an updater keeps others from at a time.
BLOCK = 10


@one_blas_thread()
def update_trial(
    store: Store, participants: Iterable[str | int] | None, time_budget: float | None
) -> pd.DataFrame:
    """Select for every time step that has none yet; see :meth:`Trial.update`."""
    began, made, labels = clock.monotonic(), [], _labels(store, participants)
    with waiting("Selecting kernels") as report:
        for start in range(0, len(labels), BLOCK):
            with _Lease(store, labels[start : start + BLOCK]) as lease:
                for label in lease.taken:
                    while time_budget is None or clock.monotonic() - began < time_budget:
                        row, more = _selected(store, label)
                        made += [row] if row else []
                        if not more:
                            break
                        lease.keep()
            report(min(start + BLOCK, len(labels)), len(labels))
    columns = ["participant", "time_step", "points", "composition", "answer"]
    return pd.DataFrame(made, columns=[*columns, "severity", "reason", "seconds"])


@schema.lasting
def _labels(store: Store, participants: Iterable[str | int] | None) -> list[str]:
    """Return the labels of participants, by default of all who take part."""
    with schema.reading(store.engine) as db:
        if participants is None:
            p = schema.participants.c
            return list(db.scalars(select(p.label).where(p.removed.is_(None)).order_by(p.id)))
        return [store.known(db, one)["label"] for one in participants]


class _Lease:
    """Participants, of some, from whom an updater keeps others; who is killed, for a while."""

    def __init__(self, store: Store, labels: list[str]) -> None:
        self._store, self._until = store, clock.time() + LEASE
        self.taken = self._take(labels)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._set(0.0)

    def keep(self) -> None:
        """Keep the participants for longer, once half of the time is over."""
        if clock.time() > self._until - LEASE / 2:
            self._set(clock.time() + LEASE)

    @schema.lasting
    def _take(self, labels: list[str]) -> list[str]:
        """Take the participants whom no other updater has, and return their labels."""
        p = schema.participants.c
        free = (p.lease < clock.time()) | (p.lease == self._until)  # ours, if that was written
        with schema.writing(self._store.engine) as db:
            query = select(p.label).where(p.label.in_(labels), p.removed.is_(None), free)
            taken = list(db.scalars(query.order_by(p.id).with_for_update(key_share=True)))
            ours = update(schema.participants).where(p.label.in_(taken))
            db.execute(ours.values(lease=self._until))
        return taken

    @schema.lasting
    def _set(self, until: float) -> None:
        p = schema.participants.c
        ours = p.label.in_(self.taken) & (p.lease == self._until)
        with schema.writing(self._store.engine) as db:
            db.execute(update(schema.participants).where(ours).values(lease=until))
        self._until = until


#: A selection that was made, as a row, if one was; and whether there are others to make.
type Made = tuple[dict[str, Any] | None, bool]


def _selected(store: Store, label: str) -> Made:
    """Select for a participant's next time step; a failure is recorded, and no one else's."""
    try:
        return _select(store, label)
    except SQLAlchemyError:
        raise  # the database is gone for all
    except Exception as error:
        reason = rows.legible(f"{type(error).__name__}: {error}")
        with schema.writing(store.engine) as db:
            if (known := participant_row(db, label, lock=True)) and not known["removed"]:
                log(db, label, "failed", reason)
        row = {
            **{"participant": label, "time_step": None, "points": None, "composition": None},
            **{"answer": "none", "severity": "red", "reason": reason, "seconds": 0.0},
        }
        return row, False


class _Due(NamedTuple):
    """A selection that is to be made.

    Attributes
    ----------
    known : Row
        The participant.
    artefact : int
    number : int
        Number of the selection among the participant's.
    data : Observations
    step, points : int
        Time step, and number of points up to its end.
    before : Row or None
        The selection at the time step before.
    last : bool
        Whether there is no other one to be made afterwards.
    """

    known: Row
    artefact: int
    number: int
    data: Observations
    step: int
    points: int
    before: Row | None
    last: bool


def _due(store: Store, db: Connection, label: str, artefact: int | None) -> _Due | None:
    """Return what is to be selected next for a participant; None if there is nothing.

    Each artefact, by default that of the participant, has its own sequence of a participant's
    selections.
    """
    known = participant_row(db, label)
    if known is None:
        return None
    artefact = known["artefact"] if artefact is None else artefact
    # Before the last selection is looked up, so that the updater that is first has the number.
    mine = schema.selections.c.participant == known["id"]
    number = db.execute(select(func.count()).where(mine)).scalar_one()
    data = store.data(db, known)
    if data is None:
        return None
    last = store.last(db, known["id"], artefact)
    final = len(data.points.ends) - 1
    step = 0 if last is None else min(last["time_step"] + 1, final)
    n = int(data.points.ends[step])
    if last is not None and last["time_step"] >= final and last["data_hash"] == data.hash(n):
        return None
    if last is not None and last["time_step"] >= step:
        last = store.last(db, known["id"], artefact, step)
    return _Due(known, artefact, number, data, step, n, last, step == final)


@schema.lasting
def _select(store: Store, label: str, artefact: int | None = None) -> Made:
    """Select for a participant's next time step, if there is one to do.

    Without an artefact, it is by that of the participant, and how well the step was predicted
    before is kept; an artefact that someone is moved to may have been learned from its rows.
    """
    compared = artefact is None
    with schema.reading(store.engine) as db:
        due = _due(store, db, label, artefact)
        if due is None:
            return None, False
        known, artefact, number, data, step, n, before, final = due
        previous = None if before is None else store.selection(db, before)
    x, y, given = data.until(n)
    began = clock.perf_counter()
    found = answer(store.selector(artefact), x, y, previous, given)
    seconds = clock.perf_counter() - began
    stored, outcome, reason = to_dict(found.selection), None, found.reason
    if compared and before is not None and previous is not None:
        try:
            used = json.loads(before["observations"])
            outcome = monitor.outcome(known["id"], step, previous, used, data)
        except Exception as error:  # there is an answer all the same
            said = f"the last prediction can't be compared: {type(error).__name__}: {error}"
            reason = "; ".join(filter(None, (reason, said)))
    row = {
        "time_step": step,
        "points": n,
        "composition": found.selection.label(),
        "answer": found.name,
        "severity": found.severity,
        "reason": rows.legible(reason),
        "seconds": seconds,
    }
    try:
        with schema.writing(store.engine) as db:
            store.known(db, label, lock=True)  # who may have been removed meanwhile
            made = insert(
                db,
                schema.selections,
                participant=known["id"],
                artefact=artefact,
                number=number,
                observations=json.dumps(data.observations[:n]),
                data_hash=data.hash(n),
                previous=None if before is None else before["id"],
                log_evidence=float(logsumexp([one.score for one in found.selection.considered])),
                content=json.dumps(stored),
                outcome=outcome,
                hash=fingerprint(stored),
                versions=versions(),
                created=now(),
                **row,
            )
    except (IntegrityError, InputError):
        return None, False  # another updater came first, or the participant was removed
    store.keep(made, found.selection)
    return {"participant": label, **row}, not final


@one_blas_thread()
def move(store: Store, artefact: int, participants: Iterable[str | int] | None) -> list[str]:
    """Move participants to an artefact; see :meth:`Trial.move`."""
    store.selector(artefact)  # there has to be one
    moved = []
    for label in _labels(store, participants):
        # Selections come first, so that there are predictions right after the move; another updater
        # may make some of them.
        while _select(store, label, artefact)[1] or _is_due(store, label, artefact):
            pass
        with schema.writing(store.engine) as db:
            known = store.known(db, label, lock=True)
            if known["artefact"] != artefact:
                where = schema.participants.c.id == known["id"]
                db.execute(update(schema.participants).where(where).values(artefact=artefact))
                log(db, label, "moved", f"From artefact {known['artefact']} to {artefact}.")
                moved.append(label)
    return moved


def _is_due(store: Store, label: str, artefact: int) -> bool:
    with schema.reading(store.engine) as db:
        return _due(store, db, label, artefact) is not None
