"""Every figure and table can be made, says what it should, and is written as files."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from kem_pymc.experiments.figures import fig5, fig8
from kem_pymc.experiments.figures.output import Output
from kem_pymc.experiments.report import MODULES, make, markdown, write
from kem_pymc.experiments.settings import default

TIDY = ["study", "trial", "method", "user", "time_step"]


def test_every_figure_of_the_settings_can_be_made():
    assert set(default().figures) == set(MODULES)


@pytest.mark.parametrize(
    "name",
    [
        *("kem-fig3", "kem-fig4", "kem-fig5", "kem-fig6", "kem-fig9"),
        *(
            "kem-table2",
            "kem-types",
            "kem-calibration",
            "kem-ablation",
            "kem-targets",
            "kem-defaults",
            "kem-choices",
        ),
    ],
)
def test_files(evidence, name, tmp_path):
    output = make(name, evidence(name))
    files = write(name, output, tmp_path, ["What was run."])
    assert all(file.stat().st_size > 0 for file in files)
    tidy = pd.read_csv(files[0])
    assert len(tidy) > 0
    assert name == "kem-fig3" or list(tidy.columns[:5]) == TIDY
    page = files[-1].read_text("utf-8")
    assert page.startswith(f"# {name}\n\nWhat was run.")
    assert (output.figure is None) == (f"{name}.png" not in page)
    for title in output.tables:
        assert f"## {title}" in page


def test_figure_4_is_the_mean_over_trials(evidence):
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


def test_table_2_stands_beside_the_papers(evidence):
    table = make("kem-table2", evidence("kem-table2")).tables["Features dropped per time step"]
    assert list(table.index) == ["KEM", "KEM, ml, bic"]
    assert [c[1] for c in table.columns] == ["here"]  # no study of the paper's


def test_the_papers_values_stand_beside_its_setting():
    rows = [
        {"study": "energy", "method": method, "trial": t, "user": 0, "time_step": 1, "dropped": t}
        for method in ("KEM", "KEM, ml, bic")
        for t in (0, 1, 2)
    ]
    given = SimpleNamespace(selections=pd.DataFrame(rows), title=str)
    table = make("kem-table2", given).tables["Features dropped per time step"]
    assert table.loc["KEM, ml, bic", ("energy", "paper")] == "0.08 ± 0.05"
    assert table.loc["KEM", ("energy", "paper")] == ""
    half = student.ppf(0.975, 2) / np.sqrt(3)
    assert table.loc["KEM", ("energy", "here")] == f"1.00 ± {half:.2f}"


def test_verdicts_need_more_than_one_unit():
    """Final is ahead for certain at step 2, by chance at step 1, and by one trial's word at 3."""
    ahead = {0: (-0.5, 0.6, 0.1), 1: (0.5, 0.6, 0.4), 2: (0.1,)}
    rows = [
        {"study": "s", "trial": t, "user": t, "time_step": step, "points": 5} | score
        for step, gains in ahead.items()
        for t, gain in enumerate(gains)
        for score in (
            {"method": "KEM", "log_likelihood": -1.0},
            {"method": "Final", "log_likelihood": -1.0 + gain},
        )
    ]
    given = SimpleNamespace(selections=pd.DataFrame(rows), title=str)
    output = make("kem-fig6", given)
    verdict = output.tables["KEM best or tied"].loc["s"]
    assert list(verdict) == [3, 1, "no"]
    assert list(output.tables["Test users"].loc["s"]) == [3, 3, 1]


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


def test_markdown():
    table = pd.DataFrame({"a": [1]}, index=pd.Index(["x"], name="method"))
    assert markdown(table) == "| method | a |\n| --- | --- |\n| x | 1 |"


def test_a_table_without_a_figure(tmp_path):
    files = write("t", Output(pd.DataFrame({"a": [1]})), tmp_path, [])
    assert [file.name for file in files] == ["t.csv", "t.md"]
