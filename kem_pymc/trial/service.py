"""A server for a trial: uploads, updates, predictions and histories as JSON, and pages to read.

Whoever asks has a token, sent as a bearer token or as the password of HTTP's basic authentication,
which browsers ask for. Selections are made in a thread, while predictions go on.
"""

import base64
import binascii
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

import pandas as pd
from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from pydantic import BaseModel, Field
from sqlalchemy.exc import SQLAlchemyError

from kem_pymc.errors import InputError
from kem_pymc.trial import pages
from kem_pymc.trial.intake import MOST_ROWS, UNKNOWN
from kem_pymc.trial.rows import legible
from kem_pymc.trial.trial import Trial

log = logging.getLogger(__name__)

#: Largest size of a request, in bytes.
LARGEST = 20_000_000

#: What browsers may do with pages: run nothing, load nothing, show them in no frame.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'"
)

#: Fewest characters of a token.
SHORTEST = 16

type Rows = Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST_ROWS)]
type Label = Annotated[str, Path(min_length=1, max_length=1000)]
type Entry = Annotated[int, Path(ge=1, le=2**31 - 1)]


class Upload(BaseModel, extra="forbid"):
    """Rows of participants, by the names of columns."""

    rows: Rows
    key: Annotated[str | None, Field(max_length=1000)] = None
    registering: Annotated[bool, Field(alias="register")] = False


class Refusal(BaseModel):
    """What is wrong with a request."""

    detail: str


#: Answers to requests that don't succeed.
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Refusal, "description": "The request isn't JSON."},
    401: {"model": Refusal, "description": "There is no token, or a wrong one."},
    403: {"model": Refusal, "description": "A browser asks for another site."},
    404: {"model": Refusal, "description": "There is nothing at this address."},
    411: {"model": Refusal, "description": "The length of the request isn't given."},
    413: {"model": Refusal, "description": "The request is too large."},
    422: {"model": Refusal, "description": "The request is wrong: `detail` says what."},
    500: {"model": Refusal, "description": "The server failed, and nothing was changed."},
    503: {"model": Refusal, "description": "The database can't be reached."},
}


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
    title = "Kernel Evolution Model: a running trial"
    app = FastAPI(title=title, docs_url=None, redoc_url=None, responses=REFUSALS)

    @app.middleware("http")
    async def guard(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        """Refuse requests without a token or too large; say nothing of what failed within."""
        if tokens and request.url.path != "/health" and not _authorised(request, tokens):
            return JSONResponse(
                {"detail": "A token is needed."},
                401,
                {"WWW-Authenticate": 'Basic realm="trial", charset="UTF-8"'},
            )
        # Browsers send a password wherever a form of another site leads, and say whence.
        site = request.headers.get("sec-fetch-site", "none")
        if request.method not in ("GET", "HEAD") and site not in ("none", "same-origin"):
            return JSONResponse({"detail": "Requests of other sites are refused."}, 403)
        length = request.headers.get("content-length", "0")
        if request.headers.get("transfer-encoding") or not length.isdecimal():
            return JSONResponse({"detail": "Give the length of the request."}, 411)
        if int(length) > LARGEST:
            return JSONResponse({"detail": f"Send at most {LARGEST} bytes at a time."}, 413)
        try:
            response = await call(request)
            response.headers["Content-Security-Policy"] = POLICY
            return response
        except SQLAlchemyError as error:  # whose message has parameters, and so data
            log.error("%s: the database failed, %s", request.url.path, type(error).__name__)
            return JSONResponse({"detail": "The database can't be reached. Try again."}, 503)
        except Exception as error:
            log.error("%s: %s", request.url.path, type(error).__name__)  # data are in no log
            return JSONResponse({"detail": "The server failed. Nothing was changed."}, 500)

    @app.exception_handler(InputError)
    async def say(_: Request, error: InputError) -> Response:
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
    def release(entry: Entry) -> dict[str, int]:
        """Accept a row in quarantine as it is."""
        trial.release([entry])
        return {"released": entry}

    @app.delete("/waiting/{entry}")
    def refuse(entry: Entry) -> dict[str, int]:
        """Refuse a row that waits."""
        trial.refuse([entry])
        return {"refused": entry}

    @app.post("/updates")
    def update(given: Budget | None = None) -> list[dict[str, Any]]:
        """Select for every time step that has none yet."""
        return _records(trial.update(time_budget=None if given is None else given.seconds))

    @app.get("/participants")
    def participants() -> list[dict[str, Any]]:
        """Return all participants."""
        return _records(trial.participants())

    @app.put("/participants/{label:path}")
    def register(label: Label) -> dict[str, str]:
        """Register a participant; rows that waited for it are accepted."""
        trial.register(label)
        return {"registered": label}

    @app.delete("/participants/{label:path}")
    def remove(label: Label) -> dict[str, str]:
        """Remove all data of a participant."""
        trial.remove(label)
        return {"removed": label}

    @app.get("/participants/{label:path}/selections")
    def selections(label: Label) -> list[dict[str, Any]]:
        """Return a participant's selections."""
        return _records(trial.selections(label))

    @app.get("/participants/{label:path}/history")
    def history(label: Label) -> list[dict[str, Any]]:
        """Return what happened to a participant."""
        return _records(trial.history(label))

    @app.post("/participants/{label:path}/predictions")
    def predict(label: Label, given: Coming) -> dict[str, Any]:
        """Predict new rows of a participant by the last selection."""
        served = trial.predict(label, pd.DataFrame(given.rows, dtype=object))
        return {
            **{"selection": served.selection, "answer": served.answer},
            **{"severity": served.severity, "rows": _records(served.to_frame())},
        }

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def overview(label: Annotated[str, Query(max_length=1000)] = "") -> str:
        """Return the page of all participants, or of some."""
        return pages.overview(trial, label)

    @app.get("/calibration", response_class=HTMLResponse, include_in_schema=False)
    def calibration(artefact: int | None = None) -> str:
        """Return the page of how well participants are predicted."""
        return pages.calibration(trial.monitor(artefact))

    @app.get("/page", response_class=HTMLResponse, include_in_schema=False)
    def participant(label: Annotated[str, Query(max_length=1000)]) -> str:
        """Return the page of a participant."""
        return pages.participant(trial, label)

    @app.get("/quarantine", response_class=HTMLResponse, include_in_schema=False)
    def quarantine() -> str:
        """Return the page of rows that wait for a person."""
        return pages.quarantine(trial)

    @app.post("/quarantine/{entry}/{decision}", include_in_schema=False)
    def decide(entry: Entry, decision: Literal["accepted", "refused"]) -> Response:
        """Accept a row that waits, whose participant is registered, or refuse it."""
        waiting = trial.quarantined().set_index("entry")
        try:
            if decision == "refused":
                trial.refuse([entry])
            elif entry in waiting.index and waiting.loc[entry, "status"] == UNKNOWN:
                trial.register(waiting.loc[entry, "label"])
            else:
                trial.release([entry])
        except InputError as error:
            return HTMLResponse(pages.quarantine(trial, str(error), "../../"), 422)
        return RedirectResponse("../../quarantine", 303)

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
