"""A server for a trial: uploads, updates, predictions and histories as JSON, and pages to read.

Whoever asks has a token, sent as a bearer token or as the password of HTTP's basic authentication,
which browsers ask for. Selections are made in a thread, while predictions go on.
"""

import base64
import binascii
import hmac
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

import numpy as np
import pandas as pd
from fastapi import FastAPI, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from jinja2 import Environment, PackageLoader
from pydantic import BaseModel, Field
from sqlalchemy.exc import SQLAlchemyError

from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import describe
from kem_pymc.trial.monitor import Monitoring
from kem_pymc.trial.rows import legible
from kem_pymc.trial.trial import MOST_ROWS, SERVED, Trial

log = logging.getLogger(__name__)

#: Largest size of a request, in bytes.
LARGEST = 20_000_000

#: Matplotlib draws in one thread at a time.
DRAWING = threading.Lock()

#: Fewest characters of a token.
SHORTEST = 16

#: Quantities of the page of calibration, with the heads of columns.
SHOWN = {
    **{f"within{level}": f"in {level} % intervals" for level in (50, 80, 95)},
    **{"log_density": "log density", "probit": "bias in sds", "distance": "distance in sds"},
}

type Rows = Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST_ROWS)]
type Label = Annotated[str, Path(min_length=1, max_length=1000)]


class Upload(BaseModel, extra="forbid"):
    """Rows of participants, by the names of columns."""

    rows: Rows
    key: Annotated[str | None, Field(max_length=1000)] = None
    registering: Annotated[bool, Field(alias="register")] = False


class Budget(BaseModel, extra="forbid"):
    """Seconds after which no selection begins."""

    seconds: Annotated[float | None, Field(ge=0)] = None


class Coming(BaseModel, extra="forbid"):
    """Rows to predict; targets aren't needed."""

    rows: Rows


def create_app(trial: Trial, tokens: Sequence[str]) -> FastAPI:
    """Return the application for a trial.

    Parameters
    ----------
    trial : Trial
    tokens : sequence of str
        Tokens that are accepted; without any, no token is asked for.

    Raises
    ------
    InputError
        If a token is too short.
    """
    if any(len(token) < SHORTEST for token in tokens):
        raise InputError(f"A token is too short. Give tokens of {SHORTEST} characters or more.")
    app = FastAPI(title="Kernel Evolution Model: a running trial", docs_url=None, redoc_url=None)

    @app.middleware("http")
    async def guard(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        """Refuse requests without a token or too large; say nothing of what failed within."""
        if tokens and request.url.path != "/health" and not _authorised(request, tokens):
            return JSONResponse(
                {"detail": "A token is needed."},
                401,
                {"WWW-Authenticate": 'Basic realm="trial", charset="UTF-8"'},
            )
        length = request.headers.get("content-length", "0")
        if request.headers.get("transfer-encoding") or not length.isdecimal():
            return JSONResponse({"detail": "Give the length of the request."}, 411)
        if int(length) > LARGEST:
            return JSONResponse({"detail": f"Send at most {LARGEST} bytes at a time."}, 413)
        try:
            return await call(request)
        except SQLAlchemyError as error:  # whose message has parameters, and so data
            log.error("%s: the database failed, %s", request.url.path, type(error).__name__)
            return JSONResponse({"detail": "The database can't be reached. Try again."}, 503)
        except Exception as error:
            log.error("%s: %s", request.url.path, type(error).__name__)  # data are in no log
            return JSONResponse({"detail": "The server failed. Nothing was changed."}, 500)

    @app.exception_handler(InputError)
    async def refuse(_: Request, error: InputError) -> Response:
        return JSONResponse({"detail": str(error)}, 422)

    @app.exception_handler(RequestValidationError)
    async def explain(_: Request, error: RequestValidationError) -> Response:
        """Say what is wrong with a request, without what was sent."""
        said = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        return JSONResponse({"detail": legible("; ".join(said))}, 422)

    @app.get("/health")
    def health() -> dict[str, Any]:
        """Say that the server and its database answer."""
        return {"participants": len(trial.participants()), "waiting": len(trial.quarantined())}

    @app.post("/uploads")
    def upload(given: Upload) -> dict[str, Any]:
        """Add rows, and say of each what became of it."""
        receipt = trial.add(given.rows, key=given.key, register=given.registering)
        entries = _records(receipt.entries)
        return {"upload": receipt.upload, "repeated": receipt.repeated, "entries": entries}

    @app.get("/waiting")
    def waiting() -> list[dict[str, Any]]:
        """Return rows that wait for a person."""
        return _records(trial.quarantined())

    @app.post("/waiting/{entry}")
    def release(entry: Annotated[int, Path(ge=1, le=2**31 - 1)]) -> dict[str, int]:
        """Accept a row in quarantine as it is."""
        trial.release([entry])
        return {"released": entry}

    @app.post("/updates")
    def update(given: Budget | None = None) -> list[dict[str, Any]]:
        """Select for every time step that has none yet."""
        return _records(trial.update(time_budget=None if given is None else given.seconds))

    @app.get("/participants")
    def participants() -> list[dict[str, Any]]:
        """Return all participants."""
        return _records(trial.participants())

    @app.put("/participants/{label}")
    def register(label: Label) -> dict[str, str]:
        """Register a participant; rows that waited for it are accepted."""
        trial.register(label)
        return {"registered": label}

    @app.delete("/participants/{label}")
    def remove(label: Label) -> dict[str, str]:
        """Remove all data of a participant."""
        trial.remove(label)
        return {"removed": label}

    @app.get("/participants/{label}/selections")
    def selections(label: Label) -> list[dict[str, Any]]:
        """Return a participant's selections."""
        return _records(trial.selections(label))

    @app.get("/participants/{label}/history")
    def history(label: Label) -> list[dict[str, Any]]:
        """Return what happened to a participant."""
        return _records(trial.history(label))

    @app.post("/participants/{label}/predictions")
    def predict(label: Label, given: Coming) -> dict[str, Any]:
        """Predict new rows of a participant by the last selection."""
        served = trial.predict(label, pd.DataFrame(given.rows, dtype=object))
        prediction = served.prediction
        quantiles = {name: prediction.quantile(p).tolist() for name, p in SERVED.items()}
        return {
            **{"selection": served.selection, "answer": served.answer},
            **{"severity": served.severity, "mean": _finite(prediction.mean)},
            **{"sd": _finite(prediction.sd), **quantiles},
        }

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def overview() -> str:
        """Return the page of all participants."""
        return _page("overview.html", rows=_overview(trial), waiting=_records(trial.quarantined()))

    @app.get("/calibration", response_class=HTMLResponse, include_in_schema=False)
    def calibration() -> str:
        """Return the page of how well participants are predicted."""
        return _page("calibration.html", **_calibration(trial.monitor()))

    @app.get("/page/{label}", response_class=HTMLResponse, include_in_schema=False)
    def participant(label: Label) -> str:
        """Return the page of a participant."""
        return _page("participant.html", label=label, **_participant(trial, label))

    return app


def _authorised(request: Request, tokens: Sequence[str]) -> bool:
    """Return whether a request has one of the tokens; the time it takes says nothing of them."""
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            given = ""
    return any([hmac.compare_digest(given.encode(), token.encode()) for token in tokens])


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as JSON has them."""
    records: list[dict[str, Any]] = json.loads(table.to_json(orient="records"))
    return records


def _finite(values: np.ndarray) -> list[float | None]:
    """Return numbers, with None for infinity, as a mean of counts may be."""
    return [float(v) if np.isfinite(v) else None for v in values]


def _overview(trial: Trial) -> list[dict[str, Any]]:
    """Return what the page of all participants says of each."""
    names = trial.evolutions.features
    last = {row["participant"]: row for row in _records(trial.selections())}
    found = []
    for one in _records(trial.participants()):
        selection = last.get(one["label"])
        light = "removed" if one["removed"] else "waiting for data"
        kernel, points = "", 0
        if selection is not None and not one["removed"]:
            light, points = selection["severity"], selection["points"]
            kernel = describe(Composition.parse(selection["composition"], len(names)), names)
        found.append(
            {
                **{"label": one["label"], "light": light, "kernel": kernel, "points": points},
                "last": "" if selection is None else selection["created"][:16].replace("T", " "),
            }
        )
    return found


def _participant(trial: Trial, label: str) -> dict[str, Any]:
    """Return what the page of a participant shows."""
    from matplotlib import rc_context

    from kem_pymc import plots
    from kem_pymc.plots.report.pictures import SETTINGS, svg

    history, picture = _records(trial.history(label)), None
    selection = trial.selection(label)
    if selection is not None:
        place = trial.evolutions.features
        feature = trial.roles.time if trial.roles.time in place else None
        title = f"Predictions of {trial.evolutions.target} for {label}"
        with DRAWING, rc_context(SETTINGS):
            drawn = plots.predictions(selection, feature=feature, study=trial.evolutions)
            picture = svg(drawn, title)
    return {"history": history, "picture": picture}


def _calibration(found: Monitoring) -> dict[str, Any]:
    """Return what the page of how well participants are predicted shows."""
    from matplotlib import rc_context

    from kem_pymc.plots.report.pictures import SETTINGS, svg, table
    from kem_pymc.plots.scores import coverage

    if not found.participants:
        return {"lines": found.sentences()}
    steps = found.by_time_step.assign(time_step=found.by_time_step["time_step"] + 1)
    weeks = found.by_week.assign(week=found.by_week["week"].dt.strftime("%Y-%m-%d"))
    with DRAWING, rc_context(SETTINGS):
        picture = svg(coverage(steps), "Coverage by time step")
    tables = []
    for title, rows in {"By time step": steps, "By week of first use": weeks}.items():
        kind, form = rows.columns[0], "{} ({} to {}); {}"
        parts = [
            [f"{v:.0%}" if name.startswith("within") else f"{v:.2f}" for v in numbers]
            for name, *numbers in rows[["quantity", "value", "low", "high", "promised"]].to_numpy()
        ]
        wide = rows.assign(said=[form.format(*one).replace("nan", "-") for one in parts]).pivot(
            index=[kind, "participants"], columns="quantity", values="said"
        )
        wide = wide[[*SHOWN]].rename(columns=SHOWN).reset_index()
        wide = wide.rename(columns={kind: kind.replace("_", " ")})
        tables.append(table(wide, f"{title}: value (95 % interval); promised"))
    said = {"lines": found.sentences(), "alarms": found.alarms}
    return {**said, "picture": picture, "tables": tables}


@cache
def _environment() -> Environment:
    environment = Environment(loader=PackageLoader("kem_pymc.trial", "pages"), autoescape=True)
    style = files("kem_pymc.plots.report") / "page_files" / "style.css"
    environment.globals["style"] = style.read_text("utf-8")
    return environment


def _page(name: str, **content: Any) -> str:
    return _environment().get_template(name).render(content)
