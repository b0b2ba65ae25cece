"""The sampler, with Optuna itself."""

import os
import pickle
import signal
from copy import deepcopy

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from kem_pymc.gp.posterior import Posterior
from kem_pymc.gp.process import GaussianProcess
from kem_pymc.lifelong import LifelongSampler, unfinished
from kem_pymc.lifelong import sampler as module
from kem_pymc.lifelong.sampler import TASK, StudySampler
from kem_pymc.lifelong.tasks import normalised
from tests.refusals import refused
from tests.runs.runs import in_child

SPACE = {
    "x": FloatDistribution(0.01, 10, log=True),
    "n": IntDistribution(1, 9, step=2),
    "kind": CategoricalDistribution(["a", "b"]),
}


def objective(shift=0.0):
    def value(trial):
        x = trial.suggest_float("x", 0.01, 10, log=True)
        n = trial.suggest_int("n", 1, 9, step=2)
        kind = trial.suggest_categorical("kind", ["a", "b"])
        return (np.log(x) - shift) ** 2 + n + (kind == "b")

    return value


class Nearest:
    """A model in which a point is as good as the nearest one, and uncertain as it is far."""

    def __init__(self, rows, y):
        self.rows, self.y = rows, y

    def predict(self, rows):
        squares = ((rows[:, None] - self.rows[None]) ** 2).sum(axis=-1)
        return self.y[squares.argmin(axis=1)], (0.1 + np.sqrt(squares.min(axis=1))) ** 2

    def observe(self, x, y):
        return Nearest(np.vstack([self.rows, x]), np.append(self.y, y))


class NearestSampler(StudySampler):
    """A quick sampler; it records what it is given."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.given = []

    def fit(self, tasks, rng):
        self.given.append(tasks)
        return Nearest(tasks[-1].rows, tasks[-1].y)


def quick(storage=None, **options):
    sampler = LifelongSampler(storage, model="lbo", max_networks=2, n_startup_trials=3, **options)
    sampler.model.iterations, sampler.model.units = 2, 6
    return sampler


def residual(storage=None, **options):
    return LifelongSampler(storage, n_startup_trials=3, **options)


def points(study):
    return [trial.params for trial in study.trials]


def test_studies_are_tasks_in_their_order():
    """Values are to be minimised, whatever the direction of each study."""
    sampler = NearestSampler()
    for number, direction in enumerate(["minimize", "maximize", "minimize"]):
        sign = -1 if direction == "maximize" else 1
        study = optuna.create_study(sampler=sampler, direction=direction)
        study.optimize(lambda trial, s=sign, n=number: s * objective(n)(trial), n_trials=7)
        assert study.user_attrs[TASK] == number + 1
        assert {len(tasks) for tasks in sampler.given} <= set(range(1, number + 2))
    tasks = sampler.given[-1]
    assert [len(task.values) for task in tasks] == [7, 7, 6]
    assert all((task.values > 0).all() for task in tasks)


def test_failed_pruned_enqueued_and_added_trials():
    """All are learned from; those that failed are as bad as the worst one."""

    def fragile(trial):
        value = objective()(trial)
        assert 0 <= trial.suggest_float("other", 0, trial.number + 1) <= trial.number + 1
        if trial.number == 2:
            raise RuntimeError("broken")
        if trial.number == 3:
            raise optuna.TrialPruned
        return np.inf if trial.number == 4 else value

    sampler = NearestSampler()
    study = optuna.create_study(sampler=sampler)
    study.enqueue_trial({"x": 1.0, "n": 3, "kind": "a"})
    study.enqueue_trial({"x": 2.0})
    study.optimize(fragile, n_trials=6, catch=RuntimeError)
    given = {"x": 1.5, "n": 1, "kind": "a"}
    study.add_trial(optuna.create_trial(params=given, distributions=SPACE, value=0.25))
    study.optimize(fragile, n_trials=1)
    assert points(study)[0]["n"] == 3
    assert points(study)[1]["x"] == 2.0
    values = sampler.given[-1][-1].values
    assert np.isnan(values).tolist() == [False, False, True, True, True, False, False]
    assert values[-1] == 0.25


class SmoothSampler(StudySampler):
    """A Gaussian process with much noise."""

    def fit(self, tasks, rng):
        values = {"SE0.amplitude": 1.0, "SE0.lengthscale": 0.3}
        return Posterior.of(GaussianProcess.of("SE0", values, 1.0), tasks[-1].rows, tasks[-1].y)


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_the_best_point_has_the_best_posterior_mean(direction):
    """By the dense formula; the luckiest evaluation, a failed and a running trial aren't it."""
    sign = -1 if direction == "maximize" else 1
    sampler = SmoothSampler(seed=1)
    study = optuna.create_study(sampler=sampler, direction=direction)
    refused(lambda: sampler.best(study), "No trial of the study", "Optimise it first")
    rng = np.random.default_rng(0)
    x = rng.random(40)
    values = sign * ((x - 0.3) ** 2 + 0.2 * rng.normal(size=40))
    values[np.argmax(np.abs(x - 0.3))] = lucky = -sign * 0.6
    for at, value in zip(x, values, strict=True):
        study.add_trial(
            optuna.create_trial(
                params={"x": at}, distributions={"x": FloatDistribution(0, 1)}, value=value
            )
        )
    study.tell(study.ask(), state=TrialState.FAIL)
    study.ask()
    assert study.best_value == lucky
    y = normalised(sign * values)
    k = np.exp(-0.5 * ((x[:, None] - x) / 0.3) ** 2)
    mean = k @ np.linalg.solve(k + np.eye(40), y)
    order = np.argsort(y)
    params, value = sampler.best(study)
    assert params == {"x": x[np.argmin(mean)]}
    exact = np.interp(mean.min(), y[order], (sign * values)[order])
    assert value == pytest.approx(sign * exact, rel=1e-9)
    assert abs(params["x"] - 0.3) < 0.2
    constant = optuna.create_study(sampler=sampler)
    constant.optimize(lambda trial: 0.0 * trial.suggest_float("x", 0, 1) + 3.0, n_trials=3)
    assert sampler.best(constant) == (constant.trials[0].params, 3.0)


def test_later_studies_begin_where_models_of_earlier_ones_expect_the_best():
    """The last study first, not at the luckiest value, each point once; others are random."""
    rng = np.random.default_rng(0)
    space = {"x": FloatDistribution(0, 1)}
    warm, cold = SmoothSampler(seed=1), SmoothSampler(seed=1, warm_start=False)
    leaders = []
    for at in (0.2, 0.8, 0.8):
        study = optuna.create_study(sampler=warm)
        x = np.linspace(0, 1, 41)
        values = 4 * (x - at) ** 2 + 0.1 * rng.normal(size=41)
        values[20] = -1.0  # luck
        for point, value in zip(x, values, strict=True):
            study.add_trial(
                optuna.create_trial(params={"x": point}, distributions=space, value=value)
            )
        warm.learn(study)
        cold.learn(study)
        leaders.append(warm.best(study)[0]["x"])
        assert abs(leaders[-1] - at) < 0.15
    begun = [[], []]
    for points, sampler in zip(begun, (warm, cold), strict=True):
        study = optuna.create_study(sampler=sampler, study_name="last")
        points += [study.ask(space).params["x"] for _ in range(5)]
        assert len(set(points)) == 5
    distinct = list(dict.fromkeys(reversed(leaders)))
    assert begun[0][: len(distinct)] == distinct
    assert begun[0][len(distinct) :] == begun[1][len(distinct) :]
    assert not set(begun[1]) & set(leaders)


def test_points_near_failures_are_avoided():
    """More than half of the space fails."""
    study = optuna.create_study(sampler=NearestSampler(seed=1))

    def half(trial):
        x = trial.suggest_float("x", 0, 1)
        return np.nan if x > 0.4 else -x

    study.optimize(half, n_trials=20)
    assert sum(trial.state == TrialState.FAIL for trial in study.trials[5:]) < 9


def test_conditional_parameters_and_other_spaces():
    """Common parameters are proposed, others drawn; other ranges aren't learned from."""
    sampler = NearestSampler()

    def conditional(trial):
        x = trial.suggest_float("x", 0, 1)
        return x + (trial.suggest_float("y", 0, 1) if x > 0.5 else 0.0)

    study = optuna.create_study(sampler=sampler)
    study.optimize(conditional, n_trials=12)
    assert sampler.given[-1][-1].rows.shape == (11, 1)
    other = optuna.create_study(sampler=sampler)
    other.optimize(lambda trial: trial.suggest_float("x", 0, 2), n_trials=8)
    assert [len(task.values) for task in sampler.given[-1]] == [7]
    again = optuna.create_study(sampler=sampler)
    again.optimize(conditional, n_trials=8)
    assert len(sampler.given[-1][0].values) == 12


def test_first_points_suit_a_study_with_other_parameters():
    """Optuna refuses other choices and kinds than those that a sampler proposes together."""
    sampler = LifelongSampler()

    def loss(trial, kinds, high):
        kind = trial.suggest_categorical("kind", kinds)
        return (trial.suggest_float("x", 0, high) - 0.7) ** 2 + (kind == "a")

    studies = []
    for kinds, high in ((["a", "b"], 1.0), (["b", "c"], 0.9), (["c"], 0.5)):
        studies.append(optuna.create_study(sampler=sampler, study_name=str(high)))
        for _ in range(8):
            trial = studies[-1].ask()
            studies[-1].tell(trial, loss(trial, kinds, high))
    assert studies[1].trials[0].params == studies[0].best_params
    assert studies[2].trials[0].params["kind"] == "c"
    other = optuna.create_study(sampler=sampler, study_name="other")
    other.optimize(
        lambda trial: trial.suggest_int("x", 0, 3) + trial.suggest_float("kind", 0, 1), 3
    )
    assert all(isinstance(trial.params["x"], int) for trial in other.trials)


def test_parameters_of_a_choice_are_learned_where_it_is_chosen():
    """They are proposed with it only; with both, the model has one point for each different one."""
    sampler, proposed = NearestSampler(), []

    def loss(trial):
        proposed.append(trial.relative_params)
        kind = trial.suggest_categorical("kind", ["tree", "line", "mean"])
        if kind == "mean":
            return 1.0
        name = {"tree": "depth", "line": "slope"}[kind]
        return abs(trial.suggest_float(name, 0, 1) - 0.3) + trial.suggest_float("x", 0, 1)

    study = optuna.create_study(sampler=sampler)
    study.optimize(loss, n_trials=16)
    assert all(proposed[i] == study.trials[i].params for i in range(8, 16))
    rows = sampler.given[-1][-1].rows
    for row, trial in zip(rows, study.trials[:-1], strict=True):
        expected = [trial.params.get(name, 0.5) for name in ("depth", "slope", "x")]
        np.testing.assert_allclose(row[[0, 4, 5]], expected)
    assert study.best_value < 0.1
    # The second study knows from the first one which choices decide, before it has tried them.
    again = optuna.create_study(sampler=sampler)
    again.enqueue_trial({"kind": "mean"})
    again.optimize(loss, n_trials=3)
    assert len(sampler.given[-1][0].rows) == 16
    assert sampler.best(study)[1] == pytest.approx(study.best_value, abs=0.3)


def test_single_values_copies_and_the_end_of_the_space():
    sampler = pickle.loads(pickle.dumps(NearestSampler(n_startup_trials=2)))
    study = optuna.create_study(sampler=deepcopy(sampler))
    with pytest.warns(UserWarning, match="All points of n were tried .* the study stops"):
        study.optimize(
            lambda trial: (
                trial.suggest_int("n", 1, 3) + len(trial.suggest_categorical("kind", ["a"]))
            ),
            n_trials=9,
        )
    assert {point["n"] for point in points(study)} == {1, 2, 3}
    assert len(study.trials) == 4  # the last one finds no point, and stops the study
    rare = optuna.create_study(sampler=sampler)
    space = {"n": IntDistribution(1, 5000, log=True)}
    for n in range(1, 5000):
        rare.add_trial(optuna.create_trial(params={"n": n}, distributions=space, value=1.0))
    assert rare.ask(space).params == {"n": 5000}  # by chance found in one of eight attempts


def test_a_space_that_is_tried_goes_on_while_other_parameters_are_free():
    """Points are repeated, the better one more often."""

    def value(trial):
        kind = trial.suggest_categorical("kind", ["a", "b", "c"])
        return trial.suggest_float(f"x_{trial.number % 2}", 0, 1) + 5 * (kind != "b")

    study = optuna.create_study(sampler=NearestSampler(n_startup_trials=2))
    study.optimize(value, n_trials=20)
    kinds = [point["kind"] for point in points(study)]
    assert len(kinds) == 20
    assert set(kinds) == {"a", "b", "c"}
    assert kinds.count("b") > 10


@pytest.mark.parametrize("low", [2**53 - 2, -(2**60), 2**63])
def test_whole_numbers_that_optuna_rounds_are_refused(low):
    study = optuna.create_study(sampler=NearestSampler())
    space = {"n": IntDistribution(low, low + 5)}
    refused(lambda: study.ask(space), "n has whole", f"from 0 to 5 and add it to {low}")
    refused(lambda: study.ask({"n": IntDistribution(0, 2**60)}), "Suggest a float")
    exact = IntDistribution(2**53 - 5, 2**53)
    study = optuna.create_study(sampler=NearestSampler())
    for _ in range(6):
        study.tell(study.ask({"n": exact}), 1.0)
    assert len({point["n"] for point in points(study)}) == 6


def test_running_trials_are_taken_into_account():
    """As of threads, other processes, or a batch."""
    study = optuna.create_study(sampler=quick())
    study.optimize(objective(), n_trials=4)
    running = [study.ask(SPACE) for _ in range(4)]
    assert len({str(trial.params) for trial in running}) == 4
    for trial in reversed(running):
        study.tell(trial, 1.0)
    study.optimize(objective(), n_trials=4, n_jobs=2)
    assert len({str(point) for point in points(study)}) == 12


def journal(folder):
    return JournalStorage(JournalFileBackend(str(folder / "journal")))


@pytest.fixture
def database(tmp_path):
    """Open the same database, as another process does; connections are closed in the end."""
    opened = []

    def storage():
        opened.append(RDBStorage(f"sqlite:///{tmp_path / 'studies.db'}"))
        return opened[-1]

    yield storage
    for own in opened:
        own.engine.dispose()


def run(storage, count=6, years=("2023", "2024"), own=quick):
    """Optimise studies in a storage from where they were left, and return their points."""
    found = []
    for shift, year in enumerate(years):
        study = optuna.create_study(
            storage=storage, study_name=year, sampler=own(storage), load_if_exists=True
        )
        for trial in unfinished(study):
            study.tell(trial, objective(shift)(trial))
        study.optimize(objective(shift), n_trials=count - len(study.trials))
        found.append((points(study), [trial.value for trial in study.trials]))
    return found


@pytest.mark.parametrize("own", [quick, residual])
@pytest.mark.parametrize("kind", ["journal", "database"])
def test_a_sampler_of_another_process_goes_on(tmp_path, database, kind, own):
    """With a sampler for each study, as with one for all of them, in memory."""
    opened = database if kind == "database" else lambda: journal(tmp_path)
    whole = []
    sampler = own()
    for shift in range(2):
        study = optuna.create_study(sampler=sampler)
        study.optimize(objective(shift), n_trials=6)
        whole.append((points(study), [trial.value for trial in study.trials]))
    run(opened(), years=("2023",), count=4, own=own)
    assert run(opened(), own=own) == whole
    storage = opened()
    more = optuna.load_study(storage=storage, study_name="2024", sampler=own(storage))
    more.optimize(objective(1), n_trials=1)
    study.optimize(objective(1), n_trials=1)
    assert points(more) == points(study)
    if own is quick:
        assert list(own(opened()).networks()["task"].values) == ["2023", "2024"]


@pytest.mark.faults
def test_studies_that_are_killed_go_on(tmp_path):
    """At every seventh moment before or after a write of the storage."""
    counted = Writes()
    with pytest.MonkeyPatch.context() as patch:
        counted.watch(patch)
        (tmp_path / "whole").mkdir()
        whole = run(journal(tmp_path / "whole"), count=5)
    for moment in range(0, counted.count, 7):
        folder = tmp_path / str(moment)
        folder.mkdir()

        def doomed(folder=folder, moment=moment):
            with pytest.MonkeyPatch.context() as patch:
                Writes(last=moment).watch(patch)
                run(journal(folder), count=5)

        assert in_child(doomed) == -9
        assert run(journal(folder), count=5) == whole


class Writes:
    """Counts moments before and after writes of a journal, and kills the process at one."""

    def __init__(self, last=None):
        self.count, self.last = 0, last

    def watch(self, patch):
        append = JournalFileBackend.append_logs

        def counted(own, logs):
            self._moment()
            append(own, logs)
            self._moment()

        patch.setattr(JournalFileBackend, "append_logs", counted)

    def _moment(self):
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1


def test_two_workers_on_one_study(database):
    """Both learn from all trials, and neither repeats the other's points."""
    workers = []
    for storage in (database(), database()):
        sampler = NearestSampler(storage)
        workers.append(
            optuna.create_study(
                storage=storage, study_name="one", sampler=sampler, load_if_exists=True
            )
        )
    for _ in range(4):
        trials = [study.ask(SPACE) for study in workers]
        for study, trial in zip(workers, trials, strict=True):
            study.tell(trial, objective()(optuna.trial.FixedTrial(trial.params)))
    assert len({str(point) for point in points(workers[0])}) == 8
    assert [len(study.sampler.given[-1][-1].values) for study in workers] == [6, 6]
    assert workers[1].user_attrs[TASK] == 1


def test_learns_from_a_study_without_further_trials():
    """It is the task before the next study; late values of an earlier study count, too."""
    finished = optuna.create_study(study_name="2023", sampler=optuna.samplers.RandomSampler(1))
    finished.optimize(objective(), n_trials=6)
    sampler = NearestSampler()
    for _ in range(2):
        sampler.learn(finished)
    study = optuna.create_study(study_name="2024", sampler=sampler)
    study.optimize(objective(0.5), n_trials=6)
    assert [len(task.values) for task in sampler.given[-1]] == [6, 5]
    finished.optimize(objective(), n_trials=1)
    study.optimize(objective(0.5), n_trials=1)
    assert [len(task.values) for task in sampler.given[-1]] == [7, 6]


def test_constant_functions():
    """Nothing is better than chance, and nothing is learned from them."""
    sampler = NearestSampler()
    for value in (1.0, np.nan):
        study = optuna.create_study(sampler=sampler)
        study.optimize(lambda trial, own=value: own * (1 + 0 * objective()(trial)), n_trials=7)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective(), n_trials=6)
    assert [len(tasks) for tasks in sampler.given] == [1]
    refused(quick().networks, "No study has values that differ")


def test_values_of_earlier_studies_are_encoded_once(monkeypatch):
    """Otherwise the time of a point would grow with the number of tasks."""
    calls = []
    own = module.Task
    monkeypatch.setattr(module, "Task", lambda *parts: calls.append(len(parts[1])) or own(*parts))
    sampler = NearestSampler()
    for _ in range(3):
        optuna.create_study(sampler=sampler).optimize(objective(), n_trials=7)
    # Once before each point of a study that has a space, and once whole for the next one.
    assert len(calls) <= 3 * 8


def test_what_is_refused():
    for option, words in {"seed": -1, "n_startup_trials": 0, "max_networks": 0}.items():
        refused(
            lambda o=option, v=words: LifelongSampler(**{o: v}),
            f"{option} is {words}",
            "whole number",
        )
    refused(lambda: LifelongSampler(n_startup_trials=2.5), "n_startup_trials is 2.5")
    refused(lambda: LifelongSampler(seed=None), "seed is None")
    for alpha in ("2", np.inf, 0):
        refused(lambda a=alpha: LifelongSampler(alpha=a), f"alpha is {alpha!r}")
    with pytest.raises(TypeError, match="colour"):
        LifelongSampler(colour=1)
    refused(lambda: LifelongSampler(model="gp"), "model is 'gp'")
    refused(lambda: LifelongSampler(5), "storage is 5")
    refused(lambda: LifelongSampler(warm_start="yes"), "warm_start is 'yes'")
    refused(residual().networks, "There are no networks", 'model="lbo"')
    several = optuna.create_study(sampler=quick(), directions=["minimize", "minimize"])
    refused(lambda: several.ask(), "2 objectives")
