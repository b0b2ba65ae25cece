"""Optimisers on sequences of functions: tasks, stored results, and the figures."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from experiments.data.registry import simulated_registry
from experiments.lifelong import sequences
from experiments.lifelong.figures import MAKERS, make
from experiments.settings import Optimiser, RegistryTable, Sequences, default
from kem_pymc._system.executors import Serial
from kem_pymc.comparison.stored import run_tasks
from kem_pymc.errors import InputError
from kem_pymc.lifelong import sampler
from kem_pymc.lifelong.lbo import LBO

SETTINGS = default().sequences

SMALL = Sequences(
    noises=[0.01, 1.0],
    methods={
        "LBO": Optimiser(method="lbo", max_networks=2),
        "SGP": Optimiser(method="gp"),
        "Random": Optimiser(method="random"),
    },
    functions=2,
    evaluations=7,
    trials=2,
    quick_evaluations=6,
    quick_trials=1,
)


@pytest.fixture(scope="module", autouse=True)
def small():
    """Networks that are trained quickly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler, "LBO", partial(LBO, units=6, iterations=2))
        yield


def test_tasks_of_the_packages_settings():
    assert set(SETTINGS) == set(MAKERS)
    tasks = sequences.tasks_of(SETTINGS["lbo-fig2"])
    assert len(tasks) == 10 * 5 * 10
    assert {task.evaluations for task in tasks} == {50}
    tasks = sequences.tasks_of(SETTINGS["lbo-fig5"], evaluations=20)
    assert {(task.sequence.functions, task.evaluations) for task in tasks} == {(10, 20)}
    assert {task.max_networks for task in tasks if task.method == "lbo"} == {25}
    assert len({task.file(sequences.Path("x")) for task in tasks}) == len(tasks)
    assert len(sequences.tasks_of(SMALL, quick=True)) == 6


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Stored results of all methods."""
    folder = tmp_path_factory.mktemp("out")
    tasks = sequences.tasks_of(SMALL)
    found = run_tasks(tasks, folder, Serial())
    again = run_tasks(tasks, folder, Serial())
    pd.testing.assert_frame_equal(found, again)
    return found


def test_methods_share_functions_and_first_points(rows):
    """Values differ between trials, but not between methods until there is a model."""
    first = rows[(rows["evaluation"] < 5) & (rows["function"] == 0)]
    wide = first.pivot_table(
        index=["noise", "trial", "evaluation"], columns="method", values="value"
    )
    np.testing.assert_array_equal(wide["LBO"], wide["Random"])
    np.testing.assert_array_equal(wide["SGP"], wide["Random"])
    assert rows[rows["evaluation"] == 6].groupby("noise")["value"].nunique().min() > 6
    assert (rows["value"] >= rows["optimum"] - 1e-9).all()


def test_figures(rows):
    output = make("lbo-fig2", rows)
    regret, *_ = output.tables.values()
    own = rows[(rows["method"] == "SGP") & (rows["noise"] == 1.0)]
    ends = own.groupby(["trial", "function"])[["value", "optimum"]].min()
    mean = (ends["value"] - ends["optimum"]).groupby("trial").mean().mean()
    assert float(regret.loc["SGP", 1.0].split(" ± ")[0]) == pytest.approx(mean, abs=0.005)
    assert len(output.figure.axes) == 4  # with the colours of correlations
    assert len(output.figure.axes[0].lines) == 3
    times = make("lbo-fig5", rows[rows["noise"] == 0.01])
    (table,) = times.tables.values()
    assert list(table.index) == ["LBO", "SGP", "Random"]


NETLESS = {name: method for name, method in SMALL.methods.items() if name != "LBO"}
REGISTRY = SMALL.model_copy(
    update={"noises": [], "overlaps": [2], "methods": NETLESS, "evaluations": 6}
)


def test_scores_on_windows_of_a_registry(tmp_path):
    """Methods share registries and first points; the gain is on the best score of random search."""
    rows = run_tasks(sequences.tasks_of(REGISTRY), tmp_path, Serial())
    rows.loc[rows["evaluation"] == 5, "value"] = np.nan  # a failure at the end hides nothing
    first = rows[(rows["evaluation"] < 5) & (rows["function"] == 0)]
    wide = first.pivot_table(index=["trial", "evaluation"], columns="method", values="value")
    np.testing.assert_array_equal(wide["SGP"], wide["Random"])
    assert rows["value"].dropna().between(0.45, 0.95).all()
    best = rows.groupby(["method", "trial", "function"])["value"].max()
    gain = (best["SGP"] / best["Random"] - 1).groupby("trial").mean().mean()
    output = make("lbo-fig3", rows)
    table = output.tables["Improvement on random search, percent"]
    assert list(table.index) == ["SGP"]
    assert float(table.loc["SGP", 2].split(" ± ")[0]) == pytest.approx(100 * gain, abs=0.005)
    (bars,) = output.figure.axes[0].containers
    assert bars.lines[0].get_ydata() == pytest.approx([100 * gain])


def test_a_table_of_ones_own(tmp_path):
    """Its contents decide whether results are stored; a missing one is an error."""
    path = tmp_path / "registry.csv"
    own = {"path": str(path), "outcome": "died", "year": "entered"}
    table = REGISTRY.model_copy(update={"registry": RegistryTable(**own)})
    with pytest.raises(InputError, match=r"registry.csv can't be read"):
        sequences.tasks_of(table)
    simulated = simulated_registry(np.random.default_rng(0), per_year=30)
    frame = simulated.features.assign(died=simulated.outcome, entered=simulated.year)
    frame.to_csv(path, index=False)
    task = sequences.tasks_of(table)[1]
    first = task.file(tmp_path)
    assert len(task.run()) == 12
    frame.iloc[1:].to_csv(path, index=False)
    assert sequences.tasks_of(table)[1].file(tmp_path) != first
    frame["died"] = np.arange(len(frame)) % 40 == 0
    frame.to_csv(path, index=False)
    with pytest.raises(InputError, match=r"an outcome with [34] rows"):
        sequences.tasks_of(table)[1].run()


def test_alpha_and_networks_are_passed_on():
    task = replace(sequences.tasks_of(SMALL)[0], evaluations=6, max_networks=3)
    found = task.run()
    assert found["networks"].iloc[-1].count(",") == 2
