"""The sampler, with Optuna itself."""

import pickle
from copy import deepcopy

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from kem_pymc.errors import InputError
from kem_pymc.lifelong import LifelongOptimizer
from kem_pymc.lifelong.optuna import LifelongSampler

SPACE = {
    "x": FloatDistribution(0.01, 10, log=True),
    "n": IntDistribution(1, 5),
    "kind": CategoricalDistribution(["a", "b"]),
}


@pytest.fixture(autouse=True)
def quiet():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def objective(shift):
    def value(trial):
        x = trial.suggest_float("x", 0.01, 10, log=True)
        n = trial.suggest_int("n", 1, 5)
        kind = trial.suggest_categorical("kind", ["a", "b"])
        return (np.log(x) - shift) ** 2 + n + (kind == "b")

    return value


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_studies_are_tasks(direction):
    """Points and values are those of the optimiser, asked for and recorded directly."""
    sampler = LifelongSampler(SPACE, seed=3, method="gp")
    direct = LifelongOptimizer(sampler.space, seed=3, method="gp", direction=direction)
    for year, shift in [("2023", 0.0), ("2024", 1.0)]:
        study = optuna.create_study(sampler=sampler, study_name=year, direction=direction)
        study.optimize(objective(shift), n_trials=8)
        direct.next_task(year)
        for trial in study.trials:
            point = direct.ask()
            assert trial.params == point
            direct.tell(point, objective(shift)(optuna.trial.FixedTrial(point)))
    assert [task.name for task in sampler.optimizer.tasks] == ["2023", "2024"]
    assert study.best_value == sampler.optimizer.best[1]


def test_failures_pruned_and_enqueued_trials_and_other_parameters():
    sampler = LifelongSampler(SPACE, method="random")
    study = optuna.create_study(sampler=sampler)

    def fragile(trial):
        value = objective(0.0)(trial)
        assert 0 <= trial.suggest_float("other", 0, 1) <= 1
        if trial.number == 1:
            raise RuntimeError("broken")
        if trial.number == 2:
            raise optuna.TrialPruned
        return value

    study.enqueue_trial({"x": 1.0, "n": 2, "kind": "a"})
    study.optimize(fragile, n_trials=5, catch=RuntimeError)
    (task,) = sampler.optimizer.tasks
    assert not task.pending
    known = dict(zip(map(str, task.points), task.values, strict=True))
    assert known[str({"x": 1.0, "n": 2, "kind": "a"})] == 2.0
    fine = [trial for trial in study.trials if trial.value is not None]
    assert sum(np.isfinite(task.values)) == len(fine) == 3


def test_enqueued_trials_are_learned_from_and_nothing_else():
    """Wholly, where no point is asked for, and in part; a proposal that wasn't tried isn't bad."""

    def wider(trial):
        n = trial.suggest_int("n", 1, 5)
        kind = trial.suggest_categorical("kind", ["a", "b"])
        return n + trial.suggest_float("x", 0.01, 30, log=True) + (kind == "b")

    sampler = LifelongSampler(SPACE, method="random")
    study = optuna.create_study(sampler=sampler)
    for number in range(1, 5):
        study.enqueue_trial({"x": 1.0, "n": number, "kind": "a"})
    study.enqueue_trial({"x": 2.0})
    study.optimize(objective(0.0), n_trials=7)
    (task,) = sampler.optimizer.tasks
    assert task.points == [trial.params for trial in study.trials]
    assert task.values == [trial.value for trial in study.trials]
    assert not task.pending
    study.enqueue_trial({"x": 20.0, "n": 1, "kind": "a"})
    with pytest.warns(UserWarning, match="Trial 7 .* isn't learned from. x can't be 20.0"):
        study.optimize(wider, n_trials=1)
    assert len(task.values) == 7


@pytest.mark.parametrize("folder", [True, False])
def test_continues_a_stored_study(tmp_path, folder):
    """In another process, as if there had been none; with what other processes found meanwhile."""
    journal = JournalFileBackend(str(tmp_path / "trials"))
    options = {"seed": 1, "method": "gp", "initial": 3} | (
        {"out": tmp_path / "own"} if folder else {}
    )

    def continued():
        sampler = LifelongSampler(SPACE, **options)
        return sampler, optuna.create_study(
            storage=JournalStorage(journal), study_name="one", load_if_exists=True, sampler=sampler
        )

    _, study = continued()
    study.optimize(objective(0.5), n_trials=4)
    study.ask(SPACE)  # the process is killed before the value is recorded
    given = {"x": 1.5, "n": 1, "kind": "a"}
    study.add_trial(optuna.create_trial(params=given, distributions=SPACE, value=0.25))
    sampler, study = continued()
    study.optimize(objective(0.5), n_trials=2)
    points = sampler.optimizer.task.points
    finished = [trial for trial in study.trials if trial.state.is_finished()]
    assert points == [trial.params for trial in finished]
    assert len(points) == 7
    assert given in points
    assert len({str(point) for point in points}) == 7
    assert not sampler.optimizer.task.pending


def test_copies_single_values_and_the_end_of_the_space():
    small = {"n": IntDistribution(1, 3), "kind": CategoricalDistribution(["a"])}
    sampler = pickle.loads(pickle.dumps(LifelongSampler(small, method="random")))
    study = optuna.create_study(sampler=deepcopy(sampler))
    study.optimize(
        lambda trial: trial.suggest_int("n", 1, 3) + len(trial.suggest_categorical("kind", ["a"])),
        n_trials=9,
    )
    assert {point["n"] for point in study.sampler.optimizer.task.points} == {1, 2, 3}
    assert len(study.trials) == 4  # the last one finds no point, and stops the study
    assert study.best_value == 2


def test_points_that_several_trials_have():
    """One that another trial was given is recorded once for each; studies of one name go on."""
    sampler = LifelongSampler({"n": IntDistribution(1, 9)}, method="random")
    for _ in range(2):  # as where a cell of a notebook is run again
        study = optuna.create_study(sampler=sampler, study_name="one")
        running = study.ask(sampler.search_space)
        same = optuna.create_trial(
            params=running.params, distributions=running.distributions, value=5.0
        )
        study.add_trial(same)
        other = study.ask(sampler.search_space)
        study.tell(running, 6.0)
        study.tell(other, 7.0)
    (task,) = sampler.optimizer.tasks
    assert task.values[:3] == [5.0, 6.0, 7.0]
    assert task.values[-2:] == [6.0, 7.0]
    assert not task.pending


def test_trials_in_threads():
    sampler = LifelongSampler(SPACE, method="sobol")
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective(0.0), n_trials=12, n_jobs=3)
    (task,) = sampler.optimizer.tasks
    assert sorted(task.values) == sorted(trial.value for trial in study.trials)


def test_trials_of_an_earlier_study_do_not_change_the_next_one():
    """Trials of both studies have the number 0."""
    sampler = LifelongSampler(SPACE, method="random")
    first, second = (optuna.create_study(sampler=sampler, study_name=name) for name in "ab")
    one, two = first.ask(SPACE), second.ask(SPACE)
    first.tell(one, 111.0)
    second.tell(two, 2.0)
    assert [task.values for task in sampler.optimizer.tasks] == [[], [2.0]]


def test_learns_from_a_study_without_further_trials():
    """The points of the next study are those after the same trials in a study that was sampled."""
    finished = optuna.create_study(study_name="2023", sampler=optuna.samplers.RandomSampler(1))
    finished.optimize(objective(0.0), n_trials=6)
    points = []
    for learned in (True, False):
        sampler = LifelongSampler(SPACE, method="multitask_gp")
        if learned:
            sampler.learn(finished)
            sampler.learn(finished)
            assert sampler.optimizer.task.values == [own.value for own in finished.trials]
        study = optuna.create_study(study_name="2024", sampler=sampler)
        study.optimize(objective(0.5), n_trials=6)
        points.append(study.trials[-1].params)
    assert points[0] != points[1]
    sampler.learn(finished)
    with pytest.raises(InputError, match="has ended, since"):
        sampler.learn(study)


def test_continues_in_a_folder(tmp_path):
    values = []
    for trials in ((2, 2), (4,)):
        out = tmp_path / str(len(trials))
        for count in trials:
            sampler = LifelongSampler(SPACE, seed=1, method="gp", out=out)
            study = optuna.create_study(sampler=sampler, study_name="one")
            study.optimize(objective(0.5), n_trials=count)
        values.append(sampler.optimizer.task.values)
    assert values[0] == values[1]
    assert len(values[0]) == 4


def test_what_is_refused():
    with pytest.raises(InputError, match=r"The parameter x .* without a step"):
        LifelongSampler({"x": FloatDistribution(0, 1, step=0.1)})
    sampler = LifelongSampler(SPACE, method="random")
    first, second = (optuna.create_study(sampler=sampler) for _ in range(2))
    first.optimize(objective(0.0), n_trials=1)
    second.optimize(objective(0.0), n_trials=1)
    with pytest.raises(InputError, match="has ended, since"):
        first.optimize(objective(0.0), n_trials=1)
    other = optuna.create_study(sampler=sampler, direction="maximize")
    with pytest.raises(InputError, match="one direction"):
        other.optimize(objective(0.0), n_trials=1)
    with pytest.raises(InputError, match="no method 'annealing'"):
        LifelongSampler(SPACE, method="annealing")
    with pytest.raises(InputError, match="no direction"):
        LifelongSampler(SPACE, direction="maximize")
    with pytest.raises(InputError, match=r"one of optuna\.distributions"):
        LifelongSampler({"x": (0, 1)})
    with pytest.raises(InputError, match="Give a mapping of names"):
        LifelongSampler([("x", 1)])
    with pytest.raises(TypeError, match="colour"):
        LifelongSampler(SPACE, colour=1)
    several = optuna.create_study(sampler=sampler, directions=["minimize", "minimize"])
    with pytest.raises(InputError, match="2 objectives"):
        several.optimize(objective(0.0), n_trials=1)
