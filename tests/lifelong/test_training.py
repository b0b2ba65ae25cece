"""Training: the evidence lower bound, its gradient, the regulariser, and Adam begun anew."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.special import expit

from kem_pymc.lifelong import buffet, networks
from kem_pymc.lifelong.lbo import LBO
from kem_pymc.lifelong.linear import LOG_PRECISIONS
from kem_pymc.lifelong.methods import Acquired
from kem_pymc.lifelong.shared_network import SharedNetwork
from kem_pymc.lifelong.training import FASTER, Neighbours, State, Training

M, D, UNITS, N = 3, 2, 4, 7


@pytest.fixture(scope="module")
def own():
    return Training(M, D, UNITS, 2.0)


def state_of(seed):
    rng = np.random.default_rng(seed)
    return State(networks.draw(M, D, UNITS, rng), rng.normal(size=M), np.array([0.02, 0.15]))


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


@pytest.mark.parametrize("in_dual", [True, False])
def test_bound_and_gradient(own, in_dual):
    """The bound by hand for given samples, and its gradient by finite differences."""
    rng = np.random.default_rng(2)
    state, rows, y = state_of(0), rng.random((N, D)), rng.normal(size=N)
    uniform, sticks = rng.random((2, 5, M))
    own._rows.set_value(rows)
    own._y.set_value(y)
    for variable, value in zip(own._state, state, strict=True):
        variable.set_value(value)
    bound, _ = own.elbo(pt.as_tensor(uniform), pt.as_tensor(sticks), in_dual)
    evaluate = pytensor.function([], [bound, *pt.grad(bound, list(own._state))])
    found, *slopes = evaluate()
    log_odds = FASTER * state.log_odds
    precision, noise_precision = np.exp(FASTER * state.log_precisions)
    logit = (log_odds + np.log(uniform) - np.log(1 - uniform)) / buffet.TEMPERATURE
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
    before = Neighbours.none(M, own.size)
    for state in states:
        before = before.plus(state)
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
    before = Neighbours.none(M, own.size)

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
            before.plus(begun),
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


def test_precisions_stay_where_matrices_can_be_factorised():
    """Without noise, and with more points than units, the Gram matrix itself has no factor."""
    rng = np.random.default_rng(10)
    rows = rng.random((12, D))
    acquired = Acquired(rows, rows[:, 0] - 0.5)
    far = np.array([-30.0, 60.0])
    shared = SharedNetwork(D, UNITS, several=True, iterations=3)
    shared.fit([acquired], rng)
    shared.log_precisions = far[None]
    mean, sd = shared.fit([acquired], rng).predict(rng.random((5, D)))
    assert np.isfinite(mean).all()
    assert np.isfinite(sd).all()
    lbo = LBO(D, max_networks=1, units=UNITS, iterations=3)
    lbo.fit([acquired], rng)
    lbo.first = lbo.first._replace(log_precisions=far)
    lbo.fit([acquired], rng)
    assert (
        np.clip(lbo.current.log_precisions, *LOG_PRECISIONS) == lbo.current.log_precisions
    ).all()


def test_every_acquisition_is_learned_from_the_same_state():
    """Networks whose training went on for a whole task would be certain of what they can't know."""
    rows = np.random.default_rng(11).random((4, D))  # too few to choose the regulariser
    values = [np.sin(5 * rows[:, 0]), np.cos(5 * rows[:, 1])]

    def learned(*counts):
        lbo = LBO(D, max_networks=2, units=UNITS, iterations=5)
        for task, count in counts:
            earlier = [Acquired(rows, own) for own in values[:task]]
            current = Acquired(rows[:count], values[task][:count])
            lbo.fit([*earlier, current], np.random.default_rng(12))
        return lbo

    first, other = learned((0, 3), (0, 4)), learned((0, 2), (0, 4))
    np.testing.assert_array_equal(first.current.weights, other.current.weights)
    second = learned((0, 3), (0, 4), (1, 3), (1, 4))
    other = learned((0, 3), (0, 4), (1, 2), (1, 4))
    np.testing.assert_array_equal(second.current.weights, other.current.weights)
    # Five steps of 0.01 from where the first task ended.
    assert 0 < np.abs(second.current.weights - first.current.weights).max() < 0.2
    np.testing.assert_array_equal(second.before.counts, first.current.active)  # one earlier task


def test_acquisitions_of_earlier_tasks_that_were_not_learned():
    """Such as those of a last batch, and of a task all of whose points were added."""
    rng = np.random.default_rng(17)
    tasks = [Acquired(rng.random((n, D)), rng.normal(size=n)) for n in (4, 4, 3, 4)]
    batch = LBO(D, max_networks=2, units=UNITS, iterations=2)
    batch.fit([Acquired(tasks[0].rows[:2], tasks[0].values[:2])], rng)
    batch.fit(tasks, rng)
    assert [own[:2] for own in batch.trace] == [(1, 2), (1, 4), (2, 4), (3, 3), (4, 4)]
    assert batch.before.counts.sum() == sum((own.weights > 0).sum() for own in batch.trace[1:4])
    weights = batch.current.weights
    batch.fit(tasks, rng)  # another point is asked for, before a value is known
    assert len(batch.trace) == 5
    np.testing.assert_array_equal(batch.current.weights, weights)


def test_noise_is_learned_to_be_small():
    """Samples without a network, and a slow precision, kept its sd above an eighth."""
    rows = np.random.default_rng(14).random((30, D))
    lbo = LBO(D, max_networks=3)
    lbo.fit([Acquired(rows, np.sin(3 * rows[:, 0]) + rows[:, 1])], np.random.default_rng(15))
    assert np.exp(-lbo.current.log_precisions[1] / 2) < 0.03


def test_the_regulariser_is_chosen_once_at_each_number_of_values(monkeypatch):
    """Also where points are asked for together, or a number is passed over."""
    rng = np.random.default_rng(16)
    chosen = []
    lbo = LBO(D, max_networks=2, units=UNITS, iterations=1)
    monkeypatch.setattr(lbo, "_chosen", lambda *own: chosen.append(len(own[2])) or 0.1)
    tasks = [Acquired(rng.random((n, D)), rng.normal(size=n)) for n in (6, 6, 6, 12, 3, 7)]
    for i, number in enumerate((1, 2, 2, 2, 3, 3)):
        lbo.fit([*tasks[: number - 1], tasks[i]], rng)
    assert chosen == [6, 12, 7]


def test_the_state_grows_by_its_trace_only():
    """Catches weights that are kept for every earlier task."""
    rng = np.random.default_rng(13)
    rows = rng.random((6, D))
    lbo = LBO(D, max_networks=2, units=UNITS, iterations=2)
    tasks, sizes, traced = [], [], []
    for _ in range(4):
        tasks.append(Acquired(rows, rng.normal(size=6)))
        lbo.fit(tasks, rng)
        state = lbo.state()
        sizes.append(sum(v.nbytes for name, v in state.items() if not name.startswith("trace")))
        traced.append(sum(v.nbytes for name, v in state.items() if name.startswith("trace")))
    assert len(set(sizes)) == 1
    assert traced[3] == 4 * traced[0] == 4 * 8 * (4 + 2 * 2)
    weights = lbo.current.weights.size
    assert sizes[0] < 8 * (4 * weights + 50)  # of this task, of its beginning, and sums
