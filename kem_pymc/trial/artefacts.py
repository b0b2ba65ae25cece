"""Artefacts of a trial: frozen evolutions, how they differ, and who has which."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sqlalchemy import select, update

from kem_pymc._system.display import plural
from kem_pymc.evolutions.differences import COLUMNS
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.trial import schema
from kem_pymc.trial.store import Store, log

#: What may become of an evolution.
CHANGES = ("gained", "lost", "changed")


@dataclass(frozen=True)
class Comparison:
    """Predictions of participants' next rows, before and by what was learned without them.

    Attributes
    ----------
    participants, rows : int
        How many were predicted.
    before, after : float
        Mean log density of a row, in nats, in the target's unit.
    error : float or None
        Standard error of their difference over participants; None of one participant.
    """

    participants: int
    rows: int
    before: float
    after: float
    error: float | None

    @classmethod
    def of(cls, pairs: Mapping[Any, np.ndarray]) -> "Comparison":
        """Return the comparison of log densities (2, rows) of participants, before and after.

        The standard error of the mean over rows is that of a ratio of sums over participants, whose
        rows depend on each other (Cochran 1977, section 6.3).
        """
        sizes = np.array([found.shape[1] for found in pairs.values()])
        sums = np.array([found.sum(axis=1) for found in pairs.values()])
        n, rows = len(sizes), int(sizes.sum())
        before, after = sums.sum(axis=0) / rows
        error = None
        if n > 1:
            away = sums[:, 1] - sums[:, 0] - (after - before) * sizes
            error = float(np.sqrt(n / (n - 1) * np.sum(away**2)) / rows)
        return cls(n, rows, float(before), float(after), error)

    def __str__(self) -> str:
        gain = self.after - self.before
        number = f"{abs(gain):.2g}"
        if self.error:  # one digit of it, and as many of the gain
            digits = max(0, -int(np.floor(np.log10(self.error))))
            number = f"{abs(gain):.{digits}f} ± {self.error:.{digits}f}"
        of = f"{plural(self.rows, 'row')} of {plural(self.participants, 'participant')}"
        of = f"{number} nats a row ({of})"
        if self.error is None or abs(gain) <= 2 * self.error:
            more = "more" if gain > 0 else "less"
            return (
                "Whether evolutions learned without them predict participants' next rows better "
                f"than those before is open: log densities are {more} by {of}."
            )
        how = "better" if gain > 0 else "worse"
        return (
            f"Evolutions learned without them predict participants' next rows {how} than those "
            f"before, by {of}."
        )


@dataclass(frozen=True)
class Artefact:
    """Frozen evolutions of a trial, and how they differ from those with which it began.

    Attributes
    ----------
    number : int
    created : str
    evolutions : Evolutions
    learned_from : tuple of int
        Numbers of pilot users, participants, and participants' rows; empty for the first artefact.
    against : int or None
        Number of the artefact with which `differences` compares; None for the first one.
    differences : DataFrame
        See :func:`kem_pymc.evolutions.differences.differences`.
    comparison : Comparison or None
        None if no row was predicted before and after.
    """

    number: int
    created: str
    evolutions: Evolutions
    learned_from: tuple[int, ...]
    against: int | None
    differences: pd.DataFrame
    comparison: Comparison | None

    def __str__(self) -> str:
        if self.against is None:
            return "The trial began with it."
        pilots, participants, rows = self.learned_from
        counts = self.differences["change"].value_counts()
        changes = ", ".join(f"{counts.get(name, 0)} {name}" for name in CHANGES)
        better = self.comparison or "No row was predicted before and after."
        return (
            f"Learned from {plural(pilots, 'pilot user')} and "
            f"{plural(participants, 'participant')} ({plural(rows, 'row')}). "
            f"Evolutions, against artefact {self.against}: {changes}. {better}"
        )


def artefact(store: Store, number: int) -> Artefact:
    """Return an artefact; see :meth:`kem_pymc.trial.Trial.artefact`."""
    evolutions = store.selector(number).evolutions
    with schema.reading(store.engine) as db:
        query = select(schema.artefacts).where(schema.artefacts.c.id == number)
        row = db.execute(query).mappings().one()
    about = json.loads(row["about"] or "{}")
    comparison = about.get("comparison")
    return Artefact(
        number,
        row["created"],
        evolutions,
        tuple(about.get(name) for name in ("pilots", "participants", "rows")) if about else (),
        about.get("against"),
        pd.DataFrame(about.get("differences", []), columns=COLUMNS),
        None if comparison is None else Comparison(**comparison),
    )


def artefacts(store: Store) -> pd.DataFrame:
    """Return all artefacts; see :meth:`kem_pymc.trial.Trial.artefacts`."""
    a, p = schema.artefacts.c, schema.participants.c
    with schema.reading(store.engine) as db:
        found = db.execute(select(a.id, a.created, a.hash).order_by(a.id)).all()
        here = db.execute(select(p.artefact).where(p.removed.is_(None))).scalars().all()
    rows = [
        (one.id, one.created, one.hash, here.count(one.id), one.id == store.artefact)
        for one in found
    ]
    table = pd.DataFrame(rows, columns=["artefact", "created", "hash", "participants", "adopted"])
    return table.assign(about=[str(artefact(store, one.id)) for one in found])


def adopt(store: Store, number: int) -> None:
    """Let participants who register from now on have an artefact."""
    store.selector(number)
    with schema.writing(store.engine) as db:
        db.execute(update(schema.trial).values(artefact=number))
        log(db, None, "adopted", f"Artefact {number}.")
