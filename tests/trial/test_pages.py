"""The server's pages in Chromium: they can be read on a phone, and rows be decided about."""

import socket
import threading
import time

import numpy as np
import pandas as pd
import pytest
import uvicorn

from kem_pymc.trial import Trial
from kem_pymc.trial.service import create_app
from tests.chromium import NEEDS_CHROMIUM

pytestmark = NEEDS_CHROMIUM

TOKEN = "a token of some length"


@pytest.fixture(scope="module")
def served(evolutions, rows, tmp_path_factory):
    """A trial with what pages have to show, and the address of its server."""
    folder = tmp_path_factory.mktemp("pages")
    with Trial.create(f"sqlite:///{folder}/trial.db", evolutions, user="id", time="week") as trial:
        trial.add(
            rows[rows["id"] != "cid"].assign(id=rows["id"].replace("bob", "b/<o> b")), register=True
        )
        trial.register("cid")
        odd = [{"id": "ann", "week": 7, "steps": 1e6}, {"id": "dan", "week": 0, "steps": 1.0}]
        trial.add([*odd, {"id": "ann", "week": 8, "steps": None}])
        trial.update()
        trial.add([{"id": "ann", "week": 2, "steps": 0.5}])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        config = uvicorn.Config(create_app(trial, [TOKEN]), port=port, log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        yield trial, f"http://127.0.0.1:{port}"
        server.should_exit = True
        thread.join()


@pytest.fixture
def page(browser, served):
    """A page on a phone; whatever it complains of, or asks of others, fails the test."""
    options = {"viewport": {"width": 390, "height": 800}, "forced_colors": "active"}
    credentials = {"username": "nurse", "password": TOKEN}
    context = browser.new_context(http_credentials=credentials, **options)
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request",
        lambda request: (
            complaints.append(request.url)
            if not request.url.startswith((served[1], "data:"))
            else None
        ),
    )
    yield page
    context.close()
    refusals = "Failed to load resource"  # what Chromium says of answers that aren't a success
    assert [one for one in complaints if not one.startswith(refusals)] == []


def fits(page):
    """Only tables and pictures scroll sideways, within the page."""
    return page.evaluate("document.documentElement.scrollWidth") <= 390


def test_participants_are_found_with_their_lights(page, served):
    page.goto(served[1])
    assert fits(page)
    cells = [row.locator("td").all_inner_texts() for row in page.locator("tbody tr").all()]
    by_label = {row[0]: row[1:] for row in cells}
    assert list(by_label) == ["cid", "ann", "b/<o> b"]  # who needs someone comes first
    assert by_label["cid"][:2] == ["waiting for data", "0"]
    assert by_label["ann"][:4] == ["green", "5", "4", "5"]  # points, last week, next week
    assert "3 rows wait" in page.locator(".warning").inner_text()
    page.get_by_label("Label contains").fill("<o>")
    page.get_by_role("button", name="Show").click()
    assert page.locator("tbody tr").count() == 1
    page.get_by_role("link", name="b/<o> b").click()
    assert page.locator("h1").inner_text() == "b/<o> b"


def test_a_participant_has_curve_forecast_kernels_and_history(page, served):
    trial, address = served
    page.goto(f"{address}/page?label=ann")
    assert fits(page)
    picture = page.locator("figure svg").bounding_box()
    assert picture["width"] > 300
    forecast = [row.locator("td").all_inner_texts() for row in page.locator("tbody tr").all()]
    kernels, history, _ = (
        part.locator("li").all_inner_texts() for part in page.locator("ul").all()
    )
    assert [row[0] for row in forecast] == ["5", "6", "7"]
    selection = trial.selection("ann")
    predicted = selection.predict(np.array([[5.0], [6.0], [7.0]]), True, calibrated=True)
    shown = [[row[1], *row[2].split(" and ")] for row in forecast]
    expected = [predicted.quantile(p) for p in (0.5, 0.025, 0.975)]
    np.testing.assert_allclose(np.array(shown, dtype=float).T, expected, rtol=2e-3, atol=1e-3)
    assert "a straight line in week" in "".join(kernels)
    assert "is corrected" in "".join(history)
    assert "Selection" not in "".join(history)
    page.goto(f"{address}/page?label=cid")
    assert "There is no selection" in page.content()


def test_rows_that_wait_are_decided_about(page, served):
    trial, address = served
    page.goto(f"{address}/quarantine")
    assert fits(page)
    assert page.locator("article").count() == 3
    page.get_by_role("button", name="Accept row 13").click()  # whose cell is empty
    assert "steps" in page.get_by_role("alert").inner_text()
    page.get_by_role("button", name="Refuse row 13").click()
    page.get_by_role("button", name="Register dan").click()
    page.get_by_role("button", name="Accept row 11").click()
    assert page.url == f"{address}/quarantine"
    assert "No row waits" in page.content()
    assert "dan" in set(trial.participants()["label"])
    assert len(pd.Series(trial.quarantined()["entry"])) == 0


def test_another_site_cannot_decide(page, served):
    """A form of another site is sent with the browser's password, and refused."""
    trial, address = served
    trial.add([{"id": "ann", "week": 9, "steps": 1e6}])
    entry = trial.quarantined()["entry"].iloc[0]
    page.goto(address)
    other = f'<form method="post" action="{address}/quarantine/{entry}/accepted"></form>'
    page.set_content(other)
    page.goto("data:text/html," + other.replace('"', "'"))
    with page.expect_response(lambda response: "quarantine" in response.url) as found:
        page.evaluate("document.forms[0].submit()")
    assert found.value.status == 403
    assert list(trial.quarantined()["entry"]) == [entry]
