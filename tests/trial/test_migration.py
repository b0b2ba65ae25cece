"""Databases of older versions: what is in them stays, and what can't be read is refused."""

import numpy as np
import pandas as pd
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import MetaData, create_engine, text
from sqlalchemy.exc import DBAPIError

from kem_pymc.trial import Trial, migration, schema
from tests.refusals import refused


def test_migrations_make_the_tables_that_are_used(url, evolutions):
    Trial.create(url, evolutions, user="id", time="week").close()
    engine = create_engine(url)
    with engine.connect() as db:
        assert compare_metadata(MigrationContext.configure(db), schema.tables) == []
    engine.dispose()


def test_an_older_database_is_upgraded_whole(trial, rows, url, monkeypatch):
    """The contents of a trial are put into the first version's tables, and upgraded."""
    trial.add(rows[:10], register=True)
    trial.update()
    before = trial.selections(), trial.history("ann"), trial.predict("ann", [[6.0]]).prediction
    found = {
        table.name: trial._store.table(table.select()) for table in schema.tables.sorted_tables
    }
    trial.close()
    engine = create_engine(url)
    with schema.writing(engine) as db:
        schema.tables.drop_all(db)
        db.execute(text("DROP TABLE alembic_version"))
        command.upgrade(migration._config(db), migration.FIRST)
        db.execute(text("DROP TABLE alembic_version"))  # which the first version didn't have
        older = MetaData()
        older.reflect(db)
        for table in schema.tables.sorted_tables:
            content = found[table.name].astype(object).where(found[table.name].notna(), None)
            content = content.sort_values("id").drop(columns="id")  # numbers are given anew
            if table.name not in older.tables or not len(content):
                continue
            known = [name for name in content if name in older.tables[table.name].columns]
            more = {"version": 1} if table.name == "trial" else {}
            rows_of = [{**row, **more} for row in content[known].to_dict("records")]
            db.execute(older.tables[table.name].insert(), rows_of)
    refused(lambda: Trial.open(url), "older version", "kem trial upgrade")
    with monkeypatch.context() as planted:
        planted.setattr(migration, "upgrade", failing_after(migration.upgrade))
        with pytest.raises(ArithmeticError):
            Trial.upgrade(url)
    refused(lambda: Trial.open(url), "older version")  # nothing was half done
    Trial.upgrade(url)
    Trial.upgrade(url)
    with Trial.open(url) as again:
        pd.testing.assert_frame_equal(again.selections(), before[0])
        pd.testing.assert_frame_equal(again.history("ann"), before[1])
        after = again.predict("ann", [[6.0]]).prediction
        np.testing.assert_array_equal(after.mean, before[2].mean)
        assert again.replay() is None
    with engine.begin() as db:
        db.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for asked in (Trial.open, Trial.upgrade):
        refused(lambda asked=asked: asked(url), "newer version")
    engine.dispose()


def failing_after(whole):
    def planted(db):
        whole(db)
        raise ArithmeticError("planted")

    return planted


def test_deadlocks_and_lost_connections_are_tried_again_and_nothing_else():
    class Original(Exception):
        sqlstate = ""

    def calls(state, statement, invalidated):
        original, made = Original(), []
        original.sqlstate = state

        @schema.lasting
        def once_wrong():
            made.append(1)
            if len(made) == 1:
                raise DBAPIError(statement, {}, original, connection_invalidated=invalidated)

        try:
            once_wrong()
        except DBAPIError:
            return None
        return len(made)

    assert calls("40P01", "UPDATE", False) == 2
    assert calls("", "UPDATE", True) == 2
    assert calls("", None, False) == 2
    assert calls("23505", "UPDATE", False) is None


def test_passwords_are_in_no_message():
    url = "postgresql+psycopg://postgres:geheim@127.0.0.1:1/none"
    for asked in (Trial.open, Trial.upgrade):
        assert "geheim" not in refused(lambda asked=asked: asked(url), "can't be used")
