"""Tables of a trial's database, the same in SQLite and PostgreSQL.

Entries, selections, predictions and events are only ever added. What changes is whether an
observation is live, and, when consent is withdrawn, that a participant's data become null: hashes
stay. Times are UTC in ISO 8601. Structured values are JSON text.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    event,
    make_url,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from kem_pymc.errors import InputError

#: Seconds for which a writer waits for another one.
PATIENCE = 60

#: Seconds between the parts of an upload, in which others write.
PAUSE = 0.01

#: Seconds to wait after each loss of the connection, such as a server's restart, before it is lost.
WAITS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)

#: States by which PostgreSQL says that two transactions wait for each other, and undid one.
DEADLOCKS = ("40P01", "40001")

tables = MetaData()


def _id() -> Column[int]:
    return Column("id", Integer, primary_key=True, autoincrement=True)


def _of(name: str, **options: Any) -> Column[int]:
    return Column(name, ForeignKey(f"{name}s.id"), **options)


artefacts = Table(
    "artefacts",
    tables,
    _id(),
    Column("hash", Text, nullable=False, unique=True),  # of the content of evolutions.json
    Column("content", Text, nullable=False),
    Column("versions", Text, nullable=False),
    Column("created", Text, nullable=False),
    Column("about", Text),  # what it was learned from anew, and how it differs
)

#: One row: what columns of uploads mean, and the artefact of new participants.
trial = Table(
    "trial",
    tables,
    _id(),
    Column("roles", Text, nullable=False),
    _of("artefact", nullable=False),
)

participants = Table(
    "participants",
    tables,
    _id(),
    Column("label", Text, nullable=False, unique=True),
    _of("artefact", nullable=False),
    Column("registered", Text, nullable=False),
    Column("removed", Text),
    Column("lease", Float, nullable=False),  # until when an updater has it, by time()
)

uploads = Table(
    "uploads",
    tables,
    _id(),
    Column("key", Text, nullable=False, unique=True),
    Column("hash", Text, nullable=False),
    Column("received", Text, nullable=False),
)

#: A row of an upload, and what became of it.
entries = Table(
    "entries",
    tables,
    _id(),
    _of("upload", nullable=False, index=True),
    Column("number", Integer, nullable=False),
    Column("label", Text, nullable=False, index=True),
    Column("content", Text),
    Column("hash", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text, nullable=False),
)

#: What selections use: accepted entries, one of which is live at each time of a participant.
observations = Table(
    "observations",
    tables,
    _id(),
    _of("participant", nullable=False, index=True),
    Column("entry", ForeignKey("entries.id"), nullable=False),
    Column("time", Text, nullable=False),
    Column("content", Text),  # inputs, target, noise and size
    Column("state", Text, nullable=False),  # live, superseded, withdrawn or removed
)

selections = Table(
    "selections",
    tables,
    _id(),
    _of("participant", nullable=False, index=True),
    _of("artefact", nullable=False),
    Column("number", Integer, nullable=False),  # of the participant's selections, from 0
    Column("time_step", Integer, nullable=False),
    Column("points", Integer, nullable=False),
    Column("observations", Text),
    Column("data_hash", Text, nullable=False),
    Column("previous", Integer),
    Column("composition", Text),
    Column("log_evidence", Float),
    Column("answer", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("content", Text),
    Column("outcome", Text),  # how its last time step compares with what was predicted before
    Column("hash", Text, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("versions", Text, nullable=False),
    Column("created", Text, nullable=False),
    UniqueConstraint("participant", "number"),
)

predictions = Table(
    "predictions",
    tables,
    _id(),
    _of("participant", nullable=False, index=True),
    _of("selection", nullable=False),
    Column("inputs", Text),
    Column("served", Text),
    Column("created", Text, nullable=False),
)

events = Table(
    "events",
    tables,
    _id(),
    Column("at", Text, nullable=False),
    Column("label", Text, index=True),
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
)


def shown(url: str) -> str:
    """Return a database's URL for messages, without its password."""
    try:
        return make_url(url).render_as_string()
    except ArgumentError:
        return url


def connected(url: str) -> Engine:
    """Return an engine for a database; in SQLite, readers never wait for a writer.

    Raises
    ------
    InputError
        If the URL isn't one that SQLAlchemy reads, or its driver isn't installed.
    """
    try:
        # Connections are kept: to close a file's last one writes its log back, and takes long.
        engine = create_engine(url, pool_pre_ping=True)
    except (ArgumentError, ImportError) as error:
        raise InputError(
            f"{shown(url)} can't be opened ({str(error).splitlines()[0]}). Give the "
            "URL of a database, like sqlite:///trial.db."
        ) from error
    if engine.dialect.name == "sqlite":
        # Python's own handling of transactions would begin them late, with a shared lock.
        @event.listens_for(engine, "connect")
        def set_up(connection: Any, _: Any) -> None:
            connection.isolation_level = None
            for pragma in ("journal_mode=WAL", "foreign_keys=ON", "synchronous=FULL"):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute(f"PRAGMA busy_timeout={1000 * PATIENCE}")

        @event.listens_for(engine, "begin")
        def begin(connection: Any) -> None:
            if connection.get_execution_options().get("writing"):
                _begin_writing(connection)

    return engine


def _begin_writing(connection: Connection) -> None:
    """Begin to write in SQLite, when no one else does.

    SQLite itself would look every 100 ms, and always miss the pauses of an upload of many parts.
    """
    until = time.monotonic() + PATIENCE
    connection.exec_driver_sql("PRAGMA busy_timeout=0")
    try:
        while True:
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                return
            except OperationalError as error:
                busy = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > until:
                    raise
            time.sleep(PAUSE / 2)
    finally:
        connection.exec_driver_sql(f"PRAGMA busy_timeout={1000 * PATIENCE}")


def lasting[**P, T](function: Callable[P, T]) -> Callable[P, T]:
    """Call a function again if the connection to the database was lost, or there was a deadlock.

    The function must be harmless if it is called twice: whether a transaction was committed isn't
    known where the connection is lost at its end.
    """

    @wraps(function)
    def again(*args: P.args, **options: P.kwargs) -> T:
        for wait in WAITS:
            try:
                return function(*args, **options)
            except DBAPIError as error:
                # Without a statement, there was no connection at all.
                lost = error.connection_invalidated or error.statement is None
                if not (lost or getattr(error.orig, "sqlstate", None) in DEADLOCKS):
                    raise
                time.sleep(wait)
        return function(*args, **options)

    return again


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Give a connection in a transaction: all that the block writes is written, or nothing."""
    with engine.connect() as db, db.execution_options(writing=True).begin():
        yield db


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Give a connection that waits for no writer."""
    with engine.connect() as db:
        yield db.execution_options(isolation_level="AUTOCOMMIT")
