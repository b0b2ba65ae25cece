"""The page in Chromium: it renders, answers pointer and keys, fetches nothing, and fits a phone."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

import numpy as np
import pytest
from matplotlib.image import imread

from kem_pymc.reports.report import report

CHROMIUM = shutil.which("chromium")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None, reason="Chromium isn't installed: apt-get install chromium"
    ),
]

#: No sandbox for root, and nothing that a browser does of its own accord.
ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

#: Whether exactly these compositions' details are open.
OPEN = """expected => {
  const kernels = [...document.querySelectorAll("details.kernel")];
  return kernels.every((kernel, i) => kernel.open === expected.includes(i));
}"""


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield opened
        opened.close()


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


def drawn(page, selector):
    return page.locator(selector).first.bounding_box()


def test_it_renders(browser, address):
    with shown(browser, address) as page:
        assert "how kernels evolve" in page.locator("h1").inner_text()
        box = drawn(page, "svg.graph")
        assert box["width"] > 100
        assert box["height"] > 20
        for selector in (
            ".stage:not(.narrow) a.node",
            ".stage:not(.narrow) a.edge",
            ".tiles .tile",
            ".heat td",
        ):
            assert drawn(page, selector)["width"] > 0
        page.locator("#pilot-1 > summary").click()
        assert drawn(page, "#pilot-1 .chart")["width"] > 150
        assert page.locator("#pilot-1 .cross").count() == 3


def test_boxes_hold_their_text(browser, address):
    with shown(browser, address) as page:
        for node in page.locator(".stage:not(.narrow) a.node").all():
            frame = node.locator("rect.ground").bounding_box()
            for text in node.locator("text").all():
                box = text.bounding_box()
                assert frame["x"] - 1 <= box["x"]
                assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 1


@pytest.mark.parametrize("kind", ["node", "edge"])
def test_hovering_tells_what_is_behind(browser, address, kind):
    with shown(browser, address) as page:
        target, tip = page.locator(f".stage:not(.narrow) a.{kind}").last, page.locator("#tip")
        assert not tip.is_visible()
        target.locator("text").last.hover()
        assert tip.is_visible()
        assert tip.inner_text() == target.get_attribute("data-tip")
        box = tip.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 1200
        page.keyboard.press("Escape")
        assert not tip.is_visible()
        target.locator("text").last.hover(position={"x": 1, "y": 1})
        page.mouse.move(1, 1)
        assert not tip.is_visible()


@pytest.mark.parametrize("kind", ["node", "edge"])
@pytest.mark.parametrize("way", ["click", "Enter", " "])
def test_choosing_opens_members_and_pictures(browser, address, kind, way):
    with shown(browser, address, reduced_motion="reduce") as page:
        assert page.locator("details.kernel[open]").count() == 0
        target = page.locator(f".stage:not(.narrow) a.{kind}").last
        if way == "click":
            target.locator("text").last.click()
        else:
            target.focus()
            page.keyboard.press(way)
        page.wait_for_selector("details.kernel[open]")
        assert page.locator("details.kernel[open]").count() == 1
        place = page.locator(target.get_attribute("href"))
        assert place.is_visible()
        assert 0 <= place.bounding_box()["y"] < 900
        assert page.locator("details.kernel[open] .chart").first.is_visible()
        assert page.evaluate("document.activeElement.closest('details.kernel') !== null")
        # Another choice closes the first one. (The page hears of it after the click is over.)
        page.locator(".stage:not(.narrow) a.node").first.locator("text").first.click()
        page.wait_for_function(OPEN, arg=[0])


def test_pictures_of_a_cluster_look_like_those_of_its_users(browser, address):
    with shown(browser, address, reduced_motion="reduce") as page:
        page.locator(".stage:not(.narrow) a.node").first.locator("text").first.click()
        again = page.locator("details.kernel[open] svg:has(use)").first
        original = page.locator(again.locator("use").get_attribute("href"))
        original.evaluate("node => node.closest('details').open = true")
        pair = [picture.screenshot() for picture in (again, original.locator("xpath=.."))]
        means = [imread(BytesIO(png))[..., :3].mean(axis=(0, 1)) for png in pair]
        # Without the style, areas would be black.
        np.testing.assert_allclose(*means, atol=0.02)
        assert means[0].min() > 0.5


def test_keyboard_reaches_everything_in_order(browser, address):
    with shown(browser, address) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert drawn(page, ".skip")["x"] >= 0
        stops = page.locator(
            "nav.toc a, #short > .verdict a, #short .wide, #words > summary"
        ).count()
        for _ in range(stops + 2):
            page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.classList.contains('node')")
        tip = page.locator("#tip")
        assert tip.is_visible()
        assert "noise only" in tip.inner_text()


@pytest.mark.parametrize("width", [360, 768])
def test_nothing_is_wider_than_the_screen(browser, address, width):
    options = {"viewport": {"width": width, "height": 740}, "reduced_motion": "reduce"}
    with shown(browser, address, **options) as page:
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # What is for the ear only lies within what scrolls, however wide a table gets.
        inside = "node => node.offsetParent.closest('.wide') !== null"
        hidden = page.locator(".unseen").all()
        assert hidden
        assert all(node.evaluate(inside) for node in hidden)
        target = page.locator(".stage:visible a.node").last
        target.focus()
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Tab")
        box = page.locator("#tip").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width


def test_the_graph_fits_a_phone_and_can_be_read(browser, address):
    """Catches a graph that scrolls sideways, is shrunk or leaves its boxes, and two at once."""
    with shown(browser, address, viewport={"width": 390, "height": 844}) as page:
        stage = page.locator(".stage:visible")
        assert stage.count() == 1
        assert stage.evaluate("node => node.scrollWidth <= node.clientWidth")
        box = stage.locator("svg").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        scale = box["width"] / float(stage.locator("svg").get_attribute("viewBox").split()[2])
        assert scale > 0.95  # titles have 9 pixels, notes 7.5
        for node in stage.locator("a.node").all():
            frame = node.locator("rect.ground").bounding_box()
            for text in node.locator("text").all():
                inside = text.bounding_box()
                assert frame["x"] - 1 <= inside["x"]
                assert inside["x"] + inside["width"] <= frame["x"] + frame["width"] + 1
                assert inside["y"] + inside["height"] <= frame["y"] + frame["height"] + 1
        stage.locator("a.node").first.locator("text").first.click()
        page.wait_for_selector("details.kernel[open]")
    with shown(browser, address) as page:
        assert page.locator(".stage:visible").count() == 1


def test_dark_mode_has_other_colours(browser, address):
    grounds = []
    for scheme in ("light", "dark"):
        with shown(browser, address, color_scheme=scheme) as page:
            ground, ink = (
                page.evaluate(f"getComputedStyle(document.body).{name}")
                for name in ("backgroundColor", "color")
            )
            grounds.append(sum(map(int, re.findall(r"\d+", ground)[:3])))
            assert (sum(map(int, re.findall(r"\d+", ink)[:3])) > grounds[-1]) == (scheme == "dark")
    assert grounds[0] > 700 > 100 > grounds[1]


def test_without_javascript_everything_is_there(browser, address):
    with shown(browser, address, java_script_enabled=False) as page:
        assert (
            page.locator("details.kernel[open]").count() == page.locator("details.kernel").count()
        )
        target = page.locator(".stage:not(.narrow) a.node").last
        place = page.locator(target.get_attribute("href"))
        assert place.locator("table").first.is_visible()
        target.locator("text").last.click()
        page.wait_for_url(f"**{target.get_attribute('href')}")
        page.locator("#pilot-1 > summary").click()
        assert page.locator("#pilot-1 .chart").first.is_visible()
