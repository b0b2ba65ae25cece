"""The page: what it holds, what it leaves out, what it escapes, what it refuses."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from sklearn.metrics import brier_score_loss

import kem_pymc as kem
from kem_pymc.data.families import Family
from kem_pymc.diagnostics.parts import headline
from kem_pymc.kernels.composition import Composition
from kem_pymc.plots.report import sections
from kem_pymc.plots.report.gather import Material
from kem_pymc.plots.report.report import report
from tests.evolutions.by_hand import LIN, SE, WHITE, cluster, evolutions
from tests.plots.report.conftest import FEATURE, TARGET, USER
from tests.refusals import refused
from tests.shown import Page


def test_all_sections_are_there(page):
    names = ("population", "parts", "graph", "kernels", "pilots", "new", "diagnostics", "study")
    names = (*names, "card", "cite")
    assert [a["id"] for a in page.all("section")] == [*names]
    assert {a["href"] for a in page.all("a")} >= {f"#{name}" for name in names}
    for landmark in ("h1", "header", "nav", "main", "footer"):
        assert len(page.all(landmark)) == 1


def test_identifiers_are_unique_and_links_lead_somewhere(html, page):
    """Catches pictures that share an identifier, so that one is clipped or marked by another's."""
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(set(ids)) == len(ids)
    used = re.findall(r'url\(#([^)]+)\)|(?:href|labelledby)="#?([^":]+)"', html)
    assert len(used) > 100
    assert {a or b for a, b in used} <= set(ids)


def test_pictures_have_titles_and_text_that_is_text(html, page):
    pictures = page.all("svg")
    # Users, shares, parts, graph, 2 of all and 5 of single users, 2 of chains.
    assert len(pictures) == 13
    assert all(a["role"] == "img" and len(a["aria-label"]) > 20 for a in pictures)
    assert "noise only" in page.text
    drawn = re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)
    assert all("<text" in svg for svg in drawn)
    assert not re.search(r"\d\.\d{3,}", " ".join(re.findall(r' d="[^"]*"', html)))


def test_boxes_of_the_graph_lead_to_kernels_with_their_hyperparameters(study, page):
    links = [a for a in page.all("a") if a.get("href", "").startswith("#kernel-")]
    learned = kem.Evolutions.load(study / "evolutions.json")
    assert len(links) == page.text.count("Hyperparameters of ")
    assert not any("target" in a for a in links)  # which would open another window
    every = [child for parent in learned.parents for child in learned.children(parent)]
    drawn = [c for c in every if min(c.probability, c.occurrence) >= 0.025]  # as in the graph
    for child in drawn:
        low, high = child.interval
        assert f"{child.probability:.2f} {low:.2f} to {high:.2f}" in page.text
    assert f"in a smaller share of draws: {len(every) - len(drawn)}." in page.text
    assert f"A user's {TARGET} is noise only." in page.text
    assert "noise.sd HalfNormal(0, 1)" in page.text  # prior of the mixed model


def test_the_headline_is_the_probabilities_of_parts(page, study):
    """It comes first, and the diagnosis says what helps."""
    found = kem.diagnose(xr.open_datatree(study / "posterior.zarr", engine="zarr"), 3)
    sentences = [" ".join(s.split()) for s in headline(found.parts)]
    places = [page.text.index(s) for s in [*sentences, "reliable yet"]]
    assert places == sorted(places)
    assert places[-1] < page.text.index("The graph of evolutions")
    assert len(found.warnings) == 2
    for warning in found.warnings:
        assert warning in page.text


def test_users_are_listed_with_kernels_and_points_within_their_intervals(page, study):
    assert page.text.count(f"User {USER}") == 2
    assert "WHITE" not in page.text
    (rows, *_) = [t for t in page.tables if t[0][0] == "time step" and len(t) == 4]
    assert rows[0][:3] == ["time step", "kernel", "points"]
    assert [row[2] for row in rows[1:]] == ["3", "6", "9"]
    assert all(re.match("LIN|SE|noise", row[1]) for row in rows[1:])
    table = pd.read_csv(study / "predictions.csv")
    ahead = table[~table["seen"] & (table["time_step"] == 0)]
    inside = ahead["observed"].between(ahead["low_95"], ahead["high_95"]).sum()
    section = page.text[page.text.index("The kernel selected for every new user") :]
    assert f"1 {inside} of {len(ahead)}" in section
    every = table[~table["seen"]]
    within = every["observed"].between(every["low_95"], every["high_95"])
    total = f"{within.sum()} of {len(every)} points, {100 * within.mean():.0f} %, lie within"
    assert total in section


def test_of_targets_that_are_0_or_1_probabilities_are_scored(study):
    material = Material.of_folder(study)
    table, learned = material.predictions, material.evolutions
    table["observed"], table["mean"] = np.arange(len(table)) % 2, 0.3 + 0.2 * table["seen"]
    scaling = replace(learned.scaling, family=Family("binary", (), (0.0, 1.0)))
    found = sections.users("new", material.selections, table, replace(learned, scaling=scaling))
    y = table["observed"][~table["seen"]]
    assert f"a share of {y.mean():.3f} is 1; predicted were 0.300." in found["said"]
    assert (
        f"score of predictions is {brier_score_loss(y, np.full(len(y), 0.3)):.3f}" in found["said"]
    )
    assert f"itself is {brier_score_loss(y, np.full(len(y), y.mean())):.3f}" in found["said"]
    assert (found["of"], found["coverage"]) == ("the probability", "")
    assert not any("within" in user["table"] for user in found["users"])


def test_points_to_come_are_drawn_but_not_counted(study):
    """A point without a target is no miss, and leaves the axes finite."""
    material = Material.of_folder(study)
    table = material.predictions
    own = table[table["user"] == USER]
    last = own[own["time_step"] == own["time_step"].max()].tail(1)
    coming = last.assign(point=last["point"] + 1, seen=False, observed=np.nan)
    longer = pd.concat([table, coming], ignore_index=True)
    learned = material.evolutions
    before, after = (
        sections.users("new", material.selections, predictions, learned)
        for predictions in (table, longer)
    )
    assert before["coverage"] == after["coverage"]
    assert "nan" not in after["users"][0]["picture"]
    assert len(before["users"][0]["picture"]) < len(after["users"][0]["picture"])


def test_parts_that_are_missing_are_named_with_their_command(folder):
    for name in ("selections.csv", "predictions.csv", "settings.json"):
        (folder / name).unlink()
    shutil.rmtree(folder / "posterior.zarr")
    page = Page(report(folder).read_text("utf-8"))
    sections = [a["id"] for a in page.all("section")]
    assert sections == ["graph", "kernels", "study", "card", "cite"]
    assert "diagnostics, which kem fit writes" in page.text
    assert "new users, which kem select --out" in page.text
    assert (folder / "report.html").is_file()


def test_pictures_end_where_the_page_would_get_too_large(folder, monkeypatch):
    monkeypatch.setattr(sections, "DRAWN", 1)
    (folder / "settings.json").unlink()
    page = Page(report(folder).read_text("utf-8"))
    assert "they are left out for the last 2 users" in page.text
    assert "they are left out for the last 1 user." in page.text
    assert len([a for a in page.all("svg") if a["aria-label"].startswith("Predictions")]) == 2
    assert page.text.count("User u2") == 1


def test_selections_without_predictions(folder):
    (folder / "predictions.csv").unlink()
    page = Page(report(folder).read_text("utf-8"))
    assert "predictions for new users, which kem select --predictions" in page.text
    assert f"Predictions for pilot user {USER} at 2" in [
        a["aria-label"][:-11] for a in page.all("svg")
    ]


@pytest.mark.integration
def test_several_features_are_written_by_name(wide_study, tmp_path):
    page = Page(report(wide_study, tmp_path / "r.html").read_text("utf-8"))
    assert "SE(age)" in page.text
    assert "a smooth curve in age" in page.text
    assert "a smooth function of all 3 features together" in page.text
    assert "point, in order of arrival" in page.text


def test_an_earlier_report_is_replaced_only_if_wished_and_is_the_same(folder, study, html):
    (folder / "report.html").write_text("earlier")
    refused(lambda: report(folder), "exists", "overwrite")
    again = report(folder, overwrite=True).read_text("utf-8")
    assert again == html.replace(study.name, folder.name)
    refused(lambda: report(folder, folder), "is a folder")
    refused(lambda: report(folder, folder / "none" / "r.html"), "can't be written")


def test_nothing_is_left_where_writing_fails(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    before = {path.name for path in folder.iterdir()}
    monkeypatch.setattr("kem_pymc.plots.report.report.page_of", lambda _: "a page")
    monkeypatch.setattr("pathlib.Path.replace", full)
    refused(lambda: report(folder), "No space left")
    assert {path.name for path in folder.iterdir()} == before


def test_nothing_is_fetched_or_run(html, page):
    for name, attributes in page.elements:
        assert name not in ("script", "iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert not [n for n in attributes if n.startswith("on")]
        assert attributes.get("href", "#").startswith(("#", "data:")) or attributes.get("rel")
    assert not re.search(r"@import|url\((?!#)", html)
    (policy,) = [a["content"] for a in page.all("meta") if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")


def test_names_from_data_are_text_and_nothing_else(html, page):
    for name in (USER, FEATURE, TARGET, "kem fit <b>"):
        assert " ".join(name.split()) in page.text
        assert name not in html
    assert page.all("b") == page.all("img") == page.all("script") == []


def test_a_dollar_sign_is_one(folder):
    """Matplotlib would read what is between two of them as mathematics."""
    learned = kem.Evolutions.load(folder / "evolutions.json")
    other = replace(learned, features=(r"$\cost$",), distribution=None)
    other.save(folder / "evolutions.json")
    shutil.rmtree(folder / "posterior.zarr")
    for name in ("selections.csv", "predictions.csv"):
        table = pd.read_csv(folder / name).rename(columns={FEATURE: r"$\cost$"})
        table.to_csv(folder / name, index=False)
    assert r"$\cost$</text>" in report(folder).read_text("utf-8")


def test_where_users_end_up_is_listed_and_marked(sharing, page, tmp_path):
    """Catches the children of another parent than WHITE, and a study that doesn't know them."""
    assert "Final kernels" not in page.text
    final = kem.Evolutions.load(sharing / "evolutions.json").final
    ends = Page(report(sharing, tmp_path / "r.html").read_text("utf-8")).text
    table = ends[ends.index("Final kernels") : ends.index("The graph of evolutions")]
    rows = [child for child in final.children("WHITE") if child.probability >= 0.025]
    assert len(rows) > 1
    for child in rows:
        low, high = child.interval
        assert f"{child.probability:.2f} {low:.2f} to {high:.2f}" in table
    other = 1 - sum(child.probability for child in rows)
    assert f"final kernel is none of those in the table with probability {other:.2f}" in ends
    assert "kernel probability for a new user 90 % interval in draws pilot users" in table
    assert "Second frame" in ends


def test_hyperparameters_are_of_final_kernels_only_if_enough_draws_have_them():
    """Fails where the median of a few draws is shown as a result."""
    many = tuple(cluster(draw, WHITE, LIN, 3, level=1.0) for draw in range(20))
    few = tuple(cluster(draw, WHITE, LIN, 3, level=2.0) for draw in range(9))

    def shown(clusters, ends=None):
        learned = evolutions(clusters, 20)
        final = None if ends is None else evolutions(ends, 20)
        return sections._kernel(LIN, replace(learned, final=final))["table"]

    assert shown(many, few) == shown(many) != shown(few)
    assert shown(few, many) == shown(many)
    (_, *rows), *_ = Page(shown(few, few)).tables
    assert [row[2:5] for row in rows] == [["-"] * 3] * 3
    assert "nan" not in sections._kernel(SE, evolutions())["sentence"]


@pytest.mark.integration
def test_pictures_of_users_are_over_the_feature_that_varies(wide_study):
    """Fails where a feature that is constant within users counts, such as a group."""
    material = Material.of_folder(wide_study)
    learned, table = material.evolutions, material.predictions
    constant = {name: table.groupby("user").ngroup() for name in learned.features[1:]}
    found = sections.users("new", material.selections, table.assign(**constant), learned)
    assert "point, in order of arrival" not in found["users"][0]["picture"]


def test_probable_evolutions_are_listed_and_others_counted():
    common = [
        cluster(draw, WHITE, child, count)
        for draw in range(200)
        for child, count in ((LIN, 30), (SE, 60))
    ]
    rare = cluster(0, WHITE, Composition.parse("LIN0 + PER0"), 1)
    found = sections.evolutions(evolutions((*common, rare), n_draws=200))
    assert re.findall(r"<td[^>]*>(\w+)\(week\)</td>", found["evolutions"]) == ["SE", "LIN"]
    assert found["unlisted"] == 1
    assert (found["ends"], found["other_ends"]) == ("", 1)
