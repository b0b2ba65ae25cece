"""What objects show of themselves: well-formed, escaped, and the object's own numbers."""

from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import kem_pymc as kem
from kem_pymc._system.display import Display, Listing, from_to, number, plural, some
from kem_pymc.diagnostics.representative import representative
from kem_pymc.gp.prediction import Component, Prediction
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.kernels.prose import named
from tests.cohorts import cohort
from tests.diagnostics.conftest import mixing, posterior_of
from tests.evolutions.by_hand import evolutions
from tests.shown import printed, read

HOSTILE = "<script>alert('x')</script>&[bold red]\"'"


def evolved():
    return evolutions(features=(HOSTILE,), target=HOSTILE[::-1])


def hostile_cohort():
    return cohort(users=(HOSTILE, "b"), features=(HOSTILE, "z"), target="<y>")


def diagnosed():
    return kem.diagnose(posterior_of(*mixing(draws=30)))


def clustered():
    found = representative(posterior_of(*mixing(chains=1, draws=5)))
    first = replace(found.clusters[0], members=((HOSTILE, 0),))
    return replace(found, clusters=(first, *found.clusters[1:]))


def predicted():
    part = Component(np.array([1.0, 3.0]), np.array([0.5, 0.7]))
    sd = np.sqrt(np.array([0.5, 0.75]) ** 2 - 0.0625)
    return Prediction.of(np.array([2.0, 4.25]), sd, 0.0625, {HOSTILE: part}, include_noise=True)


MADE = {
    "cohort": hostile_cohort,
    "pool": lambda: CandidatePool.from_base(["LIN", "SE"], dimension=2, interactions=True),
    "composition": lambda: Composition.parse("LIN0 + PER0 x SE1"),
    "white": Composition,
    "priors": lambda: kem.priors.synthetic(),
    "evolutions": evolved,
    "diagnosis": diagnosed,
    "representative": clustered,
    "prediction": predicted,
}


@pytest.mark.parametrize("name", MADE)
def test_html_is_well_formed_and_says_what_the_terminal_says(name):
    shown = MADE[name]()
    text, frames = read(shown)
    terminal = printed(shown, width=400)
    folded = [listing.title for listing in shown._display().listings if listing.folded]
    for line in text.splitlines():
        assert line.strip(" :") in terminal or line in folded
    display = shown._display()
    for frame, listing in zip(frames, [*display.first, *display.listings], strict=True):
        for cell in [*frame.columns, *frame.to_numpy().ravel()]:
            assert listing.folded or cell in terminal


@pytest.mark.parametrize("name", ["cohort", "evolutions", "representative", "prediction"])
def test_hostile_names_are_shown_as_they_are(name):
    html = MADE[name]()._repr_html_()
    assert "<script" not in html
    assert HOSTILE in unescape(html)
    assert HOSTILE in printed(MADE[name](), width=400)  # [bold red] isn't read as markup


def test_a_cohort_shows_its_columns_and_users():
    own = cohort()
    text, (columns, users) = read(own)
    assert "Cohort of 2 users" in text
    assert "2 to 3" in text
    assert f"{own.n_points}, 3 per user" in text
    y, x = np.concatenate(own.targets), np.concatenate(own.inputs)
    assert list(columns.iloc[:, 0]) == ["y (target)", "x", "z"]
    for row, values in zip(columns.iloc[:, 1:].to_numpy(float), (y, *x.T), strict=True):
        wanted = values.mean(), values.std(), values.min(), np.median(values), values.max()
        np.testing.assert_allclose(row, wanted, rtol=1e-3)
    assert users["user"].tolist() == ["b", "a"]
    assert users["time steps"].tolist() == ["3", "2"]
    np.testing.assert_allclose(users["mean y"].astype(float), [17 / 3, 5], rtol=1e-3)


def test_a_large_cohort_shows_a_part_and_says_so():
    n, d = 50, 30
    many = kem.Cohort(
        (*range(n),), (np.ones((1, d)),) * n, (np.ones(1),) * n, ([1],) * n, (*map(str, range(d)),)
    )
    text, (columns, users) = read(many)
    assert len(columns) - 1 == 14
    assert "14 of 30 features are shown." in text
    assert len(users) == 10
    assert "10 of 50 users are shown." in text


def test_a_pool_shows_what_it_is_made_of():
    pool = CandidatePool.from_base(["LIN", "SE"], dimension=2, interactions=True)
    text, _ = read(pool)
    base = [c for c in pool if not c.is_interaction]
    assert f"Base kernels ({len(base)}):" in text
    assert "LIN0, SE0, LIN1, SE1" in text
    assert f"Products ({len(pool) - len(base)}):" in text
    assert "ARD" in text
    assert str(len(pool.hyperparameters)) in text


def test_large_pools_print_in_short():
    pool = CandidatePool.from_base(["LIN", "PER", "SE"], dimension=11)
    assert repr(pool) == "<CandidatePool of 34 candidates, dimension=11>"
    assert "SE9 and 3 more" in read(pool)[0]


def test_a_composition_shows_its_hyperparameters():
    text, (frame,) = read(Composition.parse("LIN0 + PER0 x SE1"))
    assert "LIN0 + PER0 x SE1" in text
    assert frame["hyperparameters"].tolist() == [
        "amplitude, shift",
        "amplitude, PER0.lengthscale, PER0.period, SE1.lengthscale",
    ]
    assert frame["input dimensions"].tolist() == ["0", "0, 1"]
    assert "Noise only" in read(Composition())[0]


def test_priors_show_every_entry():
    table = kem.priors.paper()
    _, (frame,) = read(table)
    assert frame.to_numpy().tolist() == table.to_frame().to_numpy().tolist()


def test_evolutions_show_their_numbers():
    learned = evolutions(concentration=(1.0, 3.0))
    text, (frame,) = read(learned)
    own = learned.to_frame()
    assert "2 (90 % interval 1.1 to 2.9)" in text
    assert frame["child"].tolist() == [named(label, ("week",)) for label in own["child"]]
    assert frame["parent"].tolist() == ["noise only", "", "SE(week)", "LIN(week)"]
    np.testing.assert_allclose(frame["probability"].astype(float), own["probability"], atol=0.005)
    np.testing.assert_allclose(frame["datasets"].astype(float), own["count"], atol=0.05)
    assert frame["in draws"].tolist() == [f"{share:.2f}" for share in own["occurrence"]]
    ends = frame["90 % interval"].str.split(" to ", expand=True).astype(float)
    np.testing.assert_allclose(ends, own[["lower", "upper"]], atol=0.005)


def test_improbable_evolutions_are_left_out_and_counted(monkeypatch):
    monkeypatch.setattr("kem_pymc.evolutions.evolutions.LEAST", 0.1)
    text, (frame,) = read(evolutions())
    assert len(frame) == 3
    assert "3 of 4 evolutions are shown" in text


def test_a_diagnosis_shows_its_summary_and_warnings():
    inclusion, assignment = mixing(chains=2)
    inclusion[0, ..., 1], inclusion[1, ..., 1] = False, True
    found = kem.diagnose(posterior_of(inclusion, assignment))
    text, (parts, frame) = read(found)
    assert parts["part"].tolist() == ["LIN(week)", "PER(week)", "week"]
    assert parts["by chain"].tolist() == ["1.00 to 1.00", "0.00 to 1.00", "1.00 to 1.00"]
    assert found.warnings
    for warning in found.warnings:
        assert warning in text
    assert frame["quantity"].tolist() == list(found.summary.index)
    assert frame["number"].tolist() == [str(n) for n in found.summary["number"]]
    beyond = frame["> 1.05"].astype(int).tolist()
    assert beyond == found.summary["r_hat_beyond"].tolist()
    assert frame["R-hat worst"].tolist()[-1] == "inf"
    assert "-" in frame["R-hat worst"].tolist()  # of what never varies
    assert "No warnings" in read(kem.diagnose(posterior_of(*mixing())))[0]


def test_a_representative_clustering_shows_its_clusters():
    found = representative(posterior_of(*mixing(chains=1, draws=5)))
    text, (frame,) = read(found)
    own = found.to_frame()
    assert repr(found) == f"Representative({len(own)} clusters of 4 datasets)"
    assert f"{len(own)} clusters of 4 datasets" in text
    assert frame["composition"].tolist() == own["composition"].tolist()
    np.testing.assert_allclose(frame["certainty"].astype(float), own["certainty"], atol=0.005)
    assert frame["user/time step"].tolist() == own["members"].tolist()


def test_a_prediction_shows_means_and_components():
    shown = predicted()
    assert repr(shown) == "Prediction(new observations at 2 inputs)"
    text, (parts, means) = read(shown)
    assert "0.25, included" in text
    assert parts.to_numpy().tolist() == [[HOSTILE, "1", "0.6"]]
    assert means.to_numpy().tolist() == [["0", "2", "0.5", "1"], ["1", "4.25", "0.75", "3"]]
    text, (means,) = read(Prediction.of(np.arange(12.0), np.ones(12)))
    assert len(means) == 10
    assert "10 of 12 inputs are shown" in text
    assert "left out" in text


def test_columns_of_numbers_are_aligned_to_the_right():
    listing = Listing(("a", "b"), [("x", 1), ("y", float("nan"))], {"b": ".2f"})
    assert listing.numeric() == [False, True]
    assert listing.texts() == [["x", "1.00"], ["y", "-"]]
    assert Listing(("a",), []).numeric() == [True]


@pytest.mark.parametrize("width", [60, 45])
def test_a_narrow_terminal_breaks_names_and_texts_not_numbers(width):
    columns = ("what it is", "R-hat worst", "ESS median", "number of draws")
    rows = [("LIN0 x PER0 + SE0", 1.23456, 123.5, 12345.0), ("log joint", 1.5, 7.25, 2e-7)]
    lines = printed(Listing(columns, rows).rich(), width).splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert set(" ".join(columns).split()) < set(words)
    assert {"1.235", "123.5", "12345", "1.5", "7.25", "2e-07"} < set(words)
    assert [words.count(word) for word in ("LIN0", "PER0", "SE0", "joint")] == [1, 1, 1, 1]


def test_what_is_folded_stays_out_of_the_terminal():
    shown = Display("title", listings=[Listing(("secret",), [("cell",)], title="t", folded=True)])
    assert "<details><summary>t</summary>" in shown.html()
    assert "secret" not in printed(shown.rich())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.0, "0"), (1 / 3, "0.3333"), (12345.6, "12346"), (-1234.5, "-1234")),
        *((2.5e-7, "2.5e-07"), (3.25e9, "3.25e+09"), (float("nan"), "-"), (float("inf"), "inf")),
    ],
)
def test_numbers(value, text):
    assert number(value) == text


def test_words():
    assert some("abc", 3) == "a, b, c"
    assert [plural(count, "time step") for count in range(3)] == [
        *("0 time steps", "1 time step", "2 time steps")
    ]
    assert some("abc", 2) == "a, b and 1 more"
    assert from_to(2, 2) == "2"
    assert from_to(2, 3) == "2 to 3"
