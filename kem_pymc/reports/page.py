"""Render the HTML page from templates, with inline style and script and a security policy."""

import base64
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kem_pymc.reports import charts
from kem_pymc.reports.diagnostics import headers
from kem_pymc.reports.theme import Look
from kem_pymc.reports.users import coverage

#: Folder of the templates, style and script in this package.
FILES = "page_files"


def render(*, look: Look, **parts: Any) -> str:
    """Return the page as HTML; the templates escape all text that comes from data."""
    style = Markup(f"{_read('style.css')}\n{look.css()}")
    script = Markup(_read("script.js"))
    return (
        _environment()
        .get_template("page.html")
        .render(
            style=style,
            script=script,
            policy=policy(style, script),
            look=look,
            coverage=coverage,
            compositions=lambda user_reports: [
                m.composition for p in user_reports for m in p.moments
            ],
            continuous=lambda user_reports: any(
                m.predicted.continuous for p in user_reports for m in p.moments if m.predicted
            ),
            headers=headers(),
            **parts,
        )
    )


def policy(style: str, script: str) -> str:
    """Return a content security policy that allows only this style, this script and data images."""
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("kem_pymc.reports", FILES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["number"] = charts.number
    environment.filters["capital"] = lambda text: text[:1].upper() + text[1:]
    return environment


def _read(name: str) -> str:
    return files("kem_pymc.reports").joinpath(FILES, name).read_text("utf-8")
