"""The page as text: what it holds, what it leaves out, what it escapes, what it refuses."""

import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import pandas as pd
import pytest
import xarray as xr

import kem_pymc as kem
from kem_pymc import Composition, Evolutions
from kem_pymc.diagnostics.parts import headline
from kem_pymc.reports import users
from kem_pymc.reports.page import policy
from kem_pymc.reports.report import report
from kem_pymc.reports.summary import lines
from tests.plots.conftest import shared_by_three_features
from tests.refusals import refused
from tests.reports.conftest import FEATURE, TARGET, USER

#: Elements that need no end.
VOID = ("meta", "link", "img", "br", "input", "hr")


class Page(HTMLParser):
    """The elements of a page, and whether they are nested as they should be."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(set(names)) == len(names), (tag, names)
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, text):
        if not {"script", "style"} & set(self.open):
            self.texts.append(text)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def html(study, tmp_path_factory):
    return report(study, tmp_path_factory.mktemp("r") / "r.html").read_text("utf-8")


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


@pytest.fixture
def folder(study, tmp_path):
    return shutil.copytree(study, tmp_path / "study")


def test_all_sections_are_there(page):
    sections = [a["id"] for a in page.all("section")]
    assert sections == [
        *("short", "graph", "shared", "kernels", "parts", "pilots", "new", "trust", "study", "cite")
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


def test_graph_says_what_is_behind_boxes_and_arrows(study, page):
    learned = kem.Evolutions.load(study / "evolutions.json")
    links = {a["href"]: a["data-tip"] for a in page.all("a") if "data-tip" in a}
    edges = {tip.split("\n")[0]: tip for href, tip in links.items() if "evolution" in href}
    assert edges
    for child in learned.children("WHITE"):
        tip = edges.get(f"noise only → {child.composition}")
        if tip and str(child.composition) != "WHITE":
            low, high = child.interval
            assert f"Probability {child.probability:.2f}" in tip
            assert f"90 % interval {low:.2f} to {high:.2f}" in tip
            assert f"In {child.occurrence:.0%} of the posterior draws" in tip
    boxes = {tip.split("\n")[0]: tip for href, tip in links.items() if "composition" in href}
    assert f"{TARGET} is noise only." in boxes["noise only"]
    assert all("noise sd" in tip for tip in boxes.values())
    assert all(a["aria-label"] for a in page.all("a") if "data-tip" in a)


@pytest.fixture(scope="module")
def sharing(wide_study, tmp_path_factory):
    """A folder of evolutions with a shared part, and with where users ended up."""
    learned = kem.Evolutions.load(wide_study / "evolutions.json")
    process, message = shared_by_three_features()
    settings = {**learned.settings, "shared": message}
    folder = tmp_path_factory.mktemp("sharing")
    whole = replace(learned, shared=process, settings=settings, final=learned)
    whole.save(folder / "evolutions.json")
    return folder


def test_what_users_share_is_told_by_feature(sharing, tmp_path):
    page = Page(report(sharing, tmp_path / "r.html").read_text("utf-8"))
    section = page.text[page.text.index("What users share Users share") :]
    assert "Users share a constant level plus a straight line in" in section
    assert ": 50% of the variance." in section
    for row in ("in common 50 %", "own function 30 %", "noise 20 %", "age 42 % 0 %"):
        assert row in section
    assert f"{' '.join(FEATURE.split())} 11 % 5 %" in section
    assert section.index("age 42 %") < section.index("11 % 5 %")  # the most relevant one first
    labels = [a["aria-label"] for a in page.all("svg") if a.get("role") == "img"]
    assert [label.split(":")[0] for label in labels] == [
        f"Shared part as a function of {name}" for name in ("age", FEATURE)
    ]


def test_where_users_end_up_is_listed_and_marked(sharing, tmp_path):
    """Catches the children of another parent than WHITE, and frames around other boxes."""
    final = kem.Evolutions.load(sharing / "evolutions.json").final
    page = Page(report(sharing, tmp_path / "r.html").read_text("utf-8"))
    table = page.text[page.text.index("Where users end up") :]
    table = table[: table.index("What users share")]
    rows = [child for child in final.children("WHITE") if child.probability >= 0.01]
    assert len(rows) > 1
    for child in rows:
        low, high = child.interval
        assert f"{child.probability:.2f} {low:.2f}\N{EN DASH}{high:.2f}" in table
    assert f"With probability {1 - sum(c.probability for c in rows):.2f} it is another" in table
    likely = {str(c.composition) for c in rows if c.probability >= 0.05}
    frames = [a for a in page.all("rect") if a["class"] == "end"]
    assert 0 < len(frames) <= 2 * len(likely)  # in the graph, and in that of phones
    assert "Second frame" in page.text


def test_a_study_may_share_nothing_and_not_know_where_users_end_up(page):
    assert "Users share nothing in this study" in page.text
    assert "Where users end up" not in page.text
    assert not [a for a in page.all("rect") if a["class"] == "end"]


def test_earlier_files_lack_the_shares_by_feature(sharing, tmp_path):
    learned = kem.Evolutions.load(sharing / "evolutions.json")
    replace(learned, settings={}).save(tmp_path / "evolutions.json")
    page = Page(report(tmp_path).read_text("utf-8"))
    assert "a smooth curve in age." in page.text
    assert "Total effect" not in page.text


def test_diagnostics_and_settings_are_told(page, study):
    found = kem.diagnose(xr.open_datatree(study / "posterior.zarr", engine="zarr"), 3)
    assert len(found.warnings) == 2
    for warning in found.warnings:
        what, _, helps = warning.rpartition(". ")
        assert f"{what}. Remedy: {helps}" in page.text
    assert "too few chains or draws to assess" in page.text
    for words in ("1, fixed", "LogNormal(2, 0.5)", "kem-pymc", "Transactions on Machine Learning"):
        assert words in page.text


def test_pilot_and_new_users_are_listed_with_predictions(page, study):
    assert page.text.count(f"User {USER}") >= 2
    table = pd.read_csv(study / "predictions.csv")
    ahead = table[~table["seen"] & (table["time_step"] == 0)]
    inside = ((ahead["observed"] - ahead["mean"]).abs() <= 1.96 * ahead["sd"]).sum()
    section = page.text[page.text.index("The kernel selected for every new user") :]
    assert f"{inside} of {len(ahead)}" in section
    identifiers = {a.get("id") for a in page.all("g")}
    assert {"pilot-0-0", "pilot-2-2", "new-0-1", "new-1-2"} <= identifiers


@pytest.mark.parametrize(("noise", "hint"), [(0.8, True), (0.4, False)])
def test_users_who_all_have_noise_are_a_reason_to_look_again(study, noise, hint):
    """By the probability of noise only, whatever the most probable kernels are."""
    rows = [{"kind": "part", "probability": 0.5}, {"kind": "nothing", "probability": noise}]
    found = SimpleNamespace(parts=pd.DataFrame(rows), mean_changes=1.0)
    moment = SimpleNamespace(composition=Composition(), share=0.4)
    user_reports = [SimpleNamespace(moments=[moment])]
    look = SimpleNamespace(label=str, words=str)
    message = " ".join(lines(Evolutions.load(study / "evolutions.json"), look, user_reports, found))
    assert ("--feedback joint" in message) == hint
    assert "has probability 0.40 on average" in message


def test_the_headline_is_the_probabilities_of_parts(page, study):
    """It comes first, before the verdict and the graph, and agrees with the table below it."""
    found = kem.diagnose(xr.open_datatree(study / "posterior.zarr", engine="zarr"), 3)
    sentences = [" ".join(s.split()) for s in headline(found.parts)]
    places = [page.text.index(sentence) for sentence in sentences]
    assert places == sorted(places)
    assert (
        places[-1]
        < page.text.index("too few chains or draws to assess")
        < page.text.index("The graph of evolutions")
    )
    for row in found.parts.itertuples():
        chains = row[6:8]
        between = f" ({min(chains):.2f}\N{EN DASH}{max(chains):.2f})" * (chains[0] != chains[1])
        if row.probability >= 0.05:
            assert f"{row.probability:.2f}{between}" in page.text
    for word in ("Composition", "Part", "Parent", "Time step", "Noise only", "Evolution"):
        assert any(word == text.strip() for text in page.texts)


def test_people_read_of_noise_only_and_of_time_steps_from_1(html, page):
    assert page.text.count("WHITE") == 1  # in the glossary: what files call it
    assert "WHITE" not in " ".join(a.get("data-tip", "") for a in page.all("a"))
    assert "ime step 0" not in html
    assert "ime step 3, 9 points" in html


def test_a_kernel_that_nobody_has_shows_its_users_once(wide_study, tmp_path):
    html = report(wide_study, tmp_path / "r.html").read_text("utf-8")
    kernels = html.split('<details class="kernel"')[1:]
    counts = [kernel.count("no cluster of the representative clustering has") for kernel in kernels]
    assert max(counts) == 1


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


def test_several_features_are_written_by_name(wide_study, tmp_path):
    page = Page(report(wide_study, tmp_path / "r.html").read_text("utf-8"))
    assert "SE(age)" in page.text
    assert "a smooth curve in age" in page.text
    assert "a smooth function of all 3 features together" in page.text


def test_a_posterior_will_do(study, tmp_path):
    idata = xr.open_datatree(study / "posterior.zarr", engine="zarr").load()
    file = kem.report(idata, tmp_path / "trial.html")
    page = Page(file.read_text("utf-8"))
    assert "trial: how kernels evolve" in page.text
    assert "pilots" in [a["id"] for a in page.all("section")]
    refused(lambda: kem.report(idata), "path")


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


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("evolutions.json", "{}", "doesn't contain evolutions"),
        ("settings.json", "no json", "settings.json can't be read"),
        ("settings.json", "[]", "contains no settings"),
        ("selections.csv", "a,b\n1,2\n", "lacks the columns user, time_step"),
        ("selections.csv", "user,time_step,n_points,composition\n", "is empty"),
        ("selections.csv", "user,time_step,n_points,composition\n1,0,3,PER0\n", "isn't a kernel"),
        ("predictions.csv", "user,time_step\n1,2\n", "lacks the columns point, seen"),
    ],
)
def test_files_that_cant_be_used(folder, name, content, words):
    (folder / name).write_text(content)
    refused(lambda: report(folder), words)
    assert not (folder / "report.html").exists()


def test_folders_that_cant_be_used(tmp_path, folder, wide_study):
    refused(lambda: report(tmp_path / "none"), "no folder")
    refused(lambda: report(tmp_path), "contains no evolutions.json")
    shutil.copy(wide_study / "evolutions.json", folder)
    refused(lambda: report(folder), "have different candidates")
    shutil.rmtree(folder / "posterior.zarr")
    (folder / "posterior.zarr").mkdir()
    refused(lambda: report(folder), "can't be read")
