"""Methods x studies x trials: the same wherever they run, and what is there isn't run again."""

import shutil
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kem_pymc import priors as prior_tables
from kem_pymc._jit.cache import PACKAGE
from kem_pymc._system.executors import Here, Processes
from kem_pymc.cli.reproduce import chains_of
from kem_pymc.datasets import DataFileNotFoundError
from kem_pymc.errors import InputError
from kem_pymc.experiments import runner, store
from kem_pymc.experiments import settings as given
from kem_pymc.experiments.data import load
from kem_pymc.experiments.runner import run_tasks, tasks_of
from kem_pymc.experiments.store import ONLOOKERS, Store, code, source_digest
from kem_pymc.experiments.task import Outcome, Task, run
from kem_pymc.experiments.training import Training, priors_of
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.cluster_model import scaling_for
from kem_pymc.selection.kem import KEMSelector
from tests.experiments.conftest import TINY
from tests.tiny_study import make_cohort

POOL = CandidatePool(["SE0"])  # of which these priors know nothing


@pytest.fixture
def figure(tiny):
    return tiny.figures["kem-fig5"]


def replaced(figure, **changes):
    """A figure with other settings."""
    return figure.model_copy(update=changes)


def numbers(table):
    """All but times, which are never the same."""
    return table.drop(columns="seconds")


def forbidden(task):
    raise AssertionError(f"{task.name} is run again")


def test_every_user_and_time_step_has_a_row(tiny, figure, done):
    table = done.selections(tasks_of(tiny, [figure]))
    counts = table.groupby(["method", "trial"]).size()
    assert (counts == 4 * 2).all()
    assert len(counts) == 2 * 2
    assert table["log_likelihood"].notna().all()
    assert set(table["truth"]) == {"LIN0 + PER0", "SE0"}


def test_the_last_step_has_no_next_batch(tiny, done):
    table = done.selections(tasks_of(tiny, [tiny.figures["kem-table2"]]))
    assert (table["log_likelihood"].isna() == (table["time_step"] == 2)).all()


def test_all_methods_see_the_same_users(tiny):
    tasks = tasks_of(tiny, tiny.figures.values())
    tasks = [p for p in tasks if p.name == "tiny" and p.folds is None]
    targets = {(p.trial, load(p.study, p.generator("users")).test.targets[0][0]) for p in tasks}
    assert len(targets) == 2  # trials


def test_pilot_users_are_held_out_in_turn(tiny):
    tasks = tasks_of(tiny, [replaced(tiny.figures["kem-defaults"], folds=4, studies=["tiny"])])
    tasks = [replace(tasks[0], trial=trial) for trial in range(8)]
    for drawn in (0, 1):
        pilot = replace(tasks[0], folds=None, trial=drawn).users().pilot
        parts = [task.users() for task in tasks[4 * drawn : 4 * drawn + 4]]
        assert sorted(u for part in parts for u in part.test.users) == sorted(pilot.users)
        for part in parts:
            assert set(part.pilot.users) == set(pilot.users) - set(part.test.users)
            (user,) = part.test.users
            own = pilot.targets[pilot.users.index(user)]
            np.testing.assert_array_equal(part.test.targets[0], own)


def test_held_out_users_are_judged_by_their_next_batch(tiny, done):
    table = done.selections(tasks_of(tiny, [tiny.figures["kem-defaults"]]))
    last = table.groupby("study")["time_step"].transform("max")
    assert (table["log_likelihood"].isna() == (table["time_step"] == last)).all()


@pytest.mark.parametrize("folds", [1, 5])
def test_there_are_folds_for_pilot_users(tiny, folds):
    (task, *_) = tasks_of(tiny, [replaced(tiny.figures["kem-defaults"], folds=folds)])
    with pytest.raises(InputError, match=f"4 pilot users can't be held out in {folds} folds"):
        task.users()


def test_processes_give_the_same(tiny, figure, done, tmp_path):
    tasks = tasks_of(tiny, [figure])
    elsewhere = run_tasks(tasks, Store(tmp_path), Processes(2))
    here = done.selections(tasks)
    pd.testing.assert_frame_equal(numbers(elsewhere), numbers(here))


def test_what_is_there_is_not_run_again(tiny, done, monkeypatch):
    monkeypatch.setattr(runner, "run", forbidden)
    shown = []
    tasks = tasks_of(tiny, tiny.figures.values())
    run_tasks(tasks, done, Here(), shown.append)
    assert shown == tasks


def test_an_interrupted_experiment_goes_on(tiny, figure, done, tmp_path):
    tasks = tasks_of(tiny, [figure])
    store = Store(tmp_path)

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tasks(tasks, store, Here(), stop)
    left = [task for task in tasks if store.missing(task)]
    assert len(left) == len(tasks) - 1
    table = run_tasks(tasks, store, Here())
    pd.testing.assert_frame_equal(numbers(table), numbers(done.selections(tasks)))


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


def test_quick_is_little(tiny, figure):
    tasks = tasks_of(tiny, [figure], quick=True)
    assert {(p.trial, p.test_users, p.steps) for p in tasks} == {(0, 2, 20)}
    assert {p.sampling["cut"].draws for p in tasks} == {4}
    assert {p.trial for p in tasks_of(tiny, [figure], trials=1)} == {0}


def test_baselines_depend_on_the_noise_without_a_parent_alone(tiny, figure, monkeypatch):
    def trainings():
        return {task.learns: task.training() for task in tasks_of(tiny, [figure], trials=1)}

    before = trainings()
    table = priors_of("synthetic", POOL)
    monkeypatch.setattr(prior_tables, "synthetic", lambda: table.replace(noise=lambda _: 1.0))
    changed = {learns for learns, training in trainings().items() if training != before[learns]}
    assert changed == {"cut"}
    assert set(before) > changed


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


def test_other_settings_lie_beside(tiny, figure, done, tmp_path):
    """A quick look never costs what took a night."""
    shutil.copytree(done.folder, tmp_path / "copy")
    store = Store(tmp_path / "copy")
    tasks = tasks_of(tiny, [figure])
    before = store.selections(tasks)
    run_tasks(tasks_of(tiny, [figure], quick=True, seed=3), store, Here())
    assert all(store.missing(task) == [] for task in tasks)
    pd.testing.assert_frame_equal(store.selections(tasks), before)
    assert store.codes(tasks) == [code()]


def test_maximum_a_posteriori_goes_by_the_priors_of_what_was_learned(tiny):
    """Methods that know no parent have one prior of the noise, whatever the parent."""
    (task,) = [
        p for p in tasks_of(tiny, [tiny.figures["kem-ablation"]], trials=1) if p.learns == "final"
    ]
    users = task.users()
    table = priors_of("synthetic", POOL)
    pool, scaling = CandidatePool(task.candidates()), scaling_for(users.pilot, table)
    training = Training(users.pilot, pool, table, scaling)
    training.learn("final", task.sampling, task.generator("final"))
    scorer = training.selector(task.methods["Final, map"])._scorer
    assert str(scorer.priors.noise) == str(priors_of("synthetic", POOL).without_parent().noise)


@pytest.mark.parametrize("method", ["ARD", "Two-level"])
def test_scores_with_a_transform_are_of_the_target_itself(tiny, method):
    """The logarithm's Jacobian and the target's unit are counted, for models of users as well."""
    logs = make_cohort(((4, 8),) * 4)
    raw = replace(logs, targets=tuple(np.exp(y) for y in logs.targets))
    given_methods = {"ARD": tiny.methods["ARD"], "Two-level": given.Method(learns="two-level")}
    made = {"methods": {method: given_methods[method]}, "sampling": tiny.sampling, "trial": 0}
    table = {"title": "t", "data": "table", "pool": ["SE0"], "judged": "next", "trials": 1}

    def task(cohort, transform):
        study = given.Study(**table, transform=transform)
        return Task("t", study, learns=given_methods[method].learns, cohort=cohort, **made)

    through, plain = task(raw, "log"), task(logs, None)
    found, expected = (run(own).selections for own in (through, plain))
    y = [np.log(raw.targets[raw.users.index(user)][4:8]).mean() for user in found["user"]]
    found, expected = found["log_likelihood"], expected["log_likelihood"]
    pilots = [np.concatenate(own.users().pilot.targets).std() for own in (through, plain)]
    np.testing.assert_allclose(found, expected - y + np.log(pilots[0] / pilots[1]), rtol=1e-8)


def test_users_of_the_packages_settings():
    """Every trial can be dealt; the parts of pilot users, too."""
    settings = given.default()
    assert settings.methods["KEM, ml, bic"].options == {"fit": "ml", "criterion": "bic"}
    tasks = tasks_of(settings, settings.figures.values(), trials=1)
    looked_at = set()
    for task in {(p.name, p.trial, p.folds): p for p in tasks}.values():
        with suppress(DataFileNotFoundError):
            users = task.users()
            assert not set(users.pilot.users) & set(users.test.users) or task.folds is None
            assert users.test.n_users >= 1
            looked_at.add(task.name)
    assert looked_at >= {"synthetic", "similar", "complex"}


def test_choices_are_made_on_users_whom_nothing_reports():
    settings = given.default()
    choices = settings.figures["kem-choices"]
    others = [figure for name, figure in settings.figures.items() if name != "kem-choices"]
    assert not set(choices.studies) & {name for figure in others for name in figure.studies}
    seeds = lambda figures, **own: {p.seed for p in tasks_of(settings, figures, **own)}  # noqa: E731
    assert seeds([choices]) == {100}
    assert seeds([choices, *others], trials=1, seed=3) == {103, 3}


def test_new_users_share_what_pilot_users_share():
    study = given.default().studies["slopes"]
    pilot, test = load(study, np.random.default_rng(1))
    assert (pilot.n_users, test.n_users) == (16, 30)
    np.testing.assert_array_equal(pilot.truth.shared_test, test.truth.shared_test)
    assert pilot.truth.shared_test.any()
    assert pilot.targets[0][0] != test.targets[0][0]


def test_all_methods_mix_with_the_same_users_who_share_nothing():
    """Catches a method without that mixture, and other posteriors or another run for each."""
    settings = given.default()
    study = settings.studies["slopes"]
    study = study.model_copy(update={"options": study.options | {"test_users": 2}})
    sampling = {"cut": given.Sampling(chains=1, tune=5, draws=5)}
    tasks = [
        Task("slopes", study, 0, learns, {name: settings.methods[name]}, sampling, shared="auto")
        for learns, name in (("final", "Final"), ("ard", "ARD"))
    ]
    outcomes = [run(task) for task in tasks]
    final, ard = (outcome.evolutions["unshared"] for outcome in outcomes)
    assert final == ard
    assert final.shared is None
    assert "unshared" not in outcomes[0].evolutions["final"].to_dict()  # kept once
    for task, outcome in zip(tasks, outcomes, strict=True):
        again = run(replace(task, known=outcome.evolutions)).selections
        pd.testing.assert_frame_equal(numbers(again), numbers(outcome.selections))
    known = {"final": outcomes[0].evolutions["final"]}
    without = run(replace(tasks[0], known=known)).selections
    assert (without.log_likelihood != outcomes[0].selections.log_likelihood).any()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[quick]", "[quick", "can't be used"),
        ('judged = "truth"', 'judged = "tea leaves"', "can't be used"),
        ('methods = ["KEM", "Final"]', 'methods = ["KEM", "Best"]', "uses 'Best'"),
        ("trials = 2", "trials = 0", "can't be used"),
    ],
)
def test_settings_are_checked(old, new, message):
    with pytest.raises(InputError, match=message):
        given.read(TINY.replace(old, new, 1))


def test_an_unknown_data_set(tiny):
    study = tiny.studies["tiny"].model_copy(update={"data": "tea"})
    task = replace(tasks_of(tiny, tiny.figures.values())[0], study=study)
    with pytest.raises(InputError, match="no data set 'tea'"):
        run(task)


def test_trainings_report_in_how_many_chains_disagree(tiny, figure, tmp_path):
    """Catches a training that is counted once for each method, and one without chains counted."""
    tasks = tasks_of(tiny, [figure])
    store = Store(tmp_path)
    of_training = {}
    for number, task in enumerate(tasks):
        r_hat = of_training.setdefault(store.place(task), 1.0 + 0.1 * (number % 2))
        none = {"final": {"log_joint": None}, "cut": {"log_joint": r_hat, "n_clusters": None}}
        store.keep(task, Outcome(pd.DataFrame({"method": []}), {}, 1.0, none))
    assert sorted(store.r_hats(tasks)) == sorted(of_training.values())
    apart = sum(value > 1.05 for value in of_training.values())
    assert 0 < apart < len(of_training)
    assert (
        f"Chains disagree in {apart} of {len(of_training)} trainings" in chains_of(tasks, store)[0]
    )
    store.keep(replace(tasks[0], seed=9), Outcome(pd.DataFrame({"method": []}), {}, 1.0, {}))
    assert chains_of([replace(tasks[0], seed=9)], store) == []
