"""Debian's Chromium, for pages."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium")

NEEDS_CHROMIUM = [
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
