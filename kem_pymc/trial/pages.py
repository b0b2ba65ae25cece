"""What the pages of a trial say, for people: participants, one participant, rows that wait."""

import json
import threading
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader
from matplotlib import rc_context
from sqlalchemy import select

from kem_pymc import plots
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import describe
from kem_pymc.plots.report.pictures import SETTINGS, svg, table
from kem_pymc.plots.scores import coverage
from kem_pymc.selection.horizon import spacing
from kem_pymc.selection.selection import Selection
from kem_pymc.trial import rows, schema
from kem_pymc.trial.monitor import Monitoring
from kem_pymc.trial.serving import SERVED
from kem_pymc.trial.trial import Trial

#: Matplotlib draws in one thread at a time.
DRAWING = threading.Lock()

#: Largest number of participants, and of rows that wait, on a page.
SHOWN = 500

#: Number of next time points of which a participant's page has a forecast.
AHEAD = 3

#: Quantities of the page of calibration, with the heads of columns.
QUANTITIES = {
    **{f"within{level}": f"in {level} % intervals" for level in (50, 80, 95)},
    **{"log_density": "log density", "probit": "bias in sds", "distance": "distance in sds"},
}

#: What participants are in need of, the most urgent first.
LIGHTS = ("no answer", "red", "yellow", "waiting for data", "green", "removed")


def page(name: str, **content: Any) -> str:
    """Return a page as HTML."""
    return _environment().get_template(name).render(content)


@cache
def _environment() -> Environment:
    environment = Environment(loader=PackageLoader("kem_pymc.trial", "pages"), autoescape=True)
    style = files("kem_pymc.plots.report") / "page_files" / "style.css"
    environment.globals["style"] = style.read_text("utf-8")
    return environment


def overview(trial: Trial, label: str = "") -> str:
    """Return the page of all participants whose labels contain a text."""
    names, times = trial.evolutions.features, _times(trial)
    last = {(row.participant, row.artefact): row for row in trial.selections().itertuples()}
    found = []
    for one in trial.participants().itertuples():
        if label not in one.label:
            continue
        selection, own = last.get((one.label, one.artefact)), times.get(one.label)
        light, kernel = "waiting for data", ""
        if isinstance(one.removed, str):
            light = "removed"
        elif selection is not None:
            light = selection.severity
            kernel = describe(Composition.parse(selection.composition, len(names)), names)
        row = {"label": one.label, "light": light, "kernel": kernel, "points": 0}
        if own is not None:
            row |= {"points": len(own), "last": _written(own[-1]), "next": _next(own)}
        found.append(row)
    found.sort(key=lambda row: LIGHTS.index(row["light"]))
    counts = [(light, sum(row["light"] == light for row in found)) for light in LIGHTS]
    return page(
        "overview.html",
        **{"rows": found[:SHOWN], "more": max(len(found) - SHOWN, 0), "sought": label},
        **{"counts": [pair for pair in counts if pair[1]], "waiting": len(trial.quarantined())},
        time=trial.roles.time,
    )


def participant(trial: Trial, label: str) -> str:
    """Return the page of a participant."""
    history, selection = trial.history(label), trial.selection(label)
    evolutions, time = trial.evolutions, trial.roles.time
    picture, forecast = None, []
    if selection is not None:
        place = time if time in evolutions.features else None
        ahead = _ahead(trial, label)
        with DRAWING, rc_context(SETTINGS):
            ax = plots.predictions(selection, feature=place, study=evolutions)
            if ahead is not None:
                when, x = ahead
                low, median, high = _interval(selection, x)
                at = x[:, evolutions.features.index(time)]
                ends = np.abs([low - median, high - median])
                ax.errorbar(at, median, ends, fmt="s", color="black", capsize=3)
                ax.set_xlim(right=1.5 * at[-1] - 0.5 * at[-2])
                forecast = list(zip(when, *np.round([median, low, high], 4), strict=True))
            ax.set_title("")
            picture = svg(ax, f"Predictions of {evolutions.target} for {label}")
    return page(
        "participant.html",
        **{"label": label, "picture": picture, "forecast": forecast, "target": evolutions.target},
        **{"time": time, "kernels": _kernels(trial, label)},
        history=history.assign(selection=history["selection"].notna()).to_dict("records"),
    )


def quarantine(trial: Trial, said: str = "", up: str = "") -> str:
    """Return the page of rows that wait for a person, with a message, and the way to others."""
    waiting = trial.quarantined()
    found = []
    for row in waiting.head(SHOWN).itertuples():
        cells = {} if not isinstance(row.content, str) else json.loads(row.content)
        shown = ", ".join(
            f"{name} {'(empty)' if value is None else value}" for name, value in cells.items()
        )
        found.append({**row._asdict(), "cells": shown})
    return page("quarantine.html", rows=found, more=max(len(waiting) - SHOWN, 0), said=said, up=up)


def calibration(found: Monitoring) -> str:
    """Return the page of how well participants are predicted."""
    if not found.participants:
        return page("calibration.html", lines=found.sentences())
    steps = found.by_time_step.assign(time_step=found.by_time_step["time_step"] + 1)
    weeks = found.by_week.assign(week=found.by_week["week"].dt.strftime("%Y-%m-%d"))
    with DRAWING, rc_context(SETTINGS):
        picture = svg(coverage(steps), "Coverage by time step")
    tables = []
    for title, own in {"By time step": steps, "By week of first use": weeks}.items():
        kind, form = own.columns[0], "{} ({} to {}); {}"
        parts = [
            [f"{v:.0%}" if name.startswith("within") else f"{v:.2f}" for v in numbers]
            for name, *numbers in own[["quantity", "value", "low", "high", "promised"]].to_numpy()
        ]
        wide = own.assign(said=[form.format(*one).replace("nan", "-") for one in parts]).pivot(
            index=[kind, "participants"], columns="quantity", values="said"
        )
        wide = wide[[*QUANTITIES]].rename(columns=QUANTITIES).reset_index()
        wide = wide.rename(columns={kind: kind.replace("_", " ")})
        tables.append(table(wide, f"{title}: value (95 % interval); promised"))
    said = {"lines": found.sentences(), "alarms": found.alarms}
    return page("calibration.html", **said, picture=picture, tables=tables)


def _times(trial: Trial) -> dict[str, np.ndarray]:
    """Return the sorted times of live observations by participants' labels."""
    o, p = schema.observations.c, schema.participants.c
    query = select(p.label, o.time).join(schema.participants, o.participant == p.id)
    found = trial._store.table(query.where(o.state == "live"))
    times: dict[str, np.ndarray] = {}
    for _, group in found.groupby(found["time"].map(rows.kind_of_time)):
        stamps = rows.stamps_of(list(group["time"])).set_axis(group.index)
        if isinstance(stamps.dtype, pd.DatetimeTZDtype):
            stamps = stamps.dt.tz_convert(None)
        times |= {label: np.sort(own) for label, own in stamps.groupby(group["label"])}
    return times


def _next(times: np.ndarray) -> str:
    """Return when the next data are expected: a usual distance after the last."""
    usual = spacing(times)
    return "" if usual is None else _written(times[-1] + usual)


def _written(time: Any) -> str:
    """Return a time for people, to the minute."""
    if isinstance(time, np.datetime64):
        return str(pd.Timestamp(time).round("min"))[:16]
    return str(pd.Timedelta(time)) if isinstance(time, np.timedelta64) else f"{time:g}"


def _ahead(trial: Trial, label: str) -> tuple[list[str], np.ndarray] | None:
    """Return the next times and inputs (m, D); None if they don't follow from the last ones."""
    features, store = trial.evolutions.features, trial._store
    with schema.reading(store.engine) as db:
        data = store.data(db, store.known(db, label))
    times = _times(trial).get(label)
    if data is None or times is None or trial.roles.time not in features:
        return None
    x, place = data.points.x, features.index(trial.roles.time)
    usual, step = spacing(times), spacing(x[:, place])
    if usual is None or (np.ptp(np.delete(x, place, axis=1), axis=0) > 0).any():
        return None
    coming = np.repeat(x[-1:], AHEAD, axis=0)
    coming[:, place] += step * np.arange(1, AHEAD + 1)
    return [_written(times[-1] + n * usual) for n in range(1, AHEAD + 1)], coming


def _interval(selection: Selection, x: np.ndarray) -> list[np.ndarray]:
    """Return the ends and the median of predictions, as they are served."""
    sure = selection.calibration is not None
    predicted = selection.predict(x, include_noise=True, calibrated=sure)
    return [predicted.quantile(probability) for probability in SERVED.values()]


def _kernels(trial: Trial, label: str) -> list[dict[str, Any]]:
    """Return which kernels a participant had in turn, in words."""
    names, found = trial.evolutions.features, []
    alike = groupby(
        trial.selections(label).dropna(subset="composition").itertuples(),
        lambda row: (row.composition, row.severity),
    )
    for (composition, light), group in alike:
        own = list(group)
        kernel = describe(Composition.parse(composition, len(names)), names)
        found.append(
            {
                **{"kernel": kernel, "light": light, "first": own[0].points},
                **{"last": own[-1].points, "since": own[0].created[:16].replace("T", " ")},
            }
        )
    return found
