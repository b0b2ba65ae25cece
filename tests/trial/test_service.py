"""The server: who may ask, what is answered, and that nothing within is shown."""

import base64
import contextlib
import json
import threading

import numpy as np
import pandas as pd
import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from sqlalchemy import create_engine, text

from kem_pymc.selection.kem import KEMSelector
from kem_pymc.trial import Trial
from kem_pymc.trial.service import create_app
from tests.refusals import refused
from tests.shown import Page

#: Columns of predictions that aren't parts of the mean.
KNOWN = ("mean", "sd", "low_95", "median", "high_95")

TOKEN = "a token of some length"


@pytest.fixture(scope="module")
def client(evolutions, tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    with Trial.create(f"sqlite:///{folder}/trial.db", evolutions, user="id", time="week") as trial:
        app = create_app(trial, ["another token, which is long", TOKEN])
        with TestClient(app, raise_server_exceptions=False) as one:
            one.headers["Authorization"] = f"Bearer {TOKEN}"
            one.trial = trial
            yield one


def test_only_who_has_a_token_is_answered(client):
    basic = base64.b64encode(f"nurse:{TOKEN}".encode()).decode()
    for header, status in {
        f"Bearer {TOKEN}": 200,
        f"Basic {basic}": 200,
        "Bearer a token of some lengthy": 401,
        "Bearer ": 401,
        "Basic ????": 401,
        "": 401,
    }.items():
        for path in ("/", "/participants", "/openapi.json", "/nowhere"):
            found = client.get(path, headers={"Authorization": header}).status_code
            assert found == (404 if (path, status) == ("/nowhere", 200) else status)
    assert client.get("/health", headers={"Authorization": ""}).status_code == 200
    refused(lambda: create_app(client.trial, ["short"]), "too short")


def test_from_rows_to_predictions_and_pages(client, rows):
    assert client.put("/participants/a%20n").json() == {"registered": "a n"}
    assert client.put("/participants/a%20n").status_code == 422
    own = rows[:5].assign(id="a n")
    odd = {"id": "a n", "week": 8, "steps": 1e6, "<b>": "<script>"}
    given = [*own.to_dict("records"), odd]
    answer = client.post("/uploads", json={"rows": given, "key": "k"}).json()
    assert [one["status"] for one in answer["entries"]] == ["accepted"] * 5 + ["quarantined"]
    assert client.post("/uploads", json={"rows": given, "key": "k"}).json()["repeated"]
    assert len(client.get("/waiting").json()) == 1
    assert len(client.post("/updates", json={"seconds": 0}).json()) == 0
    assert len(client.post("/updates").json()) == 5
    coming = {"rows": [{"week": 5}, {"week": 6.5}]}
    found = client.post("/participants/a%20n/predictions", json=coming).json()
    expected = client.trial.predict("a n", np.array([[5.0], [6.5]])).prediction
    assert [row["mean"] for row in found["rows"]] == pytest.approx(expected.mean)
    assert [row["high_95"] for row in found["rows"]] == pytest.approx(expected.quantile(0.975))
    parts = [sum(row.values()) - sum(row[name] for name in KNOWN) for row in found["rows"]]
    assert parts == pytest.approx(expected.mean)
    assert (found["answer"], found["severity"]) == ("selected", "green")
    assert len(client.get("/participants/a%20n/selections").json()) == 5
    overview, own_page = client.get("/"), client.get("/page?label=a%20n")
    assert "1 row waits" in overview.text
    assert Page(overview.text).tables[-1][1][:3] == ["a n", "green", "5"]
    assert "<svg" in own_page.text
    assert "Selection 5 from 5 points" in Page(own_page.text).text
    assert "<script>" not in overview.text + own_page.text
    entry = client.get("/waiting").json()[0]["entry"]
    assert client.post(f"/waiting/{entry}").json() == {"released": entry}
    assert client.post(f"/waiting/{entry}").status_code == 422
    assert client.delete("/participants/a%20n").status_code == 200
    assert client.post("/participants/a%20n/predictions", json=coming).status_code == 422
    assert "There is no selection" in client.get("/page?label=a%20n").text


def test_predictions_go_on_while_an_update_runs(client, rows, monkeypatch):
    client.post("/uploads", json={"rows": rows.to_dict("records"), "register": True})
    assert len(client.post("/updates").json()) == 15
    client.post("/uploads", json={"rows": [{"id": "ann", "week": 1, "steps": 0.5}]})
    waits, let = threading.Event(), threading.Event()
    whole = KEMSelector.select

    def slow(*a, **b):
        waits.set()
        assert let.wait(30)
        return whole(*a, **b)

    monkeypatch.setattr(KEMSelector, "select", slow)
    update = threading.Thread(target=lambda: client.post("/updates"))
    update.start()
    assert waits.wait(30)
    coming = {"rows": [{"week": 5}]}
    for label in ("ann", "bob"):
        assert client.post(f"/participants/{label}/predictions", json=coming).status_code == 200
    assert client.post(
        "/uploads", json={"rows": [{"id": "bob", "week": 2.5, "steps": 1}]}
    ).is_success
    let.set()
    update.join()
    assert client.get("/participants/ann/selections").json()[-1]["time_step"] == 4


def test_nothing_within_is_shown(client, monkeypatch, caplog):
    def failing(*_, **__):
        raise RuntimeError("secret 4711")

    for name, path in {"participants": "/participants", "quarantined": "/waiting"}.items():
        with monkeypatch.context() as patch:
            patch.setattr(Trial, name, failing)
            answer = client.get(path)
        assert answer.status_code == 500
        assert answer.json() == {"detail": "The server failed. Nothing was changed."}
    assert "4711" not in caplog.text
    assert "RuntimeError" in caplog.text
    large = client.post("/uploads", headers={"Content-Length": "99999999"}, content=b"{}")
    assert large.status_code == 413


def test_a_database_that_is_gone_is_said_so(evolutions, rows, tmp_path, caplog):
    """Neither rows nor addresses of the database are shown or logged."""
    with Trial.create(f"sqlite:///{tmp_path}/trial.db", evolutions, user="id", time="week") as one:
        app = create_app(one, [])
        with TestClient(app, raise_server_exceptions=False) as client:
            engine = create_engine(f"sqlite:///{tmp_path}/trial.db")
            with engine.begin() as db:
                db.execute(text("ALTER TABLE uploads RENAME TO elsewhere"))
            engine.dispose()
            answer = client.post("/uploads", json={"rows": rows.to_dict("records")})
    assert answer.status_code == 503
    assert answer.json() == {"detail": "The database can't be reached. Try again."}
    assert "INSERT" not in caplog.text
    assert "the database failed" in caplog.text


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text())
ANYTHING = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
ALMOST = st.fixed_dictionaries(
    {
        "rows": st.lists(
            st.fixed_dictionaries(
                {}, optional=dict.fromkeys(("id", "week", "steps"), LEAVES | ANYTHING)
            )
        )
    },
    optional={"key": LEAVES, "register": LEAVES, "seconds": LEAVES},
)
PATHS = ("/uploads", "/updates", "/participants/x/predictions", "/waiting/3", "/waiting/-1")


#: Numbers of requests: short, and whole.
REQUESTS = [60, pytest.param(2500, marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", REQUESTS)
def test_no_request_is_a_fault(client, count):
    """Whatever is sent, the answer is one that the documents have, and the store holds."""

    @settings(max_examples=count, deadline=None, derandomize=True)
    @given(path=st.sampled_from(PATHS), body=ALMOST | ANYTHING, label=st.text(min_size=1))
    def ask(path, body, label):
        sent = {"content": json.dumps(body), "headers": {"Content-Type": "application/json"}}
        answer = client.post(path, **sent)
        assert answer.status_code in (200, 404, 405, 411, 413, 422), answer.text
        quoted = label.encode("utf-8", "replace").hex("%")
        for kind in ("history", "selections"):
            answer = client.get(f"/participants/%{quoted}/{kind}")
            assert answer.status_code in (200, 307, 404, 422)

    ask()
    assert client.trial.replay() is None


@pytest.mark.parametrize("count", [6, pytest.param(300, marks=pytest.mark.slow)])
def test_answers_are_those_that_the_interface_describes(client, count):
    """Schemathesis makes requests, right and wrong ones, from the server's own description."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    described = schemathesis.openapi.from_asgi(
        "/openapi.json", client.app, headers=dict(client.headers)
    )
    conforms = (
        *(not_a_server_error, checks.status_code_conformance),
        *(checks.content_type_conformance, checks.response_schema_conformance),
    )
    asked = set()
    for found in described.get_all_operations():
        operation = found.ok()
        for mode in schemathesis.GenerationMode:

            @settings(
                max_examples=count,
                deadline=None,
                derandomize=True,
                suppress_health_check=[*HealthCheck],
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def ask(case):
                case.call_and_validate(checks=conforms, headers=dict(client.headers))

            with contextlib.suppress(Unsatisfiable):  # without parameters, nothing can be wrong
                ask()
        asked.add((operation.method, operation.path))
    assert len(asked) >= 12


def test_the_pages_can_be_read_on_a_phone(client, rows):
    """Lights have words and shapes, not colours alone; the tables scroll within the page."""
    client.post("/uploads", json={"rows": rows.to_dict("records"), "register": True})
    page = client.get("/").text
    assert 'name="viewport"' in page
    for light in ("green", "yellow", "red"):
        assert f".{light}::before" in page
    assert page.count('class="wide"') == page.count("<table") == 1
    assert (
        pd.Series([row[1] for row in Page(page).tables[-1][1:]])
        .isin(["green", "yellow", "red", "removed", "waiting for data"])
        .all()
    )
