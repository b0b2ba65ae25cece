"""The page in Chromium: it renders, its links work, it fetches nothing, and fits a phone."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

import numpy as np
import pytest
from matplotlib.image import imread

from kem_pymc.plots.report.report import report
from tests.chromium import NEEDS_CHROMIUM

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module", params=["study", "wide_study"])
def address(request, tmp_path_factory):
    folder = request.getfixturevalue(request.param)
    return report(folder, tmp_path_factory.mktemp("page") / "r.html").as_uri()


@contextmanager
def shown(browser, address, **options) -> Iterator:
    """Show the page; whatever it complains of, or asks the network for, fails the test."""
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}} | options)
    page = context.new_page()
    complaints, asked = [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    try:
        yield page
        assert complaints == []
        assert [url for url in asked if not url.startswith("data:")] == [address]
    finally:
        context.close()


def test_pictures_are_drawn_and_fit_the_page(browser, address):
    """Catches pictures without a size, without ink, or wider than their page."""
    with shown(browser, address) as page:
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        pictures = page.locator("svg").all()
        assert len(pictures) > 5
        for picture in pictures:
            box = picture.bounding_box()
            assert box["width"] > 150
            assert box["height"] > 50
            assert box["x"] + box["width"] <= 1200
        image = imread(BytesIO(page.locator("#pilots details svg").first.screenshot()))
        assert image[..., :3].mean() > 0.7  # without their rules, shapes would be black
        assert np.ptp(image[..., :3]) > 0.8


@pytest.mark.parametrize("way", ["click", "Enter"])
def test_a_box_of_the_graph_opens_its_kernel(browser, address, way):
    """Without any script: the browser opens what holds the target of a link."""
    with shown(browser, address, reduced_motion="reduce") as page:
        assert page.locator("details[open]").count() == 0
        link = page.locator("#graph svg a").last
        if way == "click":
            link.click()
        else:
            link.focus()
            page.keyboard.press(way)
        place = page.locator(link.get_attribute("href"))
        place.wait_for(state="visible")
        assert page.locator("details[open]").count() == 1


def test_keyboard_reaches_everything_in_order(browser, address):
    with shown(browser, address) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.locator(".skip").bounding_box()["x"] >= 0
        for _ in range(page.locator("nav a").count() + 1):
            page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('main') !== null")


@pytest.mark.parametrize("width", [390, 768])
def test_nothing_is_wider_than_the_screen(browser, address, width):
    with shown(browser, address, viewport={"width": width, "height": 740}) as page:
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_pictures_can_be_read_on_a_phone(browser, address):
    """Fails where a picture is made as narrow as the screen, with text of three pixels."""
    with shown(browser, address, viewport={"width": 390, "height": 740}) as page:
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        for picture in page.locator("figure > svg").all():
            own = float(picture.get_attribute("width").removesuffix("pt")) * 4 / 3
            assert picture.bounding_box()["width"] >= min(own, 640) - 1


def test_dark_mode_has_other_colours_but_white_pictures(browser, address):
    grounds = []
    for scheme in ("light", "dark"):
        with shown(browser, address, color_scheme=scheme) as page:
            ground, ink, picture = (
                sum(map(int, re.findall(r"\d+", page.evaluate(script))[:3]))
                for script in (
                    "getComputedStyle(document.body).backgroundColor",
                    "getComputedStyle(document.body).color",
                    "getComputedStyle(document.querySelector('figure > svg')).backgroundColor",
                )
            )
            grounds.append(ground)
            assert (ink > ground) == (scheme == "dark")
            assert picture == 3 * 255
    assert grounds[0] > 700 > 100 > grounds[1]
