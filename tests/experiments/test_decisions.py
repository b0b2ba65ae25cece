"""Games and regressions: deals that policies share, stored results, and the figures."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from experiments.bandits import decisions, messages
from experiments.bandits.decisions import POLICIES, RULES, GameTask, RegressionTask
from experiments.bandits.figures import MAKERS, make
from experiments.bandits.games import derivative_bounds, game, synthetic
from experiments.results import Options
from experiments.settings import Decisions, default
from kem_pymc._system.executors import Serial
from kem_pymc.comparison.stored import run_tasks
from tests.data_home import needs

SETTINGS = default().decisions
ALL = Options(Path("out"))


def test_tasks_of_the_packages_settings():
    assert set(SETTINGS) == set(MAKERS)
    assert len(decisions.tasks_of(SETTINGS["dgpucb-fig2"], ALL)) == 100 * 16
    tasks = decisions.tasks_of(SETTINGS["dgpucb-fig3"], replace(ALL, quick=True))
    assert {(task.problem, task.rounds) for task in tasks} == {
        *(("se", 5), ("matern", 5), ("influenza", 5), ("weather", 5)),
    }
    assert not decisions.tasks_of(SETTINGS["dgpucb-fig1"], ALL)


def test_components_are_independent():
    """With one random state for all, as in the authors' program, draws would be alike."""
    made = synthetic("se", 40, np.random.default_rng(0), 120)
    table = made.truth(np.linspace(0, 1, 120)[:, None])
    spread = np.corrcoef(table[::30].T)[np.triu_indices(40, 1)]
    assert abs(spread.mean()) < 0.1
    assert spread.std() > 0.3
    amplitudes = [own.hyperparameters["SE0.amplitude"] for own in made.components]
    assert len(set(amplitudes)) == 40


@pytest.fixture(scope="module")
def regrets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("games")
    tasks = [GameTask("se", 12, trial, 0, (0.2,)) for trial in range(3)]
    found = run_tasks(tasks, folder, Serial())
    pd.testing.assert_frame_equal(found, run_tasks(tasks, folder, Serial()))
    return found


def test_figures_of_regret(regrets):
    assert set(regrets["policy"]) == set(POLICIES) - set(RULES)
    assert (regrets["regret"] >= -1e-9).all()
    output = make("dgpucb-fig3", regrets)
    total = regrets.groupby(["policy", "trial"])["regret"].sum().unstack("policy")
    lower = 100 * (total["GP-UCB"] - total["D-GPUCB"]) / total["GP-UCB"].mean()
    table = output.tables["Against GP-UCB"]
    mean, half = map(float, table.iloc[0, 0].split(" ± "))
    assert mean == pytest.approx(lower.mean(), abs=0.05)
    assert table.iloc[0, 2] == ("met" if mean >= 10 and mean > half else "missed")
    line = output.figure.axes[0].lines[0].get_ydata()
    assert line[-1] == pytest.approx(total["D-GPUCB"].mean())
    average = make("dgpucb-fig4", regrets).figure.axes[0].lines[0].get_ydata()
    assert average[-1] == pytest.approx(total["D-GPUCB"].mean() / 12)


def test_a_smooth_game_has_all_rules_at_every_scale():
    """Derivatives of where the components are: a bound is what `theorem` needs to be one."""
    made = game("smooth", np.random.default_rng(4))
    x = made.space.points
    effect, appeal = made.truth(x).T
    share = 1 / (1 + np.exp(-appeal))
    np.testing.assert_array_less(np.abs(effect) * share * (1 - share), made.bounds[1] + 1e-12)
    assert made.value(x).max() == made.optimum
    rows = GameTask("smooth", 3, 0, 0, (0.2, 0.05)).run()
    assert set(rows["policy"][rows["scale"] == 0.2]) == set(POLICIES)
    assert set(rows["policy"][rows["scale"] == 0.05]) == {"D-GPUCB", "GP-UCB"}
    assert (rows["regret"] >= 0).all()
    assert (rows.groupby(["scale", "policy"]).size() == 3).all()
    tables = make("dgpucb-nonlinear", rows).tables
    titles = ["smooth function, beta x 0.2", "smooth function, beta x 0.05"]
    assert list(tables["Cumulative regret"].columns) == titles
    assert len(tables["Against GP-UCB"]) == 5 + 1


def test_regression_figure_and_the_illustration():
    rows = pd.concat(
        [RegressionTask("rq", count, 10, trial, 0).run() for count in (2, 5) for trial in (0, 1)]
    )
    # Theorem 6 for the components' posteriors.
    assert (rows["decomposed_sd"] <= rows["plain_sd"] + 1e-9).all()
    output = make("dgpucb-fig2", rows)
    (table,) = output.tables.values()
    own = rows[rows["components"] == 5].groupby("trial")[["decomposed", "plain"]].mean()
    lower = (100 * (1 - own["decomposed"] / own["plain"])).mean()
    assert float(table.iloc[1, 0].split(" ± ")[0]) == pytest.approx(lower, abs=0.05)
    first = make("dgpucb-fig1", pd.DataFrame())
    assert len(first.figure.axes) == 3
    variances = first.tables["Both regressions"]["mean variance"].astype(float)
    assert variances.index.name  # without a name, rows are written without their labels
    assert variances["decomposed"] < variances["plain"]


@needs("contact", "weather")
@pytest.mark.parametrize("name", ["weather", "influenza"])
def test_games_with_data(name):
    """Nothing in the space is better than the optimum, and observations are of the truth."""
    made = game(name, np.random.default_rng(1))
    rng = np.random.default_rng(2)
    x = np.array([made.space.draw(rng) for _ in range(100)])
    assert (made.sign * made.value(x) <= made.sign * made.optimum + 1e-6).all()
    errors = np.array([own.mean(x) for own in made.components]).T - made.truth(x)
    scale = [np.sqrt(own.variance(x).mean()) for own in made.components]
    assert (np.abs(errors).mean(axis=0) < 4 * np.array(scale)).all()


def test_bounds_of_derivatives_of_the_perceived_temperature():
    """Where it is the wind chill: largest in the strongest wind, and nothing for the humidity."""
    bounds = derivative_bounds(np.array([0.0, 20.0, 5.0]), np.array([40.0, 80.0, 30.0]), 0)
    assert bounds[0] == pytest.approx(0.6215 + 0.4275 * 30**0.16)
    assert bounds[1] == 0.0
    assert bounds[2] == pytest.approx(35.75 * 0.16 * 5**-0.84, rel=1e-6)


def test_linear_models_are_mixed_models():
    """Their posteriors and likelihood are those of a normal distribution of all values."""
    study = messages.Population("linear", np.random.default_rng(0))
    rng, told = np.random.default_rng(1), []
    pooled, alone = messages._Linear(True, rng), messages._Linear(False, rng)
    for choice in study.choices(messages.USERS, 3):
        told.append((choice, int(rng.integers(4)), rng.normal(size=3)))
        for model in (pooled, alone):
            model.pilot(*told[-1])
    for model in (pooled, alone):
        model.morning()
    user = messages.USERS + 1
    rows = np.array([pooled.features(own, action) for own, action, _ in told])
    y = np.array([y for _, _, y in told]) @ messages.WEIGHTS
    users = np.array([own.user for own, _, _ in told])
    base, effect, level, own, noise = np.exp(pooled._logs)
    prior, each = np.repeat([base, effect], [4, 12]), np.repeat([level, own], [4, 12])
    k = rows @ np.diag(prior) @ rows.T
    k += (rows @ np.diag(each) @ rows.T) * (users[:, None] == users) + noise * np.eye(len(y))
    cross = np.diag(prior) @ rows.T + (np.diag(each) @ rows.T) * (users == user)
    mean, covariance = pooled._posterior(user)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(k, y), atol=1e-8)
    exact = np.diag(prior + each) - cross @ np.linalg.solve(k, cross.T)
    np.testing.assert_allclose(covariance, exact, atol=1e-8)
    height = pooled._population(pooled._logs)[0] - pooled._population(messages.START)[0]
    base, effect, level, own, noise = np.exp(messages.START)
    prior, each = np.repeat([base, effect], [4, 12]), np.repeat([level, own], [4, 12])
    other = rows @ np.diag(prior) @ rows.T + noise * np.eye(len(y))
    other += (rows @ np.diag(each) @ rows.T) * (users[:, None] == users)
    normal = [multivariate_normal(np.zeros(len(y)), c).logpdf(y) for c in (k, other)]
    assert height == pytest.approx(normal[0] - normal[1], abs=1e-6)
    assert height > 0
    # Of a user without observations the prior is that of the next user of the pilot's population.
    np.testing.assert_allclose(alone._posterior(0)[0], pooled._posterior(0)[0], atol=1e-6)


def test_trials_of_messages(monkeypatch):
    """Policies are compared on the same users; with true means regret and gain add up."""
    for name, value in (("USERS", 3), ("PILOT", 2), ("DAYS", 3)):
        monkeypatch.setattr(messages, name, value)
    tasks = [messages.MessageTask("nonlinear", trial, 0) for trial in (0, 1)]
    rows = pd.concat([task.run() for task in tasks])
    assert len(rows) == 2 * 3 * 8
    best = (rows["regret"] + rows["gain"]).groupby([rows["trial"], rows["user"]])
    assert (best.max() - best.min() < 1e-12).all()
    assert (rows["gain"][rows["policy"] == "Never"] == 0).all()
    pd.testing.assert_frame_equal(rows[rows["trial"] == 1], tasks[1].run())
    (table,) = make("dgpucb-trial", rows).tables.values()
    means = rows.groupby(["policy", "trial"])["regret"].mean().unstack("policy")
    less = (means["D-GPUCB"] - means["GP-UCB"]).mean()
    shown = table["regret less that of GP-UCB"]["smooth effects", "D-GPUCB"]
    assert float(shown.split(" ± ")[0]) == pytest.approx(less, abs=6e-4)


def test_unknown_problems_are_refused():
    with pytest.raises(ValueError, match="rounds"):
        Decisions(rounds={"football": 3})
