"""The page as text: what it holds, what it leaves out, what it escapes, what it refuses."""

import shutil

import pandas as pd
import pytest

from kem_pymc.reports import users
from kem_pymc.reports.report import report
from tests.refusals import refused
from tests.reports.conftest import USER, Page


def test_all_sections_are_there(page):
    sections = [a["id"] for a in page.all("section")]
    assert sections == [
        *(
            "short",
            "graph",
            "shared",
            "kernels",
            "parts",
            "pilots",
            "new",
            "diagnostics",
            "study",
            "cite",
        )
    ]
    assert len(page.all("h1")) == 1
    assert {a["href"] for a in page.all("a")} >= {f"#{name}" for name in sections}
    for landmark in ("header", "nav", "main", "footer"):
        assert len(page.all(landmark)) == 1


def test_identifiers_are_unique_and_links_lead_somewhere(page):
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(set(ids)) == len(ids)
    for name, attributes in page.elements:
        for kind in ("href", "aria-labelledby"):
            value = attributes.get(kind, "")
            if value.startswith("#") or (kind == "aria-labelledby" and value):
                assert value.removeprefix("#") in ids, (name, value)


def test_pictures_have_alternative_text(page):
    pictures = [a for a in page.all("svg") if a.get("role") == "img"]
    assert len(pictures) > 20
    assert all(len(a["aria-label"]) > 20 for a in pictures)
    hidden = [a for a in page.all("svg") if "role" not in a and "class" in a]
    assert all(a.get("aria-hidden") == "true" for a in hidden)


def test_pilot_and_new_users_are_listed_with_predictions(page, study):
    assert page.text.count(f"User {USER}") >= 2
    table = pd.read_csv(study / "predictions.csv")
    ahead = table[~table["seen"] & (table["time_step"] == 0)]
    inside = ((ahead["observed"] - ahead["mean"]).abs() <= 1.96 * ahead["sd"]).sum()
    section = page.text[page.text.index("The kernel selected for every new user") :]
    assert f"{inside} of {len(ahead)}" in section
    identifiers = {a.get("id") for a in page.all("g")}
    assert {"pilot-0-0", "pilot-2-2", "new-0-1", "new-1-2"} <= identifiers


def test_people_read_of_noise_only_and_of_time_steps_from_1(html, page):
    assert page.text.count("WHITE") == 1  # in the glossary: what files call it
    assert "WHITE" not in " ".join(a.get("data-tip", "") for a in page.all("a"))
    assert "ime step 0" not in html
    assert "ime step 3, 9 points" in html


def test_parts_that_are_missing_are_named_with_their_command(folder):
    for name in ("selections.csv", "predictions.csv", "settings.json"):
        (folder / name).unlink()
    shutil.rmtree(folder / "posterior.zarr")
    page = Page(report(folder).read_text("utf-8"))
    sections = [a["id"] for a in page.all("section")]
    assert sections == ["short", "graph", "shared", "kernels", "study", "cite"]
    assert "diagnostics are written by kem fit" in page.text
    assert "new users are written by kem select" in page.text
    assert (folder / "report.html").is_file()


def test_pictures_end_where_the_page_would_get_too_large(folder, monkeypatch):
    monkeypatch.setattr(users, "ROOM", 0)
    page = Page(report(folder).read_text("utf-8"))
    assert "they are left out for the last 2 of 3 users. Their kernels are all listed." in page.text
    assert "they are left out for the last 1 of 2 users" in page.text
    identifiers = {a.get("id") for a in page.all("g")}
    assert "pilot-0-0" in identifiers
    assert "pilot-1-0" not in identifiers
    assert page.text.count("User u2") >= 1


def test_selections_without_predictions(folder):
    (folder / "predictions.csv").unlink()
    page = Page(report(folder).read_text("utf-8"))
    assert "Predictions for new users are written by kem select --predictions" in page.text
    assert "new-0-0" not in {a.get("id") for a in page.all("g")}


@pytest.mark.integration
def test_several_features_are_written_by_name(wide_study, tmp_path):
    page = Page(report(wide_study, tmp_path / "r.html").read_text("utf-8"))
    assert "SE(age)" in page.text
    assert "a smooth curve in age" in page.text
    assert "a smooth function of all 3 features together" in page.text


def test_an_earlier_report_is_replaced_only_if_wished(folder):
    first = report(folder)
    refused(lambda: report(folder), "exists", "overwrite")
    first.write_text("old")
    report(folder, overwrite=True)
    assert first.read_text("utf-8").startswith("<!doctype html>")
    refused(lambda: report(folder, folder), "is a folder")
    refused(lambda: report(folder, folder / "none" / "r.html"), "can't be written")


def test_nothing_is_left_where_writing_fails(folder, monkeypatch):
    before = {path.name for path in folder.iterdir()}
    monkeypatch.setattr("pathlib.Path.replace", _full)
    refused(lambda: report(folder), "No space left")
    assert {path.name for path in folder.iterdir()} == before


def _full(*_):
    raise OSError(28, "No space left on device")
