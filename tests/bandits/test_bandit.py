"""Bandits: choices by hand, regret, missing observations, and continued runs."""

import json
import math
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from kem_pymc.bandits import (
    Bandit,
    Box,
    Composed,
    ComposedProcess,
    DecomposedPosterior,
    GaussianProcess,
    Points,
    Weighted,
    exploration,
)
from kem_pymc.errors import InputError
from kem_pymc.gp.posterior import Posterior
from tests.mutations import mutated, written
from tests.refusals import refused

X = np.linspace(0, 1, 120)
LENGTHSCALES = (0.08, 0.15, 0.3, 0.6)


def process(lengthscale, noise=1e-3):
    values = {"SE0.amplitude": 1.0, "SE0.lengthscale": lengthscale}
    return GaussianProcess.of("SE0", values, noise)


COMPONENTS = [process(own) for own in LENGTHSCALES]


def drawn(components, seed):
    """Return draws (J, m) of components."""
    rng = np.random.default_rng(seed)
    roots = [
        np.linalg.cholesky(own.covariance(X[:, None], X[:, None]) + 1e-9 * np.eye(len(X)))
        for own in components
    ]
    return np.array([root @ rng.normal(size=len(X)) for root in roots])


@pytest.fixture(scope="module")
def functions():
    return drawn(COMPONENTS, 5)


def play(bandit, functions, rounds, seed=0, noise=0.03):
    """Return the regrets of rounds."""
    rng = np.random.default_rng(seed)
    total = functions.sum(axis=0)
    regrets = []
    for _ in range(rounds):
        x = bandit.ask()
        place = int(np.argmin(np.abs(X - x[0])))
        bandit.tell(x, functions[:, place] + noise * rng.normal(size=len(functions)))
        regrets.append(total.max() - total[place])
    return np.array(regrets)


def test_exploration_by_hand():
    assert exploration(3, points=100) == 2 * math.log(100 * 9 * math.pi**2 / 0.3)
    assert exploration(3, points=100, components=4) == 2 * math.log(400 * 9 * math.pi**2 / 0.3)
    spread = 9 * 2 * 3.0 * 1.5 * math.sqrt(math.log(4 * 2 * 0.5 / 0.1))
    exact = 2 * math.log(2 * 9 * math.pi**2 / 0.3) + 4 * math.log(spread)
    given = {"dimension": 2, "width": 1.5, "smoothness": (0.5, 3.0), "delta": 0.1}
    assert exploration(3, **given) == pytest.approx(exact, rel=1e-12)
    assert exploration(1, dimension=5, width=1e-3) > 0  # a small space needs no more points


@pytest.mark.parametrize("policy", ["d-gpucb", "gp-ucb"])
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_largest_confidence_bound_is_chosen(policy, direction, functions):
    bandit = Bandit(Points(X), COMPONENTS, Weighted(4), policy, direction=direction)
    play(bandit, functions, 5)
    decomposed = DecomposedPosterior(COMPONENTS, Weighted(4), X[:, None])
    composed = Posterior.unobserved(ComposedProcess(COMPONENTS, Weighted(4)), X[:, None])
    for own in bandit.rounds:
        decomposed.observe(own.x, own.components)
        composed = composed.observe(own.x, own.value)
    mean, variance = decomposed.at_points if policy == "d-gpucb" else composed.at_points
    sign = 1 if direction == "maximize" else -1
    bound = sign * mean + np.sqrt(exploration(6, points=120) / 5 * variance)
    assert bandit.ask() == X[np.argmax(bound)]


def test_improvement_policies_against_simulation(functions):
    """The next choices have the largest simulated improvement, or probability of one."""
    rng = np.random.default_rng(1)
    components = [process(own, 0.25) for own in LENGTHSCALES]
    for policy in ("ei", "mpi"):
        bandit = Bandit(Points(X), components, Weighted(4), policy)
        play(bandit, functions, 6, noise=0.5)
        mean, variance = bandit.posterior(X)
        drawn = mean[:, None] + np.sqrt(variance)[:, None] * rng.normal(size=(120, 40_000))
        if policy == "ei":
            height = np.maximum(drawn - bandit.best[1], 0).mean(axis=1)
        else:
            ahead = bandit.values.max() + 0.01 * bandit.values.std()
            height = (drawn > ahead).mean(axis=1)
        chosen = int(np.argmin(np.abs(X - bandit.ask()[0])))
        assert height[chosen] > 0.97 * height.max()


def test_decomposed_feedback_lowers_the_regret():
    """In six games each; with weights squared, or one draw for all components, it isn't."""
    lengthscales = np.geomspace(0.05, 0.5, 8)
    components = [process(own) for own in lengthscales]
    total = dict.fromkeys(("d-gpucb", "gp-ucb", "random"), 0.0)
    last = []
    for trial in range(6):
        functions = drawn(components, [9, trial])
        for policy in total:
            bandit = Bandit(Points(X), components, Weighted(8), policy, seed=trial)
            regrets = play(bandit, functions, 40, seed=trial)
            total[policy] += regrets.sum()
            last += [regrets[-10:].mean()] if policy == "d-gpucb" else []
    assert total["d-gpucb"] < 0.9 * total["gp-ucb"] < 0.5 * total["random"]
    assert np.mean(last) < 0.02


def test_a_continuous_space_with_a_budget():
    """The best action spends the budget on the cheaper of two dimensions."""
    values = {"LIN0.amplitude": 1.0, "LIN0.shift": 0.0, "LIN1.amplitude": 1.0, "LIN1.shift": 0.0}
    components = [GaussianProcess.of(own, values, 1e-4, dimension=2) for own in ("LIN0", "LIN1")]
    space = Box([0, 0], [1, 1], ([[1.0, 3.0]], [1.5]))
    bandit = Bandit(space, components, Weighted(2))
    for _ in range(12):
        x = bandit.ask()
        bandit.tell(x, [1.0 * x[0], 2.0 * x[1]])
    np.testing.assert_allclose(bandit.ask(), [1.0, 1 / 6], atol=0.02)


@pytest.mark.parametrize("rule", ["quantile", "box"])
def test_a_kink_in_a_continuous_space(rule):
    """The smaller of two gains is largest where they are equal, at the budget."""
    values = {"LIN0.amplitude": 1.0, "LIN0.shift": 0.0, "LIN1.amplitude": 1.0, "LIN1.shift": 0.0}
    components = [GaussianProcess.of(own, values, 1e-4, dimension=2) for own in ("LIN0", "LIN1")]
    space = Box([0, 0], [1, 1], ([[1.0, 3.0]], [1.5]))
    bandit = Bandit(space, components, Composed(lambda a, b: np.minimum(a, 2 * b), 2, rule))
    for _ in range(8):
        x = bandit.ask()
        bandit.tell(x, [1.0 * x[0], 2.0 * x[1]])
    np.testing.assert_allclose(bandit.ask(), [6 / 7, 3 / 14], atol=0.02)


def test_a_composed_objective_needs_a_process_of_values(functions):
    objective = Composed(lambda *f: np.tanh(sum(f)), 4)
    with pytest.raises(InputError, match="Give it as whole"):
        Bandit(Points(X), COMPONENTS, objective, "ei")
    whole = Bandit(Points(X), COMPONENTS, objective, "gp-ucb", whole=process(0.1))
    play(whole, functions, 3)
    assert whole.best[1] <= 1.0


def target(a, b, c, d):
    """A sum with a reward where the first two are alike."""
    return a + b + c + d + np.where(np.abs(a - b) < 0.5, 3.0, 0.0)


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_composed_choices_against_simulation(direction, functions):
    """The next choices have the largest simulated quantile, and improvement on the best mean."""
    sign = 1 if direction == "maximize" else -1
    rng = np.random.default_rng(2)
    for policy in ("d-gpucb", "d-ei"):
        objective = Composed(target, 4)
        bandit = Bandit(Points(X), COMPONENTS, objective, policy, direction=direction)
        play(bandit, functions, 6)
        means, variances = bandit.model.predict_components(X[:, None])
        shape = (4, 20_000, 120)
        drawn = means.T[:, None] + np.sqrt(variances).T[:, None] * rng.normal(size=shape)
        values = sign * target(*drawn)
        mean, best = bandit.posterior(X)[0], sign * bandit.best[1]
        np.testing.assert_allclose(sign * mean, values.mean(axis=0), atol=0.1)
        if policy == "d-gpucb":
            level = ndtr(np.sqrt(exploration(7, points=120) / 5))
            height = np.quantile(values, level, axis=0)
        else:
            height = np.maximum(values - best, 0).mean(axis=0)
        chosen = int(np.argmin(np.abs(X - bandit.ask()[0])))
        assert height[chosen] - height.min() > 0.93 * np.ptp(height)
        assert height[chosen] > np.quantile(height, 0.95)


def test_components_lower_the_regret_of_a_jumping_objective():
    """In six games of each policy; `target` isn't a process, and its bumps are hardly found."""
    components = [process(own) for own in LENGTHSCALES]
    total = dict.fromkeys(("d-gpucb", "d-ei", "gp-ucb"), 0.0)
    for trial in range(6):
        functions = drawn(components, [3, trial])
        truth = target(*functions)
        values = {"SE0.amplitude": truth.var(), "SE0.lengthscale": 0.1}
        whole = GaussianProcess.of("SE0", values, 0.01, mean=truth.mean())
        for policy in total:
            objective = Composed(target, 4)
            bandit = Bandit(Points(X), components, objective, policy, whole=whole, seed=trial)
            rng = np.random.default_rng(trial)
            for _ in range(25):
                place = int(np.argmin(np.abs(X - bandit.ask()[0])))
                total[policy] += truth.max() - truth[place]
                bandit.tell(X[place : place + 1], functions[:, place] + 0.03 * rng.normal(size=4))
    assert max(total["d-gpucb"], total["d-ei"]) < 0.8 * total["gp-ucb"]


def test_theorems_have_the_beta_of_the_components():
    """A union over J components by the rules "box" and "theorem", and by the others none."""
    for rule, bounds, joint in (("quantile", None, 1), ("box", None, 4), ("theorem", [1] * 4, 4)):
        bandit = Bandit(Points(X), COMPONENTS, Composed(target, 4, rule, bounds))
        assert bandit._exploration(3) == exploration(3, points=120, components=joint)


@pytest.mark.parametrize("policy", ["d-gpucb", "ei", "random"])
def test_a_continued_bandit_plays_the_same(tmp_path, functions, policy):
    """Interrupted between asking and telling, and with a torn last line."""

    def make(out):
        return Bandit(Points(X), COMPONENTS, Weighted(4), policy, out=out, seed=4)

    whole = make(tmp_path / "whole")
    play(whole, functions, 8)
    part = make(tmp_path / "part")
    play(part, functions, 5)
    part.ask()
    file = tmp_path / "part" / "events.jsonl"
    file.write_bytes(file.read_bytes() + b'{"tell": [0.')
    again = make(tmp_path / "part")
    assert len(again.rounds) == 5
    np.testing.assert_array_equal(again.ask(), part.ask())
    assert [own.x for own in again.rounds] == [own.x for own in whole.rounds[:5]]
    with pytest.raises(InputError, match="with different policy"):
        Bandit(Points(X), COMPONENTS, Weighted(4), "mpi", out=tmp_path / "part", seed=4)


def test_missing_observations_and_the_datatree(functions):
    bandit = Bandit(Points(X), COMPONENTS, Weighted(4))
    bandit.tell(X[3:4], [1.0, None, math.nan, 2.0])
    assert math.isnan(bandit.rounds[0].value)
    assert [posterior.n for (posterior,) in bandit.model.posteriors] == [1, 0, 0, 1]
    masked = np.ma.array([9.0, 0.5, 9.0, 9.0], mask=[1, 0, 1, 1])
    bandit.tell(X[4:5], masked, value=7.0)
    assert [posterior.n for (posterior,) in bandit.model.posteriors] == [1, 1, 0, 1]
    play(bandit, functions, 2)
    rounds = bandit.to_datatree()["rounds"].to_dataset()
    assert rounds["components"].shape == (4, 4)
    assert rounds["value"].values[1] == 7.0


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_best_point_has_the_best_posterior_mean(direction, functions):
    """By the dense formula; a round with a missing component may be it, a lucky value may not."""
    noise, sign = 0.25, 1 if direction == "maximize" else -1
    components = [process(own, noise) for own in LENGTHSCALES]
    bandit = Bandit(Points(X), components, Weighted(4), direction=direction)
    refused(lambda: bandit.best, "Nothing was observed yet")
    rng = np.random.default_rng(0)
    x = np.append(rng.choice(X, 31), X[np.argmin(sign * functions.sum(axis=0))])
    y = functions[:, np.searchsorted(X, x)].T + 0.5 * rng.normal(size=(32, 4))
    y[:16, 0], y[-1] = np.nan, sign * np.abs(y).max() / 2
    for at, seen in zip(x, y, strict=True):
        bandit.tell([at], seen)
    mean = np.zeros(32)
    for own, seen in zip(LENGTHSCALES, y.T, strict=True):
        there = ~np.isnan(seen)
        k = np.exp(-0.5 * ((x[:, None] - x[there]) / own) ** 2)
        mean += k @ np.linalg.solve(k[there] + noise * np.eye(there.sum()), seen[there])
    best, value = bandit.best
    assert best == x[np.argmax(sign * mean)] != x[-1] == x[np.nanargmax(sign * y.sum(axis=1))]
    assert value == pytest.approx(sign * (sign * mean).max(), rel=1e-9)


@pytest.mark.parametrize("policy", ["d-gpucb", "ei"])
def test_the_best_value_is_not_above_the_truth(policy):
    """In eight games each with much noise; the luckiest values are 2 above it."""
    components = [process(own, 0.25) for own in LENGTHSCALES]
    above = []
    for trial in range(8):
        functions = drawn(components, [7, trial])
        bandit = Bandit(Points(X), components, Weighted(4), policy, seed=trial)
        play(bandit, functions, 30, seed=trial, noise=0.5)
        x, value = bandit.best
        above.append(value - functions[:, np.argmin(np.abs(X - x))].sum())
    assert abs(np.mean(above)) < 0.4


def test_nothing_is_written_of_what_is_refused(tmp_path):
    bandit = Bandit(Points(X), COMPONENTS, Weighted(4), out=tmp_path)
    for call, message in [
        (lambda: bandit.tell([0.0], [1.0, 2.0]), r"at \[0.0\] is 2, and that of the objective 4"),
        (
            lambda: bandit.tell([0.0], [1.0, 2.0, 3.0, math.inf]),
            "observations contain a missing, infinite",
        ),
        (lambda: bandit.tell([0.0], [1.0, 2.0, 3.0, 1e308]), "observations contain a missing"),
        (lambda: bandit.tell([0.0, 0.0], [1.0, 2.0, 3.0, 4.0]), "isn't one of the points"),
        (lambda: bandit.tell([0.0]), "Nothing was observed"),
        (lambda: bandit.tell([0.0], value=1.0), "Give components, or use gp-ucb"),
        (lambda: bandit.tell([0.0], ["a", 2, 3, 4]), "observations aren't all numbers"),
        (lambda: bandit.tell(["a"], [1, 2, 3, 4]), "coordinates of the point aren't all numbers"),
        (lambda: bandit.tell([0.00001], [1.0, 2.0, 3.0, 4.0]), "isn't one of the points"),
        (lambda: bandit.best, "Nothing was observed"),
    ]:
        with pytest.raises(InputError, match=message):
            call()
    exact = [process(own, noise=0.0) for own in LENGTHSCALES]
    own = Bandit(Points(X), exact, Weighted(4), out=tmp_path / "exact")
    own.tell([0.0], [1.0, 2.0, 3.0, 4.0])
    with pytest.raises(InputError, match="contradicts"):
        own.tell([0.0], [1.0, 2.0, 3.0, 5.0])
    lines = (tmp_path / "exact" / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["value"] for line in lines] == [10.0]


def test_what_cannot_be_written_is_not_applied(tmp_path, monkeypatch):
    """A full disk, after half a line, and a second writer: memory and file stay the same."""
    bandit = Bandit(Points(X), COMPONENTS, Weighted(4), out=tmp_path)
    bandit.tell(X[:1], np.ones(4))
    file = tmp_path / "events.jsonl"
    whole, before = file.read_bytes(), bandit.posterior(X)

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        for call in (bandit.ask, lambda: bandit.tell(X[1:2], np.ones(4))):
            refused(call, str(file), "No space left on device", "is as it was")
    with bandit._folder.locked():
        refused(lambda: bandit.tell(X[1:2], np.ones(4)), "Another process writes to")
    assert file.read_bytes() == whole
    assert (len(bandit.rounds), bandit.pending) == (1, [])
    np.testing.assert_array_equal(bandit.posterior(X), before)
    x = bandit.ask()
    bandit.tell(x, np.ones(4))
    again = Bandit(Points(X), COMPONENTS, Weighted(4), out=tmp_path)
    assert [own.x for own in again.rounds] == [X[0], x]
    again.tell(x, np.ones(4))
    refused(bandit.ask, "Something else has written to")
    assert len(bandit.pending) == 0


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The folder of a bandit with a missing observation, and a point that was asked for."""
    folder = tmp_path_factory.mktemp("played")
    bandit = Bandit(Points(X), COMPONENTS[:2], Weighted(2), out=folder)
    for second in (0.5, None):
        bandit.tell(bandit.ask(), [1.0, second])
    bandit.ask()
    return folder


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_a_changed_line_is_refused_or_a_round_that_may_be(played, data):
    """Other types, points outside the space, numbers of 1e308, entries too many or too few."""
    file = played / "events.jsonl"
    whole = file.read_bytes()
    lines = whole.splitlines()
    place = data.draw(st.integers(0, len(lines) - 1))
    lines[place] = written(data.draw(mutated(json.loads(lines[place]))))
    refusal = ""
    try:
        file.write_bytes(b"\n".join(lines) + b"\n")
        bandit = Bandit(Points(X), COMPONENTS[:2], Weighted(2), out=played)
    except InputError as error:
        refusal = str(error)
    finally:
        file.write_bytes(whole)
    if refusal:
        assert refusal.startswith(f"Line {place + 1} of {file} is damaged.")
        return
    for x in [*bandit.pending, *(own.x for own in bandit.rounds)]:
        assert x.shape == (1,)
        assert x[0] in X
    for own in bandit.rounds:
        assert own.components.shape == (2,)
        assert not (np.abs([*own.components, own.value]) > 1e12).any()
    assert np.isfinite(bandit.posterior(X)).all()


def test_options_that_are_refused():
    with pytest.raises(InputError, match="no policy"):
        Bandit(Points(X), COMPONENTS, Weighted(4), "ucb")
    with pytest.raises(InputError, match="policy is array"):
        Bandit(Points(X), COMPONENTS, Weighted(4), np.array(["ei", "mpi"]))
    with pytest.raises(InputError, match=r"seed is 1\.5"):
        Bandit(Points(X), COMPONENTS, Weighted(4), seed=1.5)
    for beta in (-1.0, math.nan, "1"):
        own = Bandit(Points(X), COMPONENTS, Weighted(4), beta=lambda _, beta=beta: beta)
        with pytest.raises(InputError, match=f"beta is {beta!r} in round 1"):
            own.ask()
    with pytest.raises(InputError, match=r"delta is '0\.05'"):
        Bandit(Points(X), COMPONENTS, Weighted(4), delta="0.05")
    with pytest.raises(InputError, match=r"delta is 1\.0"):
        Bandit(Points(X), COMPONENTS, Weighted(4), delta=1.0)
    with pytest.raises(InputError, match="1 input, and the space 2"):
        Bandit(Box([0, 0], [1, 1]), COMPONENTS, Weighted(4))
