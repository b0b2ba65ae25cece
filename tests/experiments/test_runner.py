"""Tasks of figures: the same wherever they run, and what is there isn't run again."""

import pandas as pd
import pytest

from kem_pymc._system.executors import Processes, Serial
from kem_pymc.comparison import runner
from kem_pymc.comparison.data import load
from kem_pymc.comparison.runner import run_tasks, tasks_of
from kem_pymc.comparison.store import Store
from tests.experiments.conftest import numbers


def forbidden(task):
    raise AssertionError(f"{task.name} is run again")


def test_all_methods_see_the_same_users(tiny):
    tasks = tasks_of(tiny, tiny.figures.values())
    tasks = [p for p in tasks if p.name == "tiny" and p.folds is None]
    targets = {(p.trial, load(p.study, p.generator("users")).test.targets[0][0]) for p in tasks}
    assert len(targets) == 2  # trials


@pytest.mark.integration
def test_processes_give_the_same(tiny, figure, done, tmp_path):
    tasks = tasks_of(tiny, [figure])
    elsewhere = run_tasks(tasks, Store(tmp_path), Processes(2))
    here = done.selections(tasks)
    pd.testing.assert_frame_equal(numbers(elsewhere), numbers(here))


@pytest.mark.integration
def test_what_is_there_is_not_run_again(tiny, done, monkeypatch):
    monkeypatch.setattr(runner, "run", forbidden)
    shown = []
    tasks = tasks_of(tiny, tiny.figures.values())
    run_tasks(tasks, done, Serial(), shown.append)
    assert shown == tasks


@pytest.mark.integration
def test_an_interrupted_experiment_goes_on(tiny, figure, done, tmp_path):
    tasks = tasks_of(tiny, [figure])
    store = Store(tmp_path)

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tasks(tasks, store, Serial(), stop)
    left = [task for task in tasks if store.missing(task)]
    assert len(left) == len(tasks) - 1
    table = run_tasks(tasks, store, Serial())
    pd.testing.assert_frame_equal(numbers(table), numbers(done.selections(tasks)))


def test_quick_is_little(tiny, figure):
    tasks = tasks_of(tiny, [figure], quick=True)
    assert {(p.trial, p.test_users, p.steps) for p in tasks} == {(0, 2, 20)}
    assert {p.sampling["cut"].draws for p in tasks} == {4}
    assert {p.trial for p in tasks_of(tiny, [figure], trials=1)} == {0}
