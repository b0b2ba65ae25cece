"""Predictions by stored selections; nothing is fitted."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from sqlalchemy import Connection, bindparam, select

from kem_pymc.data.cells import days
from kem_pymc.errors import InputError
from kem_pymc.gp.prediction import Prediction
from kem_pymc.trial import rows, schema
from kem_pymc.trial.store import Store, insert, now, participant_row

#: What is recorded of predictions, with the probabilities of quantiles.
SERVED = {"low_95": 0.025, "median": 0.5, "high_95": 0.975}


_s = schema.selections.c

#: A participant's last selection, without its content, which is in memory if it has predicted.
LAST = (
    select(_s.id, _s.answer, _s.severity)
    .where(_s.participant == bindparam("participant"), _s.artefact == bindparam("artefact"))
    .order_by(_s.number.desc())
    .limit(1)
)


class Served(NamedTuple):
    """A prediction, its 95 % interval and median, and the selection that it is by.

    Attributes
    ----------
    prediction : Prediction
    quantiles : dict of str to ndarray, shape (m,)
        ``low_95``, ``median`` and ``high_95``.
    selection : int
        Number of the selection.
    answer, severity : str
        What kind of answer that is, see :mod:`kem_pymc.trial.answers`.
    """

    prediction: Prediction
    quantiles: dict[str, np.ndarray]
    selection: int
    answer: str
    severity: str

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each input: mean, sd and quantiles, and what components contribute.

        Components' means and the offset add up to the mean, on the scale of the kernel.
        """
        prediction, table = self.prediction, pd.DataFrame(self.quantiles)
        table.insert(0, "mean", prediction.mean)
        table.insert(1, "sd", prediction.sd)
        if prediction.components:
            table["offset"] = prediction.offset
        for label, part in prediction.components.items():
            table[label] = part.mean
        return table


@schema.lasting
def predict(
    store: Store, participant: str | int, at: npt.ArrayLike | pd.DataFrame, calibrated: bool
) -> Served:
    """Predict new observations of a participant; see :meth:`Trial.predict`."""
    with schema.reading(store.engine) as db:
        known = store.known(db, participant)
        row = (
            db.execute(LAST, {"participant": known["id"], "artefact": known["artefact"]})
            .mappings()
            .first()
        )
        if row is None:
            raise InputError(
                f"Participant {known['label']} has no selection yet. Add rows, and update."
            )
        selection = store.selection(db, row)
        x = at
        if isinstance(at, pd.DataFrame):
            x = _inputs(store, db, known["id"], known["artefact"], at)
    sure = calibrated and selection.calibration is not None
    prediction = selection.predict(x, include_noise=True, calibrated=sure)
    quantiles = {name: prediction.quantile(p) for name, p in SERVED.items()}
    served = {name: values.tolist() for name, values in quantiles.items()}
    with schema.writing(store.engine) as db:
        insert(
            db,
            schema.predictions,
            participant=known["id"],
            selection=row["id"],
            inputs=json.dumps(np.asarray(x, dtype=float).tolist()),
            served=json.dumps({"mean": prediction.mean.tolist(), **served}),
            created=now(),
        )
        store.known(db, participant)  # who may have been removed meanwhile: nothing is written
    return Served(prediction, quantiles, row["id"], row["answer"], row["severity"])


@schema.lasting
def predict_one(store: Store, x: Mapping[str, Any]) -> float:
    """Predict one row of a participant, also of a new one; see :meth:`Trial.predict_one`."""
    user, artefact = x.get(store.roles.user), store.artefact
    if user is None or pd.isna(user) or not str(user).strip():
        raise InputError(f"The row has no {store.roles.user!r}. Say whose it is.")
    label, participant, selection = rows.label_of(user), None, None
    with schema.reading(store.engine) as db:
        if participant_row(db, label) is not None:
            known = store.known(db, label)
            participant, artefact = known["id"], known["artefact"]
            row = store.last(db, participant, artefact)
            selection = None if row is None else store.selection(db, row)
        (values,) = _values(store, db, participant, artefact, pd.DataFrame([x]))
    if selection is None:
        selector = store.selector(artefact)
        selection = selector.select(np.empty((0, selector.pool.dimension)), np.empty(0))
    sizes = [values.given["sizes"]] if "sizes" in values.given else None
    return float(selection.predict([values.x], include_noise=True, sizes=sizes).mean[0])


def _inputs(
    store: Store, db: Connection, participant: int, artefact: int, at: pd.DataFrame
) -> np.ndarray:
    """Return the inputs (m, D) of rows."""
    names = [store.roles.noise, store.roles.size]
    values = _values(store, db, participant, artefact, at.drop(columns=names, errors="ignore"))
    return np.array([one.x for one in values])


def _values(
    store: Store, db: Connection, participant: int | None, artefact: int, at: pd.DataFrame
) -> list[rows.Values]:
    """Return what rows say: dates count from the participant's first row.

    That is the first of these if the participant has none, or is None. Noise and sizes are one
    where they aren't there.

    Raises
    ------
    InputError
        If columns are missing, a cell can't be read, or the time is of another kind.
    """
    evolutions, o = store.selector(artefact).evolutions, schema.observations.c
    live = (o.participant == participant) & (o.state == "live")
    coming = rows.read(rows.contents(at.rename(columns=str).assign(**{store.roles.user: 0})))
    if evolutions.target not in coming:
        content = db.execute(select(o.content).where(live).limit(1)).scalar()
        coming[evolutions.target] = 1 if content is None else json.loads(content)[1]
    for name in (store.roles.noise, store.roles.size):
        if name is not None and name not in coming:
            coming[name] = 1
    rows.check_columns(coming, store.roles, evolutions)
    values = rows.despite(coming, store.roles, evolutions)
    written = list(db.execute(select(o.time).where(live)).scalars())
    kinds = {rows.kind_of_time(time) for time in (*written, *(one.time for one in values))}
    if len(kinds) > 1:
        raise InputError(f"Times are {' and '.join(sorted(kinds))}. Write all in the same way.")
    if store.roles.time in evolutions.features:
        place = evolutions.features.index(store.roles.time)
        coming_at = rows.stamps_of([one.time for one in values])
        first = (rows.stamps_of(written) if written else coming_at).sort_values()
        stamps = pd.concat([first.iloc[:1], coming_at])
        since = days(stamps, np.zeros(len(stamps), dtype=int))[1:]
        values = [
            one._replace(x=[*one.x[:place], float(day), *one.x[place + 1 :]])
            for one, day in zip(values, since, strict=True)
        ]
    return values
