"""A trial as tables: Parquet files for other programs, and a DataTree."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from sqlalchemy import select

from kem_pymc.errors import InputError
from kem_pymc.trial import audit, schema
from kem_pymc.trial.rows import Values
from kem_pymc.trial.store import Store


def tables(store: Store) -> dict[str, pd.DataFrame]:
    """Return what a trial knows, as tables by name; see :meth:`Trial.export`."""
    p, a, e, s = (
        table.c
        for table in (schema.participants, schema.artefacts, schema.entries, schema.selections)
    )
    return {
        "participants": store.table(
            select(
                p.label.label("participant"), p.registered, p.removed, a.hash.label("evolutions")
            )
            .join(schema.artefacts, p.artefact == a.id)
            .order_by(p.id)
        ),
        "uploads": store.table(select(schema.uploads).order_by(schema.uploads.c.id)),
        "entries": store.table(
            select(e.id.label("entry"), e.upload, e.number.label("row"), e.label, e.content)
            .add_columns(e.status, e.reason, e.hash)
            .order_by(e.id)
        ),
        "observations": pd.DataFrame(_observations(store)),
        "selections": audit.selections(store).merge(
            store.table(
                select(s.id.label("selection"), a.hash.label("evolutions"), s.previous)
                .add_columns(s.data_hash, s.hash, s.versions)
                .join(schema.artefacts, s.artefact == a.id)
            )
        ),
        "kernels": pd.DataFrame(_kernels(store)),
        "predictions": pd.DataFrame(_predictions(store)),
        "events": store.table(select(schema.events).order_by(schema.events.c.id)),
    }


def export(store: Store, folder: str | Path) -> Path:
    """Write the tables of a trial as Parquet files to a new folder; see :meth:`Trial.export`."""
    folder = Path(folder)
    if folder.exists():
        raise InputError(f"{folder} exists already. Give a folder that doesn't.")
    draft = folder.with_name(f".{folder.name}.draft")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        for name, table in tables(store).items():
            table.to_parquet(draft / f"{name}.parquet", index=False)
        os.replace(draft, folder)
    except OSError as error:
        raise InputError(
            f"{folder} can't be written ({error.strerror or error}). Give another folder."
        ) from error
    return folder


def to_datatree(store: Store) -> xr.DataTree:
    """Return the selections of a trial as a DataTree; see :meth:`Trial.to_datatree`."""
    found = tables(store)
    last = found["selections"].drop_duplicates(["participant", "time_step"], keep="last")
    cells = last.set_index(["participant", "time_step"])
    cells = cells[["selection", "points", "composition", "log_evidence", "answer", "severity"]]
    groups = {"selections": cells.to_xarray()}
    kernels = found["kernels"]
    if len(kernels):
        weights = (
            kernels.groupby(["selection", "composition"])["weight"].sum().unstack(fill_value=0)
        )
        where = last.loc[last["selection"].isin(weights.index), ["participant", "time_step"]]
        table = weights.loc[last["selection"][where.index]].set_axis(
            pd.MultiIndex.from_frame(where), axis=0
        )
        groups["weights"] = xr.Dataset({"weight": table.stack().to_xarray()})
    live = found["observations"]
    if len(live):
        live = live[live["state"] == "live"].reset_index(drop=True)
        groups["observed_data"] = live.rename_axis("point").to_xarray()
    return xr.DataTree.from_dict(groups)


def _observations(store: Store) -> Iterator[dict[str, Any]]:
    """Yield observations, with the columns of uploads as far as selections use them."""
    o, p, evolutions = schema.observations.c, schema.participants.c, store.evolutions
    query = select(o.id, o.entry, o.state, o.time, o.content, p.label).order_by(o.id)
    found = store.table(query.join(schema.participants, o.participant == p.id))
    given = {"noise": store.roles.noise, "sizes": store.roles.size}
    for row in found.itertuples():
        cells = {"observation": row.id, "entry": row.entry, "state": row.state}
        if isinstance(row.content, str):  # of who was removed it is null
            values = Values(row.time, *json.loads(row.content))
            cells |= dict(zip(evolutions.features, values.x, strict=True))
            cells |= {evolutions.target: values.y}
            cells |= {given[name] or name: value for name, value in values.given.items()}
        yield cells | {store.roles.user: row.label, store.roles.time: row.time}


def _kernels(store: Store) -> Iterator[dict[str, Any]]:
    """Yield the kernels that were considered for each selection."""
    s = schema.selections.c
    found = store.table(select(s.id, s.content).where(s.content.is_not(None)).order_by(s.id))
    for row in found.itertuples():
        data = json.loads(row.content)
        ways = [(data, 1 - data["departure"])]
        if data["unshared"] is not None:
            ways.append((data["unshared"], data["departure"]))
        for way, probability in ways:
            for one in way["considered"]:
                yield {
                    **{"selection": row.id, "composition": one["composition"]},
                    **{"status": one["status"], "shared": way["shares"]},
                    **{"score": one["score"], "weight": probability * one["weight"]},
                    "hyperparameters": json.dumps(one["hyperparameters"]),
                    "noise": one["noise"],
                }


def _predictions(store: Store) -> Iterator[dict[str, Any]]:
    """Yield predictions, an input each, in the units of features and target."""
    v, p, features = schema.predictions.c, schema.participants.c, store.evolutions.features
    query = select(v.id, p.label, v.selection, v.created, v.inputs, v.served).order_by(v.id)
    query = query.where(v.inputs.is_not(None))
    found = store.table(query.join(schema.participants, v.participant == p.id))
    for row in found.itertuples():
        served = json.loads(row.served)
        known = {"prediction": row.id, "selection": row.selection, "created": row.created}
        for place, x in enumerate(json.loads(row.inputs)):
            cells = dict(zip(features, np.atleast_1d(x).tolist(), strict=True))
            own = {name: values[place] for name, values in served.items()}
            yield known | {store.roles.user: row.label} | cells | own
