"""The site, if it was built, in Chromium: from its files alone, on a phone, in the dark."""

from pathlib import Path

import pytest

from tests.chromium import NEEDS_CHROMIUM

SITE = Path(__file__).parents[1] / "docs" / "_build"

pytestmark = [
    *NEEDS_CHROMIUM,
    pytest.mark.skipif(
        not (SITE / "llms.txt").exists(),
        reason="the site isn't built: uv run --group docs sphinx-build docs docs/_build",
    ),
]

#: One page of each kind.
PAGES = (
    *("index", "which", "genindex", "examples/index", "examples/17_counts", "notebooks/1_kernels"),
    *("how-to/groups", "explanation/evidence", "reference/command-line", "reference/pitfalls"),
    *("reference/python", "reference/api/kem_pymc.KEMSelector"),
)

TOO_WIDE = """() => [document.documentElement, document.querySelector('.bd-article-container')]
  .some(element => element.scrollWidth > element.clientWidth)"""


@pytest.fixture
def page(browser):
    """A page on a phone, with what it asks of other hosts as `elsewhere`."""
    opened = browser.new_page(viewport={"width": 390, "height": 844})
    opened.elsewhere = []
    opened.on("request", lambda request: opened.elsewhere.append(request.url))
    yield opened
    opened.close()


def test_pages_are_as_wide_as_a_phone_and_need_no_network(page):
    for name in PAGES:
        page.goto((SITE / f"{name}.html").as_uri())
        assert not page.evaluate(TOO_WIDE), name
    assert [url for url in page.elsewhere if not url.startswith(("file:", "data:"))] == []


def test_search_is_opened_by_keys_and_finds_the_page(page):
    page.goto((SITE / "index.html").as_uri())
    page.keyboard.press("Tab")
    assert "skip" in page.evaluate("document.activeElement.textContent.toLowerCase()")
    page.keyboard.press("Control+k")
    page.keyboard.type("rate ratio counts")
    page.keyboard.press("Enter")
    page.locator("#search-results a", has_text="Counts by group").first.wait_for()
    assert page.locator("#search-results a", has_text="Groups").count() > 0


def test_it_is_dark_where_that_is_wanted(page):
    page.emulate_media(color_scheme="dark")
    page.goto((SITE / "index.html").as_uri())
    colours = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g)")
    assert max(map(int, colours[:3])) < 50
