"""Extrapolation by evolved kernels: tasks, limits, results that are stored, and the tables."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.data.series import COLUMNS, PUBLISHED, TSDL, VALUES, Series
from experiments.evocov import extrapolations, strategies
from experiments.evocov.figures import MAKERS, make
from experiments.evocov.search_paths import ScaledSeries
from experiments.results import Options
from experiments.settings import default
from kem_pymc._system.executors import Serial
from kem_pymc.comparison.stored import run_tasks
from kem_pymc.search.evocov.fitting import Fitter
from kem_pymc.search.evocov.strategies import Evolution, PsdCheck
from kem_pymc.search.exploration import explore

SETTINGS = default()
METHODS = SETTINGS.extrapolators

#: Everything, at full length.
ALL = Options(Path("out"))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A data home with a short series in place of the airline data."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "tsdl13").mkdir()
    x = np.arange(40) / 12
    table = pd.DataFrame({"series": "01-airline", "x": x, "y": x + np.sin(2 * np.pi * x)})
    table["split_extrap_9010"] = np.where(x > 0.9 * x.max(), "test", "train")
    table.to_csv(folder / VALUES, index=False)
    pd.DataFrame(2.0, range(13), COLUMNS).assign(denom=0.5).to_csv(folder / PUBLISHED, index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEM_DATA", str(folder))
        yield folder


def task_of(name="EvoCov LML", **changes):
    method = METHODS[name]
    task = extrapolations.ExtrapolationTask(
        "01-airline", name, method.strategy, method.metric, 1, 0, 15, None, 0
    )
    return replace(task, **changes)


class TestTasks:
    def test_of_the_packages_settings(self):
        tables = {name: own for name, own in SETTINGS.extrapolations.items()}
        assert set(tables) == set(MAKERS)
        tasks = {name: extrapolations.tasks_of(own, METHODS, ALL) for name, own in tables.items()}
        assert {name: len(own) for name, own in tasks.items()} == {
            "evocov-table4": 13 * 10 * 3,
            "evocov-table5": 13,
            "evocov-table6": 13 * 5 * 3,
            "evocov-table7": 13 * 5 * 3,
            "evocov-table8": 6 * 3 * 3,
        }
        assert {task.seconds for task in tasks["evocov-table6"]} == {180}
        assert {(task.kernels, task.seconds) for task in tasks["evocov-table5"]} == {(200, None)}

    def test_tables_share_results(self, tmp_path):
        """Table 7 must not run anything again, nor table 4 what it has in common with table 6."""
        places = {
            name: {task.file(tmp_path) for task in extrapolations.tasks_of(own, METHODS, ALL)}
            for name, own in SETTINGS.extrapolations.items()
        }
        assert places["evocov-table7"] == places["evocov-table6"]
        assert len(places["evocov-table4"] & places["evocov-table6"]) == 13 * 2 * 3

    @pytest.mark.parametrize(
        "change",
        [
            *({"kernels": 9}, {"seconds": 9.0}, {"reference": 9}, {"seed": 9}, {"trial": 9}),
            *({"strategy": "random"}, {"metric": "rmse"}, {"original": "{}"}, {"method": "A"}),
        ],
    )
    def test_every_setting_has_results_of_its_own(self, tmp_path, change):
        task = task_of()
        assert replace(task, **change).file(tmp_path) != task.file(tmp_path)

    def test_limits(self):
        table = SETTINGS.extrapolations["evocov-table8"]
        tasks = extrapolations.tasks_of(table, METHODS, replace(ALL, quick=True))
        assert {(task.method, task.kernels, task.seconds) for task in tasks} == {
            ("PS", 1, None),
            ("EvoCov LML", 20, None),
            ("EvoCov SoPL", 20, None),
        }
        assert extrapolations.limits(tasks) == "Trials: 1. Each search ends after 20 kernels."
        options = replace(ALL, seconds=900, trials=10)
        tasks = extrapolations.tasks_of(table, METHODS, options)
        assert extrapolations.limits(tasks) == "Trials: 10. Each search ends after 900 CPU seconds."
        of_five = SETTINGS.extrapolations["evocov-table5"]
        (task, *_) = extrapolations.tasks_of(of_five, METHODS, replace(ALL, seconds=9.0))
        assert (task.kernels, task.seconds) == (200, 9.0)
        (task, *_) = extrapolations.tasks_of(of_five, METHODS, replace(ALL, quick=True))
        assert (task.kernels, task.reference) == (10, 20)

    def test_every_search_ends(self):
        for table in SETTINGS.extrapolations.values():
            assert set(table.methods) <= set(METHODS)
            assert table.kernels or table.seconds


class TestLimited:
    def generations(self):
        rng = np.random.default_rng(0)
        return lambda: Evolution(PsdCheck(1, rng), rng, size=6, selected=2)

    def test_one_by_one_finds_what_generations_do(self):
        """Fails where a strategy is shown part of a generation."""
        x = np.linspace(0, 1, 20)[:, None]
        fitter = Fitter(x, np.sin(9 * x[:, 0]), 10)
        found = explore(self.generations()(), fitter, 20)
        limited = explore(strategies.Limited(self.generations(), None), fitter, 20)
        assert [own.to_json() for own in limited] == [own.to_json() for own in found]

    def test_nothing_is_proposed_after_the_time(self, monkeypatch):
        now = [0.0]
        monkeypatch.setattr(strategies.time, "process_time", lambda: now[0])
        limited = strategies.Limited(self.generations(), 5.0)
        now[0] = 4.9
        assert len(limited.propose()) == 1
        now[0] = 5.0
        assert limited.propose() == []

    def test_a_strategy_that_ends_begins_again(self):
        class Once:
            def __init__(self):
                self.left = ["kernel"]

            def propose(self):
                left, self.left = self.left, []
                return left

            def observe(self, fitted):
                pass

        limited = strategies.Limited(Once, None)
        for _ in range(3):
            assert limited.propose() == ["kernel"]
            limited.observe(["kernel"])


def test_sizes_grow_with_the_budget():
    def of(expected, name="EvoCov LML"):
        return extrapolations.strategy_of(task_of(name), expected, np.random.default_rng(0))()

    assert (of(20_000).size, of(20_000).selected) == (141, 14)
    assert (of(400).size, of(400).selected) == (20, 2)
    assert of(15).size == 10
    assert of(13 + 91 * 4, "Go With The First").mutations == 4
    assert of(20_000, "Go With The First").mutations == 200
    assert extrapolations._expected(15, None, 900) == 15
    assert extrapolations._expected(None, 100.0, 200) == 2501
    assert extrapolations._expected(1410, 100.0, 800) == 79


@pytest.mark.parametrize("name", ["EvoCov LML", "Go With The First", "Random Search"])
def test_many_points_are_screened_first(monkeypatch, name):
    """The best kernels on some of the points are the first ones on all."""
    monkeypatch.setattr(extrapolations, "KERNELS", 12)
    fits = []
    evaluate = Fitter.evaluate

    def noted(fitter, offspring, seed=0):
        fits.append((len(fitter.y), offspring, evaluate(fitter, offspring, seed)))
        return fits[-1][-1]

    monkeypatch.setattr(Fitter, "evaluate", noted)
    path = task_of(name, data="mornings", kernels=14).run()
    assert path["kernels"].iloc[-1] == 26
    _, *coarse = [found for n, _, found in fits if n < 336]  # the first one compiles
    full = [offspring for n, offspring, _ in fits if n == 336]
    assert (len(coarse), len(full)) == (11, 15) or (len(coarse), len(full)) == (12, 14)
    best = min(coarse, key=lambda found: found.bic)
    assert str(best.tree) in {str(own.tree) for own in full}
    (own,) = [own for own in full if str(own.tree) == str(best.tree)][:1]
    np.testing.assert_array_equal(own.inherited, best.natural)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "name", ["EvoCov LML", "EvoCov LML from CKS", "EvoCov SoPL", "Random Search"]
)
def test_paths(name):
    path = task_of(name).run()
    assert list(path.columns) == [
        *("kernels", "evaluations", "elapsed", "bic", "rmse", "size", "kernel"),
        *("log_density", "rmse_averaged", "log_density_averaged"),
        *("data", "method", "trial"),
    ]
    assert path["bic"].is_monotonic_decreasing
    assert path["kernels"].iloc[-1] == 15
    assert path["evaluations"].iloc[-1] >= 15
    assert np.isfinite(path["rmse"]).all()
    same = task_of(name).run()
    pd.testing.assert_frame_equal(path.drop(columns="elapsed"), same.drop(columns="elapsed"))
    other = task_of(name, trial=1).run()
    assert list(other["kernel"]) != list(path["kernel"])


def test_data_are_in_the_order_of_time():
    """Metrics hold out the last points, and a file's rows may be in any order."""
    own = Series("own", np.array([3.0, 1.0, 0.0, 2.0, 4.0]), np.arange(5.0), np.array([6.0]), 9.0)
    data = ScaledSeries.of(own)
    np.testing.assert_allclose(data.x[:, 0], [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(data.scaling.targets_back(data.y), [2, 1, 3, 0, 4])
    assert data.x_test.tolist() == [[1.5]]
    assert data.error((np.array([7.0]) - 2) / np.sqrt(2)) == pytest.approx(2)


@pytest.fixture(scope="module")
def originals(home, tmp_path_factory):  # noqa: ARG001  its files
    """The composition of the short series, as the results of its task, and the folder of these."""
    folder = tmp_path_factory.mktemp("originals")
    tasks = [task_of(name) for name in ("EvoCov LML", "Mutations", "LML", "RMSE")]
    table = SETTINGS.extrapolations["evocov-table4"]
    first = extrapolations.compositions_of(tasks, table, quick=True)
    assert [task.data for task in first] == ["01-airline"]
    assert extrapolations.compositions_of(tasks[:1], table) == []
    return extrapolations.with_originals(tasks, run_tasks(first, folder, Serial()))


def test_mutations_begin_with_the_original(originals):
    assert originals[0].original == ""
    path = originals[1].run()
    assert list(path["kernels"]) == list(range(16))
    assert path["evaluations"].iloc[0] == 0
    assert path["kernel"].iloc[0] in originals[1].original
    assert path["kernel"].nunique() > 3


def test_fits_keep_the_kernel(originals):
    paths = [replace(task, kernels=1, reference=20).run() for task in originals[2:]]
    for path in paths:
        assert path["kernel"].iloc[-1] in originals[1].original
        assert path["kernels"].iloc[-1] == 1
    assert paths[0]["rmse"].iloc[-1] != paths[1]["rmse"].iloc[-1]


def test_periodic_spikes_extrapolate_mornings():
    (row,) = task_of("PS", data="mornings").run().to_dict("records")
    assert (row["kernel"], row["size"]) == ("PS0", 4)
    assert row["rmse"] < 4.5  # counts of 60 at the spikes, which have a standard deviation of 8


@pytest.mark.usefixtures("home")
def test_results_are_stored_and_not_computed_again(tmp_path, monkeypatch):
    tasks = [task_of(trial=trial) for trial in range(2)]
    first = run_tasks(tasks, tmp_path, Serial())
    monkeypatch.setattr(extrapolations, "_explored", None)
    pd.testing.assert_frame_equal(run_tasks(tasks, tmp_path, Serial()), first)


class TestTables:
    def rows(self, methods, series=("01-airline", "02-solar", "08-radio"), trials=2):
        """Errors 1, 2, ... of the methods, times the trial from 1 on; each path has two rows."""
        return pd.DataFrame(
            {
                "kernels": 10 * step,
                "evaluations": 1000 * step,
                "elapsed": 5.0 * step,
                "bic": -step,
                "rmse": (1.0 + place) * (1 + trial) * (3 - step),
                "rmse_averaged": 1.0 + place,
                "log_density": -1.0,
                "log_density_averaged": -0.5 * step,
                "size": 3 + place,
                "kernel": "hp(h0)",
                "data": data,
                "method": method,
                "trial": trial,
            }
            for data in series
            for place, method in enumerate(methods)
            for trial in range(trials)
            for step in (1, 2)
        )

    def test_errors(self, home):
        output = make("evocov-table6", self.rows(SETTINGS.extrapolations["evocov-table6"].methods))
        relative, absolute, overall, ranks, spent = output.tables.values()
        assert overall.loc["EvoCov SoPL"].tolist() == ["15", "10", "-1", "-1"]
        assert absolute.loc["Airline", "EvoCov SoPL"] == "7.5 (5)"
        assert relative.loc["Airline", "EvoCov SoPL"] == "15 (10)"
        assert relative.loc["median", "Random Search"] == "3 (2)"
        assert relative.loc["Radio", "EvoCov LML, published"] == "4"
        assert ranks.loc["Random Search", "mean rank"] == "1.00"
        assert spent.loc["EvoCov LML", "evaluations"] == "2,000 (2,000 to 2,000)"
        assert "p = 0.0174 for 3 series" in output.notes[0]
        by_time = output.figure.axes[0]
        assert len(by_time.lines) == 5
        assert by_time.lines[0].get_ydata()[[0, -1]].tolist() == [6.0, 3.0]

    def test_sizes(self, home):
        output = make("evocov-table7", self.rows(["EvoCov LML", "EvoCov SoPL"]))
        (table,) = output.tables.values()
        assert table.loc["Airline"].tolist()[:3] == ["3", "4", "15"]
        assert table.loc["mean", "EvoCov LML"] == "3"

    def test_metrics(self, home):
        methods = SETTINGS.extrapolations["evocov-table4"].methods
        output = make("evocov-table4", self.rows(methods))
        assert list(output.tables["Test RMSE, kernels of a composition"]) == methods[:5]
        assert output.tables["Test RMSE, evolved kernels"].loc["Solar", "EvoCov LML"] == "9"
        assert output.tables["Test RMSE, published"].loc["Solar", "RMSE"] == "132"
        assert len(output.figure.axes) == 2

    def test_mutations(self, home):
        rows = self.rows(["Mutations"], trials=1)
        rows = pd.concat([rows, rows.assign(rmse=9.0, size=2)]).sort_values("data", kind="stable")
        (table,) = make("evocov-table5", rows).tables.values()
        # The original has error 2 and 3 hyperparameters; mutants have 1, 9 and 9, and 3, 2 and 2.
        shares = table.loc["Radio", ["better", "simpler", "both", "mutants"]]
        assert shares.tolist() == ["0.333", "0.667", "0", "3"]
        assert table.loc["Radio", "both, published"] == "0.05"

    def test_counts(self, home):
        rows = self.rows(["PS", "EvoCov LML", "EvoCov SoPL"], ("mornings", "shows"))
        output = make("evocov-table8", rows)
        assert next(iter(output.tables.values())).loc["mean", "PS"] == "1.5 (1)"
        assert "simulated" in output.notes[0]

    def test_titles_are_known(self):
        assert set(SETTINGS.extrapolations["evocov-table6"].names) == set(TSDL)
