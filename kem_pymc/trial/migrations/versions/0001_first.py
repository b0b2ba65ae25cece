"""The first tables."""

from typing import Any

from alembic import op
from sqlalchemy import Column, Float, ForeignKey, Integer, Text, UniqueConstraint

revision, down_revision = "0001", None


def upgrade() -> None:
    """Create the tables."""
    _create(
        "artefacts", _text("hash", unique=True), *map(_text, ("content", "versions", "created"))
    )
    _create("trial", Column("version", Integer, nullable=False), _text("roles"), _of("artefact"))
    _create(
        "participants",
        *(_text("label", unique=True), _of("artefact"), _text("registered"), _text("removed?")),
        Column("lease", Float, nullable=False),
    )
    _create("uploads", _text("key", unique=True), *map(_text, ("hash", "received")))
    _create(
        "entries",
        *(_of("upload", index=True), Column("number", Integer, nullable=False)),
        *(_text("label", index=True), *map(_text, ("content?", "hash", "status", "reason"))),
    )
    _create(
        "observations",
        _of("participant", index=True),
        Column("entry", Integer, ForeignKey("entries.id"), nullable=False),
        *map(_text, ("time", "content?", "state")),
    )
    _create(
        "selections",
        *(_of("participant", index=True), _of("artefact")),
        *(Column(name, Integer, nullable=False) for name in ("number", "time_step", "points")),
        *(*map(_text, ("observations?", "data_hash")), Column("previous", Integer)),
        *(_text("composition?"), Column("log_evidence", Float)),
        *map(_text, ("answer", "severity", "reason", "content?", "hash")),
        *(Column("seconds", Float, nullable=False), *map(_text, ("versions", "created"))),
        UniqueConstraint("participant", "number"),
    )
    _create(
        "predictions",
        *(_of("participant", index=True), _of("selection")),
        *map(_text, ("inputs?", "served?", "created")),
    )
    _create(
        "events",
        *(_text("at"), _text("label?", index=True), _text("kind"), _text("text")),
    )


def _create(name: str, *columns: Any) -> None:
    op.create_table(name, Column("id", Integer, primary_key=True, autoincrement=True), *columns)


def _of(name: str, index: bool = False) -> Column[int]:
    return Column(name, Integer, ForeignKey(f"{name}s.id"), nullable=False, index=index)


def _text(name: str, **options: Any) -> Column[str]:
    """Return a column of text, which may be null if its name ends in a question mark."""
    return Column(name.rstrip("?"), Text, nullable=name.endswith("?"), **options)
