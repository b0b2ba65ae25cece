"""What is stored: results by the settings and the code that made them."""

import shutil
from dataclasses import replace

import pandas as pd
import pytest

from kem_pymc._jit.cache import PACKAGE
from kem_pymc._system.executors import Serial
from kem_pymc.comparison import settings as given
from kem_pymc.comparison import store
from kem_pymc.comparison.code import ONLOOKERS, code, source_digest
from kem_pymc.comparison.runner import run_tasks, tasks_of
from kem_pymc.comparison.store import Store
from kem_pymc.comparison.task import run
from kem_pymc.selection.kem import KEMSelector
from tests.experiments.conftest import numbers
from tests.tiny_study import make_cohort


def test_another_method_goes_by_what_was_learned(tiny, done, tmp_path):
    shutil.copytree(done.folder, tmp_path / "copy")
    store = Store(tmp_path / "copy")
    (task,) = [
        p
        for p in tasks_of(tiny, [tiny.figures["kem-ablation"]], trials=1)
        if (p.learns, p.supposes) == ("cut", "study")
    ]
    store.table(task, "KEM, ml, bic").unlink()
    assert store.missing(task) == ["KEM, ml, bic"]
    known = store.known(task)
    assert list(known) == ["cut"]
    outcome = run(
        replace(task, known=known, methods={"KEM, ml, bic": task.methods["KEM, ml, bic"]})
    )
    assert outcome.seconds == 0.0
    store.keep(replace(task, known=known), outcome)
    assert store.missing(task) == []
    pd.testing.assert_frame_equal(
        numbers(store.selections([task])), numbers(done.selections([task]))
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},
        {"test_users": 2},
        {"folds": 3},
        {"supposes": "few-enter"},
        {"sampling": {"cut": given.Sampling(chains=1, tune=5, draws=11)}},
        {"cohort": make_cohort(((1, 2),) * 4)},  # another table under the same name
    ],
)
def test_other_settings_are_run_anew(tiny, figure, done, changed):
    for task in tasks_of(tiny, [figure]):
        assert done.missing(replace(task, **changed)) == list(task.methods)


def test_other_code_makes_other_results(tiny, figure, done, monkeypatch):
    """Fails where what an earlier version learned or selected is taken for this one's."""
    tasks = tasks_of(tiny, [figure])
    assert all(done.missing(task) == [] for task in tasks)
    monkeypatch.setattr(store, "code", lambda: "another")
    for task in tasks:
        assert done.missing(task) == list(task.methods)
        assert done.known(task) == {}


def test_the_code_of_results_is_all_that_makes_them(tmp_path):
    """A change of any source but those that only look at results changes the digest."""
    for name in ("gp/fit.py", "selection/kem.py", "selection/scores.py", *ONLOOKERS):
        path = tmp_path / (name if name.endswith(".py") else f"{name}/a.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1")
        source_digest.cache_clear()
        before = source_digest(tmp_path)
        path.write_text("x = 2")
        source_digest.cache_clear()
        assert (source_digest(tmp_path) == before) == (name in ONLOOKERS), name
    for onlooker in ONLOOKERS:
        assert (PACKAGE / onlooker).exists(), onlooker
    modules = [name.removesuffix(".py").replace("/", ".") for name in ONLOOKERS if "/" in name]
    for path in PACKAGE.joinpath("experiments").glob("*.py"):
        if f"experiments/{path.name}" not in ONLOOKERS:
            assert not [m for m in modules if f"kem_pymc.{m}" in path.read_text()], path


def test_what_a_default_is_belongs_to_what_selections_depend_on(tiny, figure, done, monkeypatch):
    (task, *_) = [p for p in tasks_of(tiny, [figure]) if p.learns == "cut"]
    options = task.exercise("KEM")["options"]
    assert (options["fit"], options["criterion"]) == ("pilot", "posterior")
    assert done.missing(task) == []
    defaults = KEMSelector.__init__.__defaults__
    monkeypatch.setattr(KEMSelector.__init__, "__defaults__", ("ml", "bic"))
    assert done.missing(task) == ["KEM"]
    monkeypatch.setattr(KEMSelector.__init__, "__defaults__", defaults)
    assert done.missing(task) == []


@pytest.mark.integration
def test_other_settings_lie_beside(tiny, figure, done, tmp_path):
    """A quick look never costs what took a night."""
    shutil.copytree(done.folder, tmp_path / "copy")
    store = Store(tmp_path / "copy")
    tasks = tasks_of(tiny, [figure])
    before = store.selections(tasks)
    run_tasks(tasks_of(tiny, [figure], quick=True, seed=3), store, Serial())
    assert all(store.missing(task) == [] for task in tasks)
    pd.testing.assert_frame_equal(store.selections(tasks), before)
    assert store.codes(tasks) == [code()]
