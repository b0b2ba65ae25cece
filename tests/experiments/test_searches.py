"""Searches on single data sets: tasks, results that are stored, and the figure."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.results import Options
from experiments.search import searches
from experiments.search.figures import make
from experiments.settings import Searches, default
from kem_pymc._system.executors import Serial
from kem_pymc.comparison.stored import run_tasks
from kem_pymc.search.grammar import Grammar
from kem_pymc.search.hyperpriors import Hyperpriors
from kem_pymc.search.points import scaled

ALL = Options(Path("out"))
SMALL = Searches(
    data={"airline": "AIRLINE"},
    methods=["boms", "cks"],
    budget=3,
    trials=2,
    quick_budget=2,
    quick_trials=1,
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A data home with a short series in place of the airline data."""
    x = np.arange(30) / 12
    table = pd.DataFrame({"x": x, "y": x + np.sin(2 * np.pi * x)})
    (tmp_path / "home" / "boms").mkdir(parents=True)
    table.to_csv(tmp_path / "home" / "boms" / "airline.csv", index=False)
    monkeypatch.setenv("KEM_DATA", str(tmp_path / "home"))


def test_tasks_of_the_packages_settings():
    tasks = searches.tasks_of(default().searches["boms-fig2"], ALL)
    assert len(tasks) == 10 * 6 * 3
    assert {task.budget for task in tasks} == {40}
    quick = searches.tasks_of(default().searches["boms-fig2"], replace(ALL, quick=True))
    assert {task.budget for task in quick} == {6}
    assert len(searches.tasks_of(SMALL, replace(ALL, trials=5))) == 10


@pytest.mark.usefixtures("home")
def test_results_are_stored_and_not_computed_again(tmp_path, monkeypatch):
    tasks = searches.tasks_of(SMALL, ALL)
    done = []
    first = run_tasks(tasks, tmp_path, Serial(), done.append)
    assert done == tasks
    assert len(first) == 2 * 2 * (3 + 1)  # with the constant
    monkeypatch.setattr(searches, "search", None)
    again = run_tasks(tasks, tmp_path, Serial())
    pd.testing.assert_frame_equal(first, again)
    # Trials differ; the same trial and seed gives the same path.
    of_cks = first[first["method"] == "cks"].groupby("trial")["model"].apply(list)
    assert of_cks[0] != of_cks[1]


@pytest.mark.usefixtures("home")
def test_oracle_is_of_the_best_models_of_all_searches():
    paths = pd.DataFrame(
        {
            "data": "airline",
            "model": ["SE0", "PER0", "LIN0", "PER0 + LIN0", "RQ0", "PER0", "SE0 x SE0"],
            "score": [1.0, 2.0, 3.0, 9.0, 4.0, 8.0, 0.0],
        }
    )
    (task,) = searches.oracles_of(paths, 0)
    assert task.models == ("PER0 + LIN0", "PER0", "RQ0", "LIN0", "SE0")
    fitted = replace(task, models=task.models[:1]).run()
    x, y, _ = scaled(*searches.single("airline")[:2])
    once = searches.Evaluator(x, y, Hyperpriors(), starts=1).evaluate(
        Grammar(1).parse("LIN0 + PER0")
    )
    assert fitted["per_point"][0] >= once.score / 30 - 1e-6


def test_figure():
    rows = [
        {
            "data": "airline",
            "method": method,
            "trial": trial,
            "evaluation": k,
            "best_per_point": k / 10 + (method == "boms") * (1 + 0.01 * trial),
            "elapsed": 0.5 * (k + 1),
            "overhead": 0.08 if method == "boms" else 0.0,
        }
        for method in ("boms", "cks")
        for trial in range(3)
        for k in range(40)
    ]
    again = pd.DataFrame({"data": ["airline"] * 2, "per_point": [6.0, 5.0]})
    output = make(SMALL, pd.DataFrame(rows), again)
    best, against, times = output.tables.values()
    assert best.loc[("AIRLINE", 40), "BOMS"].startswith("4.91")
    assert best.loc[("AIRLINE", 5), "CKS"].startswith("0.4")
    assert best.loc[("AIRLINE", 5), "oracle"] == "6.00"
    lower, *_ = make(SMALL, pd.DataFrame(rows), again.assign(per_point=1.0)).tables.values()
    assert lower.loc[("AIRLINE", 5), "oracle"] == "4.92"
    assert against.loc[("AIRLINE", 20), "difference"].startswith("1.01")
    assert against.loc[("AIRLINE", 20), "trials in which BOMS is ahead"] == "3 of 3"
    assert times.loc[("AIRLINE", "BOMS"), "share of the search"] == "8.0%"
    assert times.loc[("AIRLINE", "CKS"), "seconds"] == "20.0"
    axes = output.figure.axes
    assert axes[0].get_title() == "AIRLINE"
    assert len(axes[1].lines) == 6 + 1  # with the oracle
