"""The page: nothing is fetched or run but its own style and script."""

import re

from kem_pymc.reports.page import policy
from tests.reports.conftest import FEATURE, TARGET, USER


def test_nothing_is_fetched(html, page):
    for name, attributes in page.elements:
        assert name not in ("img", "iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        if name == "use":
            assert attributes["href"].startswith("#")
    assert [a["href"] for a in page.all("link")] == ["data:,"]
    assert "@import" not in html
    assert "url(" not in html
    assert all(a.get("rel") for a in page.all("a") if not a["href"].startswith("#"))


def test_the_policy_is_that_of_this_style_and_script(html, page):
    style, script = (
        re.search(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)[1] for tag in ("style", "script")
    )
    (meta,) = [a for a in page.all("meta") if a.get("http-equiv")]
    assert meta["content"] == policy(style, script)
    assert "unsafe" not in meta["content"]
    assert not [n for _, a in page.elements for n in a if n == "style" or n.startswith("on")]


def test_names_from_data_are_text_and_nothing_else(html, page):
    assert len(page.all("script")) == 1
    for name in (USER, FEATURE, TARGET, "kem fit <b>"):
        assert " ".join(name.split()) in page.text
        assert name not in html
    assert page.all("b") == page.all("img") == []
