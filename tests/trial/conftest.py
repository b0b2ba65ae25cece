"""Trials in SQLite, and in PostgreSQL if `KEM_TEST_DATABASE` names a database."""

import json
import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import create_engine, make_url, text

from kem_pymc.data.scaling import Scaling
from kem_pymc.evolutions.novelty import EVEN
from kem_pymc.gp.calibration import NORMAL, Calibration
from kem_pymc.kernels.composition import Composition
from kem_pymc.population.shared_part import learn_shared
from kem_pymc.trial import Trial, schema, store
from tests.selection.conftest import learned  # noqa: F401
from tests.selection.pilots import pilot_cluster, user
from tests.selection.test_departure import pilot_users


@pytest.fixture(scope="session")
def evolutions(learned):  # noqa: F811
    """Evolutions of users who share a curve."""
    scaling = Scaling(np.zeros(1), np.ones(1), 1.0, 1.0)
    early = tuple(c for c in learned.clusters if c.parent == Composition())
    unshared = replace(learned, clusters=early, scaling=scaling)
    shared = learn_shared(scaling.apply(pilot_users()), "additive").process
    final = replace(unshared, shared=shared)
    wide = Calibration(tuple(2 * NORMAL), 30)
    parts = {"final": final, "unshared": unshared, "calibration": wide}
    return replace(final, clusters=learned.clusters, **parts)


@pytest.fixture(scope="session")
def rows():
    """Rows of three participants, with five weeks each."""
    parts = []
    for number, label in enumerate(("ann", "bob", "cid")):
        _, y = user(5, seed=number)
        parts.append(pd.DataFrame({"id": label, "week": np.arange(5.0), "steps": y}))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """Return the URL of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/trial.db"
        return
    server = os.environ.get("KEM_TEST_DATABASE")
    if not server:
        pytest.skip("KEM_TEST_DATABASE names no PostgreSQL database")
    schema = f"kem_{os.getpid()}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as db:
        db.execute(text(f"DROP SCHEMA IF EXISTS {schema} CASCADE"))
        db.execute(text(f"CREATE SCHEMA {schema}"))
    own = make_url(server).update_query_dict({"options": f"-csearch_path={schema}"})
    yield own.render_as_string(hide_password=False)
    with engine.connect() as db:
        db.execute(text(f"DROP SCHEMA {schema} CASCADE"))
    engine.dispose()


@pytest.fixture
def trial(url, evolutions):
    """A trial without participants."""
    created = Trial.create(url, evolutions, user="id", time="week")
    yield created
    created.close()


@pytest.fixture
def other(evolutions):
    """Evolutions in which users start with noise or a wave."""
    clusters = [
        pilot_cluster(draw, *cluster)
        for draw in (0, 1)
        for cluster in (
            ("WHITE", "WHITE", 3, 2.0),
            ("WHITE", "SE0", 5, 0.5),
            ("SE0", "SE0", 4, 1.0),
        )
    ]
    return replace(evolutions, clusters=tuple(clusters), novelty=EVEN)


def insert(trial, evolutions):
    """Add an artefact that wasn't learned."""
    with schema.writing(trial._store.engine) as db:
        return store.insert(
            db,
            schema.artefacts,
            hash=evolutions.content_hash,
            content=store.text_of(evolutions),
            versions=store.versions(),
            created=store.now(),
            about=json.dumps({"against": 1, "pilots": 8, "participants": 3, "rows": 15}),
        )
