"""Evolved kernels on time series: tasks, results that are stored, and tables."""

import numpy as np
import pandas as pd
import pytest

from kem_pymc._system.executors import Serial
from kem_pymc.datasets import extrapolations as load
from kem_pymc.datasets import published_errors
from kem_pymc.experiments import extrapolations
from kem_pymc.experiments.figures.extrapolations import PUBLISHED, make
from kem_pymc.experiments.results import run_tasks
from kem_pymc.experiments.settings import default

TABLES = default().extrapolations


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A data home with two short series, one of them with a repeated time."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "tsdl13").mkdir()
    x = np.arange(30) / 10
    split = np.where(x > 2.6, "test", "train")
    one = pd.DataFrame({"series": "01-one", "x": x, "y": np.sin(6 * x), "split_extrap_9010": split})
    two = pd.concat([one, one[:1].assign(y=4.0)]).assign(series="02-two")
    pd.concat([one, two]).to_csv(folder / "tsdl13" / "tsdl13_all.csv", index=False)
    errors = pd.DataFrame({"dataset": ["a", "b"], "denom": [0.5, 2.0]})
    errors = errors.assign(**dict.fromkeys(PUBLISHED, 1.0))
    errors.to_csv(folder / "tsdl13" / "published_rmse.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def results(home, tmp_path_factory):
    """Stored results of table 6 after three kernels or so, and their folder and tasks."""
    options = {"trials": 1, "seconds": 1e-6, "data_home": home}
    tasks = extrapolations.tasks_of(TABLES["evocov-table6"], list(load(home)), **options)
    folder = tmp_path_factory.mktemp("out")
    return run_tasks(extrapolations.run, tasks, folder, Serial()), folder, tasks


def test_tasks_of_the_packages_settings():
    names = [f"{i:02d}" for i in range(13)]
    tasks = extrapolations.tasks_of(TABLES["evocov-table6"], names)
    assert len(tasks) == 3 * 13 * 4
    assert {task.seconds for task in tasks} == {180.0}
    assert extrapolations.tasks_of(TABLES["evocov-table7"], names) == tasks  # nothing runs twice
    metrics = {
        t.metric for t in extrapolations.tasks_of(TABLES["evocov-table4"], names, quick=True)
    }
    assert metrics == {"lml", "loocv", "posterior_lml", "sopl", "rmse"}
    shared = set(tasks) & set(extrapolations.tasks_of(TABLES["evocov-table4"], names))
    assert len(shared) == 3 * 13 * 2


def test_results_are_stored(results):
    table, folder, tasks = results
    assert len(table) == 8
    again = run_tasks(None, tasks, folder, Serial())
    pd.testing.assert_frame_equal(table, again)
    row = table.iloc[0]
    assert row["kernels"] == 8
    assert row["evaluations"] >= row["kernels"]
    assert np.isfinite(table["rmse"]).all()


def test_repeated_times_are_averaged(home):
    series = extrapolations.averaged(load(home)["02-two"])
    assert len(series.x) == len(load(home)["01-one"].x)
    assert series.y[0] == 2.0


def test_tables(results, home):
    table, _, _ = results
    output = make("evocov-table6", TABLES["evocov-table6"], table, published_errors(home))
    errors = output.tables["RMSE over the smallest published RMSE, mean over trials"]
    row = table[(table["series"] == "02-two") & (table["metric"] == "sopl")].iloc[0]
    assert float(errors.loc["02-two", "EvoCov SoPL"]) == pytest.approx(row["rmse"] / 2, abs=6e-4)
    assert list(errors.index) == ["01-one", "02-two", "mean", "median"]
    published = output.tables["Published, over the smallest published RMSE"]
    assert float(published.loc["01-one", "GPSS"]) == 2.0
    assert output.figure.axes[0].get_xlabel() == "mean rank"
    counts = make("evocov-table7", TABLES["evocov-table7"], table, published_errors(home))
    (own,) = counts.tables.values()
    assert float(own.loc["02-two", "EvoCov SoPL"]) == row["hyperparameters"]
