"""Every figure and table can be made, says what it should, and is written as files."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from experiments.kem import fig5, fig8
from experiments.kem.figures import make
from experiments.settings import default


def given(rows):
    """What a figure is made of, without an experiment."""
    return SimpleNamespace(
        selections=pd.DataFrame(rows), title=str, generator=lambda: np.random.default_rng(0)
    )


@pytest.mark.integration
def test_figure_4_is_the_mean_over_users(evidence):
    given = evidence("kem-fig4")
    table = given.selections
    shown = make("kem-fig4", given).tables["Mean test log-likelihood"]
    assert list(shown.index) == ["KEM", "Stratified", "Final", "Memoryless", "ARD"]
    own = table[(table["method"] == "Final") & (table["time_step"] == 1)]
    assert shown.loc["Final", 2].startswith(f"{own['log_likelihood'].mean():.2f} ± ")


@pytest.mark.parametrize(
    ("composition", "truth", "expected"),
    [
        ("LIN0 + PER0", "LIN0 + PER0", True),
        ("LIN0 + PER0 + SE0", "LIN0 + PER0", True),
        ("LIN0 x PER0", "LIN0 + PER0", False),
        ("WHITE", "SE0", False),
    ],
)
def test_the_truth_is_in_a_composition(composition, truth, expected):
    assert fig5.contains(composition, truth) == expected


def test_figure_5_has_bars_that_add_up_to_one():
    names = ["SE0", "SE0", "LIN0", "PER0", "WHITE", "LIN0 + PER0", "LIN0 x PER0", "LIN0 + SE0"]
    rows = [
        {"truth": truth, "method": method, "time_step": step, "composition": name}
        for truth in ("LIN0", "SE0")
        for method in ("KEM", "ARD")
        for step in (0, 5)
        for name in (names if step else [truth])
    ]
    axes = np.reshape(fig5.draw(pd.DataFrame(rows)).axes, (4, 2))
    assert [ax.get_title() for ax in axes[0]] == ["KEM", "ARD"]
    assert axes[1, 0].get_ylabel() == "LIN0\ntime step 6"
    assert [bar.get_width() for bar in axes[2, 1].patches] == [1]
    widths = [bar.get_width() for bar in axes[1, 1].patches]
    assert widths == [2 / 8, 1 / 8, 1 / 8, 1 / 8, 1 / 8, 2 / 8]  # 2 / 8 of the others
    assert [text.get_text() for text in axes[1, 1].texts][-2:] == ["2 more", "25%"]


def test_table_2_stands_beside_the_papers(evidence):
    table = make("kem-table2", evidence("kem-table2")).tables["Features dropped per time step"]
    assert list(table.index) == ["KEM", "KEM, ml, bic"]
    assert [c[1] for c in table.columns] == ["here"]  # no study of the paper's


def test_the_papers_values_stand_beside_its_setting():
    rows = [
        {"study": "energy", "method": method, "trial": t, "user": 0, "time_step": 1, "dropped": t}
        | {"person": t}
        for method in ("KEM", "KEM, ml, bic")
        for t in (0, 1, 2)
    ]
    table = make("kem-table2", given(rows)).tables["Features dropped per time step"]
    assert table.loc["KEM, ml, bic", ("energy", "paper")] == "0.08 ± 0.05"
    assert table.loc["KEM", ("energy", "paper")] == ""
    half = student.ppf(0.975, 2) / np.sqrt(3)
    assert table.loc["KEM", ("energy", "here")] == f"1.00 ± {half:.2f}"


def test_two_trials_give_no_verdict(evidence):
    given = evidence("kem-peers")
    tables = make("kem-peers", given).tables
    verdicts = tables["Verdicts"]["mean gain"]
    assert tables["Mean gain of KEM"].stack().to_dict() == verdicts.to_dict()
    assert tables["Verdicts"]["verdict"].tolist() == ["2 trials are too few"] * 2
    users = tables["Verdicts"]["users"].droplevel("other").to_dict()
    assert users == {"Tiny": 2 * 4, "Batches": 2 * 3}  # other ones in each trial
    own = given.selections
    own = own[(own["study"] == "tiny") & (own["method"] == "KEM") & (own["time_step"] == 1)]
    assert (
        tables["Milliseconds per selection"]
        .loc[("Tiny", "KEM"), 2]
        .startswith(f"{1000 * own['seconds'].mean():.1f} ± ")
    )


def test_a_person_is_in_several_trials_where_they_deal_the_same_users(evidence, tiny):
    """Fails where users made anew share a label's person, or a user is one anew in every trial."""
    given = evidence("kem-peers")
    anew = given.selections["person"].nunique()
    studies = {k: v.model_copy(update={"users": "same"}) for k, v in tiny.studies.items()}
    dealt = replace(given, settings=tiny.model_copy(update={"studies": studies})).selections
    assert (dealt["person"] == dealt["user"]).all()
    assert anew == 2 * dealt["person"].nunique()


def test_what_is_selected():
    """Users count once each: one is there in two trials, and is right in one of them."""
    trajectories = [(0, "u", "AA"), (1, "u", "AA"), (0, "v", "AB"), (0, "w", "BB")]
    rows = [
        {"study": "s", "method": "KEM", "trial": trial, "user": user, "person": user}
        | {"time_step": t, "composition": name, "seconds": 0.001 * (1 + t), "log_likelihood": 0.0}
        | {"size": 1 + t, "dropped": None if t == 0 else float(name == "B"), "cover95": 1.0 - trial}
        for trial, user, trajectory in trajectories
        for t, name in enumerate(trajectory)
    ]
    table = make("kem-peers", given(rows)).tables["Summary of selections"]
    assert table.loc[("s", "KEM")].to_dict() == {
        "users": 3,
        "size at the first time step": "1.0",
        "at the last": "2.0",
        "features dropped a step": "0.67",
        "stay, per cent": "67",
        "in 95 % intervals, per cent": "83",
        "at single time steps": "83 to 83",
        "milliseconds (median)": "2",
    }


def test_defaults_are_ranked_by_means_over_time_steps(evidence):
    given = evidence("kem-defaults")
    table = given.selections
    shown = make("kem-defaults", given).tables["Mean test log-likelihood"]
    assert set(shown.index) == {"KEM", "KEM, ml, bic"}
    assert list(shown["mean rank"]) == sorted(shown["mean rank"])
    own = table[(table["study"] == "batches") & (table["method"] == "KEM, ml, bic")]
    mean = own.groupby(["trial", "time_step"])["log_likelihood"].mean().mean()
    text = shown.loc["KEM, ml, bic", "Batches"]
    assert text.startswith(f"{mean:.2f} ± ")
    assert "±" not in shown.loc["KEM", "Batches"]  # its difference to itself


@pytest.mark.integration
def test_figure_8_measures(monkeypatch):
    monkeypatch.setattr(fig8, "USERS", (3, 6))
    monkeypatch.setattr(fig8, "STEPS", (2, 3))
    monkeypatch.setattr(fig8, "DIMENSIONS", (2, 3))
    monkeypatch.setattr(fig8, "TYPICAL", {"users": 3, "steps": 2, "dimension": 2})
    monkeypatch.setattr(fig8, "SETTLING", 1)
    monkeypatch.setattr(fig8, "DRAWS", 2)
    output = fig8.make(None)
    assert len(output.tidy) == 6 * 2
    assert (output.tidy["seconds"] > 0).all()
    assert list(output.tables["Growth of the time of a draw"].index) == [
        "users",
        "steps",
        "dimension",
    ]


def test_figure_8_has_three_types_of_users():
    cohort = fig8.pilot(6, 2, 3)
    assert (cohort.n_users, cohort.max_steps, cohort.dimension) == (6, 2, 3)


def test_the_grid_says_sizes_truths_and_r_hats():
    """Catches a truth judged before the last time step, and a method's R-hat taken from another."""
    rows = [
        {"study": "s", "trial": 0, "method": method, "user": user, "time_step": step}
        | {"size": size, "dropped": np.nan if step == 0 else 0.5, "log_likelihood": -1.0 - step}
        | {"truth": "SE0", "composition": composition}
        for method in ("KEM", "KEM joint")
        for user, compositions in enumerate([("SE0", "LIN0"), ("LIN0", "SE0"), ("LIN0", "SE0")])
        for step, (composition, size) in enumerate(zip(compositions, (1, 3), strict=True))
    ]
    tasks = [SimpleNamespace(name="s", methods={m: None}) for m in ("KEM", "KEM joint")]
    r_hats = {"KEM": [1.01, 1.02], "KEM joint": [1.3]}
    evidence = given(rows)
    evidence.settings, evidence.tasks = default(), tasks
    evidence.store = SimpleNamespace(r_hats=lambda own: r_hats[next(iter(own[0].methods))])
    (table,) = make("kem-grid", evidence).tables.values()
    row = table.loc[("s", "joint", "pilot", "posterior")]
    assert row["truth found, per cent"] == "67"
    assert row["log-likelihood"] == "-1.50"
    assert (row["size at the first time step"], row["at the last"]) == ("1.0", "3.0")
    assert row["features dropped a step"] == "0.50"
    assert row["largest R-hat"] == "1.30"
    assert table.loc[("s", "cut", "pilot", "posterior"), "largest R-hat"] == "1.02"
