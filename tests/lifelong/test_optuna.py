"""The sampler, with Optuna itself."""

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

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
    several = optuna.create_study(sampler=sampler, directions=["minimize", "minimize"])
    with pytest.raises(InputError, match="2 objectives"):
        several.optimize(objective(0.0), n_trials=1)
