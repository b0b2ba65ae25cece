"""Samplers that lifelong optimisation is compared with."""

import numpy as np
import optuna
import pytensor
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from scipy.stats import multivariate_normal

from experiments.lifelong import empirical
from experiments.lifelong.empirical import EmpiricalProcess
from experiments.lifelong.samplers import (
    ABLR,
    SharedTraining,
    TaskProcess,
    sampler,
)
from kem_pymc.gp.posterior import Posterior
from kem_pymc.lifelong import networks
from kem_pymc.lifelong.lbo import LBO
from kem_pymc.lifelong.matern import Kernel
from kem_pymc.lifelong.residual import TaskModel
from kem_pymc.lifelong.tasks import Task
from kem_pymc.lifelong.training import LOG_PRECISIONS

METHODS = ("residual", "gp", "multitask_gp", "empirical_gp", "dngo", "ablr")

SPACE = {"x": FloatDistribution(0, 1), "kind": CategoricalDistribution(["a", "b"])}


def bowl(point, at=0.3):
    return 10 * (point["x"] - at) ** 2 + (point["kind"] == "a")


def optimised(method, tasks, count):
    own = sampler(method, 0)
    studies = []
    for number in range(tasks):
        studies.append(optuna.create_study(sampler=own, study_name=str(number)))
        for _ in range(count):
            trial = studies[-1].ask(SPACE)
            studies[-1].tell(trial, bowl(trial.params, 0.3 + 0.1 * number))
    return studies


def test_likelihoods_of_tasks_of_several_lengths():
    """Against one normal density for each task: catches padding that counts."""
    rng = np.random.default_rng(0)
    tasks = [Task(rng.random((n, 2)), rng.normal(size=n)) for n in (3, 9, 6)]
    own = SharedTraining(2, 5)
    weights = networks.draw(1, 2, 5, rng)
    logs = rng.normal(size=(3, 2))
    own.give(tasks)
    own.weights.set_value(weights)
    own.log_precisions.set_value(logs)
    found = pytensor.function([], own.log_likelihoods)()
    for value, task, (log_lambda, log_beta) in zip(found, tasks, logs, strict=True):
        (phi,) = networks.features(weights, task.rows, 5)
        covariance = phi @ phi.T / np.exp(log_lambda) + np.eye(len(phi)) / np.exp(log_beta)
        assert value == pytest.approx(multivariate_normal(cov=covariance).logpdf(task.y), rel=1e-10)


def test_precisions_stay_where_matrices_can_be_factorised():
    """Without noise, and with more points than units, the Gram matrix itself has no factor."""
    rng = np.random.default_rng(10)
    rows = rng.random((12, 2))
    own = ABLR(units=4)
    own.iterations = 3
    task = Task(rows, rows[:, 0] - 0.5)
    own.fit([task], rng)
    own.log_precisions = np.array([[-30.0, 60.0]])
    moments = own.fit([task], rng).predict(rng.random((5, 2)))
    assert np.isfinite(moments).all()
    assert (np.clip(own.log_precisions, *LOG_PRECISIONS) == own.log_precisions).all()


def test_a_network_begins_anew_with_other_columns():
    """A choice that is tried for the first time brings columns: what one without them predicts."""
    rng = np.random.default_rng(11)
    wide = Task(rng.random((6, 3)), rng.normal(size=6))
    grown, fresh = ABLR(units=4), ABLR(units=4)
    grown.iterations = fresh.iterations = 3
    grown.fit([Task(wide.rows[:, :2], wide.values)], rng)
    moments = [
        own.fit([wide, wide], np.random.default_rng(12)).predict(wide.rows)
        for own in (grown, fresh)
    ]
    np.testing.assert_array_equal(*moments)


def test_a_process_of_several_tasks_in_closed_form():
    """Given all evaluations, the last task's function; and given others of it instead."""
    rng = np.random.default_rng(1)
    of_tasks, lengthscales = np.array([[1.0, 0.6], [0.6, 2.0]]), np.array([0.3, 0.7])
    process = TaskProcess(lengthscales, of_tasks, 0.01)
    first, second, new = rng.random((4, 2)), rng.random((3, 2)), rng.random((5, 2))
    y, before = rng.normal(size=3), rng.normal(size=4)
    placed = np.vstack([np.column_stack([first, np.zeros(4)]), [[*second[0], 1], [*second[1], 1]]])
    posterior = Posterior.of(process, placed, np.append(before, y[:2]))
    model = TaskModel(posterior, 1).observe(second[2], y[2])

    def covariance(x, z):
        r = np.sqrt(5 * (((x[:, None] - z[None]) / lengthscales) ** 2).sum(axis=-1))
        return (1 + r + r**2 / 3) * np.exp(-r)

    points, tasks = np.vstack([first, second]), np.array([0, 0, 0, 0, 1, 1, 1])
    c = covariance(points, points) * of_tasks[np.ix_(tasks, tasks)] + 0.01 * np.eye(7)
    cross = covariance(new, points) * of_tasks[1][tasks]
    mean, variance = model.predict(new)
    values = np.concatenate([before, y])
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(c, values), rtol=1e-5)
    exact = 2.0 - np.einsum("ij,ji->i", cross, np.linalg.solve(c, cross.T))
    np.testing.assert_allclose(variance, exact, rtol=1e-5)


def test_moments_of_functions_are_learned_from_tasks(monkeypatch):
    """Rounds raise the posterior density; elsewhere the base kernel says what follows."""
    rng = np.random.default_rng(2)
    base = Kernel(np.array([0.3]), 1.0, 0.01)
    tasks = [(rng.random((3, 1)), rng.normal(2.0, 1.0, 3)) for _ in range(5)]

    def density(process):
        mean, covariance = process.moments
        ratio = np.linalg.solve(covariance, process._prior)
        height = np.linalg.slogdet(covariance)[1] + np.trace(ratio)
        height *= -0.5 * empirical.PSEUDO
        for rows, y in tasks:
            own = np.searchsorted(process.points[:, 0], rows[:, 0])
            noisy = covariance[np.ix_(own, own)] + 0.01 * np.eye(3)
            height += multivariate_normal(mean[own], noisy).logpdf(y)
        return height

    heights = []
    for count in (1, 2, 5, 20):
        monkeypatch.setattr(empirical, "ROUNDS", count)
        heights.append(density(EmpiricalProcess.learn(tasks, base)))
    assert np.diff(heights).min() > 0
    points, new = np.linspace(0, 1, 4)[:, None], np.array([[0.37], [0.8]])
    mean, root = rng.normal(size=4), rng.normal(size=(4, 4))
    process = EmpiricalProcess(base, points, (mean, root @ root.T))
    weights = np.linalg.solve(base.covariance(points, points), base.covariance(points, new))
    np.testing.assert_allclose(process.mean(new), weights.T @ mean, rtol=1e-5)
    rest = base.covariance(new, new) - weights.T @ base.covariance(points, new)
    exact = rest + weights.T @ root @ root.T @ weights
    np.testing.assert_allclose(process.covariance(new, new), exact, rtol=1e-5)
    np.testing.assert_allclose(process.variance(new), np.diag(exact), rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_points_differ_and_failures_are_no_end(method):
    own = sampler(method, 0)
    own.iterations, own.units = 2, 6
    if method == "dngo":
        own.lbo = LBO(max_networks=1, units=6, iterations=2)
    for values in ((np.nan, np.nan, 3.0, 3.0, 3.0, 1.0), (1.0, 2.0, np.nan, 0.5, 4.0)):
        study = optuna.create_study(sampler=own)
        for value in values:
            trial = study.ask(SPACE)
            state = optuna.trial.TrialState.FAIL if np.isnan(value) else None
            study.tell(trial, None if state else value, state)
        running = [study.ask(SPACE).params for _ in range(2)]
        known = [trial.params for trial in study.trials]
        assert len({str(point) for point in known}) == len(values) + 2
        assert running[0] != running[1]


def test_a_gaussian_process_finds_the_minimum():
    (study,) = optimised("gp", 1, 14)
    assert study.best_params == {"x": pytest.approx(0.3, abs=0.03), "kind": "b"}
    assert study.best_value < 0.01
