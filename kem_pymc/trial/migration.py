"""The version of a database's tables, and the way from an older one to this."""

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from kem_pymc.errors import InputError
from kem_pymc.trial import schema

#: Version of databases that don't say which they have.
FIRST = "0001"


def _config(db: Connection) -> Config:
    config = Config(attributes={"connection": db})
    config.set_main_option("script_location", "kem_pymc.trial:migrations")
    return config


def version_of(db: Connection) -> str | None:
    """Return the version of a database's tables; None if it has no trial."""
    if not inspect(db).has_table(schema.trial.name):
        return None
    return MigrationContext.configure(db).get_current_revision() or FIRST


def check_known(db: Connection, url: str) -> None:
    """Check that a database has a trial, with tables of this version or an older one.

    Raises
    ------
    InputError
        If it has none, or one of a newer version.
    """
    found, scripts = version_of(db), ScriptDirectory.from_config(_config(db))
    if found is None:
        raise no_trial(url)
    if found not in {script.revision for script in scripts.walk_revisions()}:
        raise InputError(
            f"The trial in {schema.shown(url)} was made by a newer version of kem_pymc. "
            "Update kem_pymc."
        )


def check_current(db: Connection, url: str) -> None:
    """Check that a database has a trial, with tables of this version.

    Raises
    ------
    InputError
        If it has none, or one of another version.
    """
    check_known(db, url)
    if version_of(db) != ScriptDirectory.from_config(_config(db)).get_current_head():
        raise InputError(
            f"The trial in {schema.shown(url)} was made by an older version of kem_pymc. "
            f"Copy the database, then run `kem trial upgrade --db {schema.shown(url)}`."
        )


def no_trial(url: str) -> InputError:
    """Return the error for a database without a trial."""
    return InputError(
        f"There is no trial in {schema.shown(url)}. Create one first, or give another database."
    )


def upgrade(db: Connection) -> None:
    """Create the tables of a trial, or change older ones to this version's."""
    if version_of(db) == FIRST:
        command.stamp(_config(db), FIRST)
    command.upgrade(_config(db), "head")
