"""Training: the evidence lower bound, its gradient, the regulariser, and Adam begun anew."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.special import expit
from scipy.stats import multivariate_normal

from kem_pymc.gp.posterior import Posterior
from kem_pymc.lifelong import ibp, networks
from kem_pymc.lifelong.lbo import LBO, NetworkProcess
from kem_pymc.lifelong.tasks import Task
from kem_pymc.lifelong.training import (
    FASTER,
    LOG_PRECISIONS,
    Adam,
    Neighbours,
    NetworkTraining,
    TaskState,
    log_likelihoods,
)

M, D, UNITS, N = 3, 2, 4, 7


@pytest.fixture(scope="module")
def own():
    return NetworkTraining(M, D, UNITS, 2.0)


def state_of(seed):
    rng = np.random.default_rng(seed)
    return TaskState(networks.draw(M, D, UNITS, rng), rng.normal(size=M), np.array([0.02, 0.15]))


def test_features_are_those_of_pytensor():
    """And have three layers of tanh."""
    rng = np.random.default_rng(1)
    weights, rows = networks.draw(M, D, UNITS, rng), rng.random((N, D))
    symbolic = networks.features_in_pytensor(pt.as_tensor(weights), pt.as_tensor(rows), D, UNITS)
    found = networks.features(weights, rows, UNITS)
    np.testing.assert_allclose(symbolic.eval(), found, rtol=1e-12)
    first = weights[1, : 3 * UNITS].reshape(3, UNITS)
    second, third = weights[1, 3 * UNITS :].reshape(2, 5, UNITS)
    values = np.tanh((2 * rows - 1) @ first[:2] + first[2])
    values = np.tanh(values @ second[:4] + second[4])
    np.testing.assert_allclose(found[1], np.tanh(values @ third[:4] + third[4]), rtol=1e-12)


def test_likelihoods_are_normal_densities():
    """With values and precisions of each matrix of features."""
    rng = np.random.default_rng(3)
    phi, y, logs = rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5)), rng.normal(size=(2, 2))
    gram = phi @ phi.transpose(0, 2, 1)
    found = log_likelihoods(*map(pt.as_tensor, (gram, y, *logs.T[:, :, None, None]))).eval()
    exact = [
        multivariate_normal(cov=g / np.exp(a) + np.eye(5) / np.exp(b)).logpdf(v)
        for g, v, (a, b) in zip(gram, y, logs, strict=True)
    ]
    np.testing.assert_allclose(found, exact, rtol=1e-10)


def test_predictions_in_closed_form():
    """Posterior mean and covariance of output weights by inversion; eq. 4 with its 1 / lambda."""
    rng = np.random.default_rng(4)
    process = NetworkProcess(networks.draw(2, D, UNITS, rng), UNITS, D, 0.7, 12.0)
    rows, new, y = rng.random((N, D)), rng.random((5, D)), rng.normal(size=N)
    phi, ahead = (np.hstack([*process.features(x)]) for x in (rows, new))
    covariance = np.linalg.inv(0.7 * np.eye(2 * UNITS) + 12.0 * phi.T @ phi)
    mean, variance = Posterior.of(process, rows, y).predict(new)
    np.testing.assert_allclose(mean, 12.0 * ahead @ covariance @ phi.T @ y, rtol=1e-9)
    np.testing.assert_allclose(variance, np.diag(ahead @ covariance @ ahead.T), rtol=1e-8)


def test_bound_and_gradient(own):
    """The bound by hand for given samples, and its gradient by finite differences."""
    rng = np.random.default_rng(2)
    state, rows, y = state_of(0), rng.random((N, D)), rng.normal(size=N)
    uniform, sticks = rng.random((2, 5, M))
    own._rows.set_value(rows)
    own._y.set_value(y)
    for variable, value in zip(own._state, state, strict=True):
        variable.set_value(value)
    bound, _ = own.elbo(pt.as_tensor(uniform), pt.as_tensor(sticks))
    evaluate = pytensor.function([], [bound, *pt.grad(bound, list(own._state))])
    found, *slopes = evaluate()
    log_odds = FASTER * state.log_odds
    precision, noise_precision = np.exp(FASTER * state.log_precisions)
    logit = (log_odds + np.log(uniform) - np.log(1 - uniform)) / ibp.TEMPERATURE
    maps = networks.features(state.weights, rows, UNITS)
    exact = 0.0
    for one, stick in zip(logit, sticks, strict=True):
        c = np.eye(N) / noise_precision
        used = np.where(np.arange(M) == np.argmax(log_odds), 1.0, expit(one))
        for z, phi in zip(used, maps, strict=True):
            c += z**2 * phi @ phi.T / precision
        exact -= 0.5 * (np.linalg.slogdet(2 * np.pi * c)[1] + y @ np.linalg.solve(c, y))
        pi = np.exp(np.cumsum(np.log(stick)) / 2.0)

        def density(log_odds, one=one):
            own = 0.1 * np.exp(log_odds - 0.1 * one) / (1 + np.exp(log_odds - 0.1 * one)) ** 2
            return np.log(own).sum()

        exact += density(np.log(pi / (1 - pi))) - density(log_odds)
    assert found == pytest.approx(exact / 5, rel=1e-8)
    for variable, slope in zip(own._state, slopes, strict=True):
        value = variable.get_value()
        for place in list(np.ndindex(value.shape))[::7]:
            heights = []
            for step in (1e-6, -1e-6):
                moved = value.copy()
                moved[place] += step
                variable.set_value(moved)
                heights.append(evaluate()[0])
            variable.set_value(value)
            assert (heights[0] - heights[1]) / 2e-6 == pytest.approx(
                slope[place], rel=1e-4, abs=1e-4
            )


def test_regulariser_is_the_double_sum(own):
    """Sums over tasks in place of equation 9, over tasks and networks that both use."""
    states = [state_of(seed) for seed in (1, 2, 3)]
    before = Neighbours.of(states, own.shape)
    current, rng = state_of(4), np.random.default_rng(5)
    for variable, value in zip((*own._state, *own._before), (*current, *before), strict=True):
        variable.set_value(value)
    uniform, sticks = rng.random((2, 5, M))
    _, distance = own.elbo(pt.as_tensor(uniform), pt.as_tensor(sticks))
    z = expit((FASTER * current.log_odds + np.log(uniform / (1 - uniform))) / 0.1)
    z[:, np.argmax(current.log_odds)] = 1.0
    exact = sum(
        z[:, m].mean() * state.active[m] * ((current.weights[m] - state.weights[m]) ** 2).sum()
        for state in states
        for m in range(M)
    )
    assert float(distance.eval()) == pytest.approx(exact, rel=1e-9)
    assert before.counts.max() != before.counts.min()  # not all tasks use all networks


def test_training_begins_anew(own):
    """Earlier trainings leave nothing behind, and the bound becomes larger."""
    rng = np.random.default_rng(6)
    rows = rng.random((N, D))
    y = np.sin(5 * rows[:, 0])
    before = Neighbours.of([], own.shape)

    def train(seed):
        rng = np.random.default_rng(seed)
        options = {"strength": 0.0, "rate": 0.02, "iterations": 60, "rng": rng}
        return own.train(state_of(0), before, rows, y, **options)

    first, elbo = train(7)
    train(8)
    again, same = train(7)
    np.testing.assert_array_equal(first.weights, again.weights)
    assert elbo == same
    options = {"strength": 0.0, "rate": 0.02, "iterations": 60, "rng": np.random.default_rng(9)}
    _, later = own.train(first, before, rows, y, **options)
    assert later > elbo
    begun = state_of(0)._replace(log_odds=np.full(M, 5.0))
    ends = [
        own.train(
            begun,
            Neighbours.of([begun], own.shape),
            rows,
            y,
            strength=strength,
            rate=0.02,
            iterations=60,
            rng=np.random.default_rng(9),
        )[0]
        for strength in (0.0, 10.0)
    ]
    free, near = (np.abs(end.weights - begun.weights)[ends[1].active].max() for end in ends)
    assert near < 0.3 * free


def test_precisions_stay_where_matrices_can_be_factorised(own):
    """Without noise, and with more points than units, the Gram matrix itself has no factor."""
    rng = np.random.default_rng(10)
    rows = rng.random((12, D))
    far = state_of(0)._replace(log_precisions=np.array([-30.0, 60.0]))
    options = {"strength": 0.0, "rate": 0.01, "iterations": 3, "rng": rng}
    state, _ = own.train(far, Neighbours.of([], own.shape), rows, rows[:, 0] - 0.5, **options)
    np.testing.assert_array_equal(
        np.clip(state.log_precisions, *LOG_PRECISIONS), state.log_precisions
    )
    assert np.isfinite(state.weights).all()


ROWS = np.random.default_rng(11).random((12, D))

#: Values of three tasks.
VALUES = np.array([np.sin(5 * ROWS[:, 0]), np.cos(5 * ROWS[:, 1]), ROWS[:, 0] * ROWS[:, 1]])


def lbo(**options):
    return LBO(max_networks=2, units=UNITS, iterations=2, **options)


def fitted(model, tasks):
    return model.fit(tasks, np.random.default_rng(12)).process


def test_what_is_learned_is_a_function_of_the_tasks():
    """Not of earlier proposals: a sampler of another process goes on in the same way."""
    tasks = [Task(ROWS, own) for own in VALUES]
    model = lbo()
    for n in (3, 6):
        fitted(model, [tasks[0], tasks[1].first(n)])
    found = fitted(model, [*tasks[:2], tasks[2].first(6)])
    other = [Task(own.rows, own.values) for own in tasks]
    again = fitted(lbo(), [*other[:2], other[2].first(6)])
    np.testing.assert_array_equal(found.weights, again.weights)
    changed = [Task(ROWS, VALUES[1]), tasks[1]]  # values of an earlier task came late
    found = fitted(model, changed)
    np.testing.assert_array_equal(found.weights, fitted(lbo(), changed).weights)
    assert not np.array_equal(found.weights, fitted(lbo(seed=1), changed).weights)


def test_a_task_begins_with_the_last_ones_networks():
    """Two steps of 0.01 from where the last task ended, with the prior's odds."""
    tasks = [Task(ROWS[:4], own[:4]) for own in VALUES]  # too few to choose the regulariser
    model = lbo()
    begun = model._beginning(tasks[:2])
    (_, learned), *_ = model._earlier
    np.testing.assert_array_equal(begun.state.weights, learned.state.weights)
    np.testing.assert_array_equal(begun.state.log_odds, ibp.expected_log_odds(2, 2.0))
    np.testing.assert_array_equal(begun.before.counts, learned.state.active)
    first = model._beginning(tasks[:1])
    assert first.before.counts.sum() == 0
    assert 0 < np.abs(begun.state.weights - first.state.weights).max() < 0.2


def test_noise_is_learned_to_be_small():
    """Samples without a network, and a slow precision, kept its sd above an eighth."""
    rows = np.random.default_rng(14).random((30, D))
    task = Task(rows, np.sin(3 * rows[:, 0]) + rows[:, 1])
    model = LBO(max_networks=3).fit([task], np.random.default_rng(15))
    assert model.process.noise_precision**-0.5 < 0.03


def test_the_regulariser_is_chosen_once_at_each_number_of_values(monkeypatch):
    """Also where a number is passed over, and the first values don't differ."""
    chosen = []
    model = lbo()
    monkeypatch.setattr(model, "_chosen", lambda *own: chosen.append(len(own[2])) or 0.1)
    tasks = [Task(ROWS, own) for own in VALUES]
    for n in (3, 6, 7, 9, 11, 12):
        fitted(model, [tasks[0], tasks[1].first(n)])
    assert chosen == [5, 10]
    flat = Task(ROWS, np.where(np.arange(12) < 5, 1.0, VALUES[2]))
    for n in (6, 12):
        fitted(model, [tasks[0], flat.first(n)])
    assert chosen == [5, 10, 10]


def test_networks_of_tasks():
    """Weights are those of active networks; their outputs add up to the mean (eq. 10)."""
    tasks = [Task(ROWS[:4], own[:4]) for own in VALUES]
    model = lbo()
    found = model.networks(tasks)
    assert found["n_values"].tolist() == [4, 4, 4]
    used = found["weight"] > 0
    assert (used >= (found["probability"] > 0.5)).all()
    assert used.any(axis=1).all()
    assert ((found["correlation"] != 0) == used).all()
    state = model._earlier[2][1].state
    outputs = model._outputs(state, tasks[2])
    mean = model._posterior(state, ROWS[:4], tasks[2].y).mean(ROWS[:4])
    np.testing.assert_allclose(outputs.sum(axis=0), mean, rtol=1e-9)
    np.testing.assert_allclose(found["weight"][2][used[2]], outputs.std(axis=1))
    exact = [np.corrcoef(one, tasks[2].y)[0, 1] for one in outputs]
    np.testing.assert_allclose(found["correlation"][2][used[2]], exact)
    assert len(model.networks(tasks[:2])["elbo"]) == 2


def test_steps_are_compiled_with_strict_arithmetic(monkeypatch):
    """With fastmath, a study resumed from compiled code of an empty cache had other points."""
    flags = []

    def function(*_, **__):
        flags.append(pytensor.config.numba__fastmath)

    monkeypatch.setattr(pytensor, "function", function)
    weight = pytensor.shared(0.0)
    Adam(weight**2, [weight])
    assert flags == [False]
