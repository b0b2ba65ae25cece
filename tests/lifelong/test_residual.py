"""The prior mean that is learned from earlier tasks, and how far it is trusted."""

import numpy as np
import optuna
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from kem_pymc.gp.posterior import Posterior
from kem_pymc.lifelong import LifelongSampler, matern, residual
from kem_pymc.lifelong.matern import Kernel
from kem_pymc.lifelong.maximise import maximise
from kem_pymc.lifelong.residual import OFFSET, ResidualGP, ResidualProcess, TaskModel, placed
from kem_pymc.lifelong.tasks import Task, normalised

COMMON = Kernel(np.array([0.4, 0.8]), 1.3, 0.01)
RESIDUAL = Kernel(np.array([0.2, 0.5]), 0.3, 0.01)


def matern52(x, z, kernel):
    r = np.sqrt(5 * (((x[:, None] - z) / kernel.lengthscales) ** 2).sum(axis=-1))
    return kernel.variance * (1 + r + r**2 / 3) * np.exp(-r)


def dense(x, z):
    """The prior covariance, by hand."""
    same = x[:, 2][:, None] == z[:, 2]
    left, right = x[:, :2], z[:, :2]
    return matern52(left, right, COMMON) + same * (OFFSET + matern52(left, right, RESIDUAL))


def test_the_last_task_given_all_evaluations():
    """By the dense formula; before its own values, its mean is what scikit-learn says of h.

    A task alone, without a residual or constant, is its own common function.
    """
    rng = np.random.default_rng(0)
    x = np.vstack([placed(rng.random((n, 2)), place) for place, n in enumerate((6, 5, 4))])
    y, new = rng.normal(size=len(x)), rng.random((7, 2))
    process = ResidualProcess(COMMON, RESIDUAL)
    model = TaskModel(Posterior.of(process, x[:-1], y[:-1]), 2).observe(x[-1, :2], y[-1])
    total, at = dense(x, x) + 0.01 * np.eye(len(x)), placed(new, 2)
    cross = dense(at, x)
    mean, variance = model.predict(new)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(total, y), atol=1e-6)
    exact = dense(at, at) - cross @ np.linalg.solve(total, cross.T)
    np.testing.assert_allclose(variance, np.diag(exact), atol=1e-6)
    alone = ResidualProcess(COMMON, Kernel(RESIDUAL.lengthscales, 0.0, 0.01))
    first = x[:, 2] == 0
    prior = TaskModel(Posterior.of(alone, x[first], y[first]), 1).predict(new)[0]
    kernel = ConstantKernel(1.3) * Matern(COMMON.lengthscales, nu=2.5) + ConstantKernel(OFFSET)
    peer = GaussianProcessRegressor(kernel, alpha=0.01, optimizer=None).fit(x[first, :2], y[first])
    weights = np.linalg.solve(kernel(x[first, :2]) + 0.01 * np.eye(6), y[first])
    np.testing.assert_allclose(prior, peer.predict(new) - OFFSET * weights.sum(), atol=1e-6)


def test_the_density_that_is_maximised():
    """Against normal densities, up to one constant, with its gradient by differences."""
    rng = np.random.default_rng(1)
    rows, tasks, y = rng.random((9, 2)), np.repeat([0.0, 1.0, 2.0], 3), rng.normal(size=9)
    same = (tasks[:, None] == tasks).astype(float)
    x = np.column_stack([rows, tasks])

    def exact(values):
        process = ResidualProcess(*matern.kernels(values))
        covariance = process.covariance(x, x) + np.diag(process.noise_at(x))
        prior = 0.5 * (((values[:4] + 0.7) / 1.0) ** 2).sum() + 0.5 * ((values[4] + 7) / 2) ** 2
        prior += 0.5 * (values[5:] ** 2).sum()
        return prior - multivariate_normal(cov=covariance).logpdf(y)

    def found(values):
        return matern._together()(rows, y, same, OFFSET, values)

    places = rng.normal([-0.7] * 4 + [-4, 0.8, 0.5], 0.3, (3, 7))
    constants = [float(found(at)[0]) - exact(at) for at in places]
    np.testing.assert_allclose(constants, constants[0], rtol=1e-9)
    steps = 1e-5 * np.eye(7)
    slopes = [(exact(places[0] + one) - exact(places[0] - one)) / 2e-5 for one in steps]
    np.testing.assert_allclose(found(places[0])[1], slopes, rtol=1e-4, atol=1e-5)
    best = matern.fitted_together(rows, y, tasks, OFFSET, rng)
    assert exact(best) < min(exact(best + one) for one in [*(1e4 * steps), *(-1e4 * steps)])
    near = matern.fitted_together(rows, y, tasks, OFFSET, rng, best + 0.2)
    assert exact(near) == pytest.approx(exact(best), abs=0.05)


def error(function, earlier, seed):
    """Return the error of predictions after eight evaluations."""
    rng = np.random.default_rng(seed)
    tasks = [Task(rows, one(rows)) for one in earlier for rows in [rng.random((20, 2))]]
    rows, new = rng.random((8, 2)), rng.random((200, 2))
    tasks.append(Task(rows, function(rows)))
    own = ResidualGP()
    mean, _ = own.fit(tasks, rng).predict(new)
    y = own.y(tasks)
    scale = np.ptp(y) / np.ptp(tasks[-1].values)  # units are nearly linear for these functions
    predicted = tasks[-1].values.mean() + (mean - y.mean()) / scale
    return np.sqrt(((predicted - function(new)) ** 2).mean()) / function(new).std()


def wave(rng, at=None):
    a, b, c = rng.uniform(-3, 3, 3) if at is None else at + 0.1 * rng.normal(size=3)
    return lambda x: np.sin(a + 4 * x[:, 0]) + np.cos(b + 3 * x[:, 1]) + np.sin(c * x[:, 0])


@pytest.mark.statistical
def test_related_tasks_help_and_unrelated_ones_do_little_harm():
    """Errors with three earlier tasks, relative to those without: means of logs of six."""
    ratios = {"related": [], "unrelated": []}
    for seed in range(6):
        rng = np.random.default_rng([3, seed])
        centre = rng.uniform(-3, 3, 3)
        function = wave(rng, centre)
        alone = error(function, [], seed)
        for name, at in {"related": centre, "unrelated": None}.items():
            own = error(function, [wave(rng, at) for _ in range(3)], seed)
            ratios[name].append(np.log(own / alone))
    assert np.exp(np.mean(ratios["related"])) < 0.6
    assert np.exp(np.mean(ratios["unrelated"])) < 1.25


def test_values_are_normalised_together_and_failures_are_the_worst():
    rng = np.random.default_rng(4)
    first, second = (Task(rng.random((8, 1)), rng.normal(size=8) + shift) for shift in (0, 5))
    last = Task(rng.random((4, 1)), np.array([4.0, np.nan, 2.0, 3.0]))
    own = ResidualGP()
    y = own.y([first, second, last])
    together = np.concatenate([first.values, second.values])
    np.testing.assert_allclose(
        np.sort(own._learned([first, second]).y), np.sort(normalised(together))
    )
    worst = normalised(together)[np.argmax(together)]
    assert y[1] == pytest.approx(worst)
    assert (np.argsort(y) == [2, 3, 0, 1]).all()
    assert np.isfinite(own.fit([first, second, last], rng).predict(last.rows)).all()
    failed = Task(rng.random((3, 1)), np.full(3, np.nan))
    np.testing.assert_allclose(own.y([first, second, failed]), worst)


def test_of_many_evaluations_some_are_left_out(monkeypatch):
    task = Task(np.arange(50.0)[:, None], np.random.default_rng(0).permutation(50) + 0.0)
    kept = task.spread(8)
    assert sorted(kept.values) == [0, 7, 14, 21, 28, 35, 42, 49]
    assert len(task.spread(80).values) == 50
    monkeypatch.setattr(residual, "fitted_together", lambda *_: np.zeros(5))
    assert len(ResidualGP()._learned([task] * 6).y) == 150


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_later_studies_find_the_minimum_soon(direction):
    """And its value in the units of the function."""
    sign = -1 if direction == "maximize" else 1
    sampler = LifelongSampler(seed=0)
    for at in (0.3, 0.32, 0.34):
        study = optuna.create_study(sampler=sampler, direction=direction)
        study.optimize(
            lambda trial, at=at: (
                sign
                * (
                    7
                    + 40 * (trial.suggest_float("x", 0, 1) - at) ** 2
                    + np.sin(9 * trial.suggest_float("z", 0, 1))
                )
            ),
            n_trials=12 if at == 0.3 else 7,
        )
    point, value = sampler.best(study)
    assert point["x"] == pytest.approx(0.34, abs=0.03)
    assert sign * value == pytest.approx(6.0, abs=0.1)
    assert value == pytest.approx(study.best_value, abs=0.003)


def test_the_expected_value_is_in_the_units_of_the_function():
    """Of a study whose values are noisy, and larger than all of the one before."""
    rng, sampler = np.random.default_rng(5), LifelongSampler(seed=0)
    for shift in (0.0, 3.0):
        study = optuna.create_study(sampler=sampler)
        for x in np.linspace(0, 1, 30):
            value = shift + 4 * (x - 0.4) ** 2 + 0.3 * rng.normal()
            space = {"x": optuna.distributions.FloatDistribution(0, 1)}
            study.add_trial(optuna.create_trial(params={"x": x}, distributions=space, value=value))
        sampler.learn(study)
    point, value = sampler.best(study)
    exact = 3.0 + 4 * (point["x"] - 0.4) ** 2
    assert abs(value - exact) < 0.5 * abs(study.best_value - exact)


def test_the_model_goes_on_after_the_best_points_of_earlier_studies(monkeypatch):
    """Not chance: from where no leader is left, every point has the largest improvement.

    Of functions that are all the same the residual is still .3 wide.
    """
    sampler = LifelongSampler(seed=0)
    space = {name: optuna.distributions.FloatDistribution(0, 1) for name in "xz"}
    proposed = []
    monkeypatch.setattr(
        "kem_pymc.lifelong.sampler.maximise",
        lambda *given: proposed.append(maximise(*given)) or proposed[-1],
    )
    for count in (12, 12, 6):
        study = optuna.create_study(sampler=sampler)
        for _ in range(count):
            trial = study.ask(space)
            x, z = trial.params["x"], trial.params["z"]
            study.tell(trial, (x - 0.3) ** 2 + (z - 0.6) ** 2)
    points = [list(trial.params.values()) for trial in study.trials]
    assert points[2:] == [row.tolist() for row in proposed[-4:]]
    assert len(proposed) == 7 + 10 + 4  # after 5 random points; a leader and chance; two leaders
    tasks = [sampler._task(one, sampler._search_space([one])) for one in sampler._studies.values()]
    model = sampler.fit(tasks, np.random.default_rng(0))
    assert model.posterior.process.residual.variance == pytest.approx(0.3**2)


def test_functions_in_other_units_are_learned_from_scratch():
    """What a task's own values say, to the last bit; the learned mean where they are in reach.

    Before, a function whose values lay far below all earlier ones was searched around one point.
    """
    rng = np.random.default_rng(2)
    x = rng.random((3, 9, 2))
    earlier = [Task(rows, np.sin(5 * rows[:, 0]) + rng.normal(0, 0.1, 9)) for rows in x[:2]]
    y = np.cos(3 * x[2, :, 1])
    far, near = Task(x[2], 1000 * y - 5000), Task(x[2], y)
    at = rng.random((5, 2))

    def predicted(tasks):
        return ResidualGP(seed=1).fit(tasks, np.random.default_rng(3)).predict(at)

    np.testing.assert_array_equal(predicted([*earlier, far]), predicted([far]))
    assert ResidualGP().y([*earlier, far]).tolist() == far.y.tolist()
    assert (predicted([*earlier, near])[0] != predicted([near])[0]).all()
