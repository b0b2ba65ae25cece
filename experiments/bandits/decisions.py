"""Trials of decomposed regression and of bandits, stored as tables."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.bandits.games import Game, ProblemName, game, synthetic
from experiments.bandits.messages import MessageTask
from experiments.results import Options, file_of
from experiments.settings import Decisions
from kem_pymc.bandits.bandit import Bandit, PolicyName
from kem_pymc.bandits.objective import Composed, RuleName, Weighted
from kem_pymc.bandits.regression import ComposedProcess, DecomposedPosterior
from kem_pymc.gp.posterior import Posterior

#: Titles of policies, and their names.
POLICIES: dict[str, PolicyName] = {
    "D-GPUCB": "d-gpucb",
    "D-GPUCB, box": "d-gpucb",
    "D-GPUCB, theorem": "d-gpucb",
    "D-EI": "d-ei",
    "GP-UCB": "gp-ucb",
    "EI": "ei",
    "MPI": "mpi",
    "Random": "random",
}

#: Rules of policies for nonlinear objectives only, by their titles; of others it is "quantile".
RULES: dict[str, RuleName] = {"D-GPUCB, box": "box", "D-GPUCB, theorem": "theorem"}

#: Policies that are played with further factors of beta_t, too.
SCALED = ("D-GPUCB", "GP-UCB")

#: Number of points of a synthetic space, and of random policies, at which regressions are compared.
TESTED, TESTED_POLICIES = 250, 200


@dataclass(frozen=True)
class GameTask:
    """All policies in one game.

    Attributes
    ----------
    problem : str
        See :data:`experiments.bandits.games.ProblemName`.
    rounds : int
    trial : int
        Trials differ in the game and its random numbers; policies share both.
    seed : int
    scales : tuple of float
        Factors of beta_t; with the second and later ones only `SCALED` are played.
    """

    problem: ProblemName
    rounds: int
    trial: int
    seed: int
    scales: tuple[float, ...]

    @property
    def title(self) -> str:
        """What is run, for people who wait for it."""
        return f"{self.problem}, trial {self.trial + 1}"

    def file(self, out: Path) -> Path:
        """Return the file of the results in the folder of an experiment."""
        return file_of(self, out, self.problem, f"game-{self.trial:02d}")

    def run(self) -> pd.DataFrame:
        """Return one row for each scale, policy and round.

        Columns are `problem`, `trial`, `scale`, `policy`, `round`, and `regret`, the difference of
        the noise-free objective from its best value.
        """
        key = [self.seed, self.trial, sum(map(ord, self.problem))]
        made = game(self.problem, np.random.default_rng(key))
        rows = []
        for scale, (title, policy) in product(self.scales, POLICIES.items()):
            objective = made.objective
            if scale != self.scales[0] and title not in SCALED:
                continue
            if title in RULES:
                if not isinstance(objective, Composed):
                    continue
                bounds = made.bounds if RULES[title] == "theorem" else None
                objective = Composed(objective.g, objective.count, RULES[title], bounds)
            bandit = Bandit(
                made.space,
                made.components,
                objective,
                policy,
                whole=made.whole,
                direction="maximize" if made.sign > 0 else "minimize",
                scale=scale,
                seed=self.trial,
            )
            regrets = _played(bandit, made, self.rounds, np.random.default_rng([*key, 1]))
            rows += [
                {"scale": scale, "policy": title, "round": i, "regret": regret}
                for i, regret in enumerate(regrets, 1)
            ]
        return pd.DataFrame(rows).assign(problem=self.problem, trial=self.trial)


def _played(bandit: Bandit, made: Game, rounds: int, rng: np.random.Generator) -> list[float]:
    """Return the regrets of the rounds of a game."""
    regrets = []
    for _ in range(rounds):
        x = bandit.ask()
        components = made.truth(x[None])[0]
        value = float(made.objective.value(x[None], components[None])[0])
        regrets.append(made.sign * (made.optimum - value))
        bandit.tell(x, components + made.noises * rng.normal(size=len(components)))
    return regrets


@dataclass(frozen=True)
class RegressionTask:
    """Decomposed and plain regression on random points of one game.

    Attributes
    ----------
    problem : str
    components : int
        Number of components J of a synthetic problem; influenza has five.
    observations : int
        Largest number of observations T.
    trial, seed : int
    """

    problem: ProblemName
    components: int
    observations: int
    trial: int
    seed: int

    @property
    def title(self) -> str:
        """What is run, for people who wait for it."""
        return f"{self.problem}, {self.components} components, trial {self.trial + 1}"

    def file(self, out: Path) -> Path:
        """Return the file of the results in the folder of an experiment."""
        return file_of(self, out, self.problem, f"regression-{self.components}-{self.trial:03d}")

    def run(self) -> pd.DataFrame:
        """Return one row for each number of observations.

        Columns are `problem`, `components`, `trial`, `observations`, and of both regressions the
        root mean square errors (`decomposed`, `plain`) of the noise-free objective at all points,
        and the mean standard deviations (`decomposed_sd`, `plain_sd`).
        """
        key = [self.seed, self.trial, self.components, sum(map(ord, self.problem))]
        rng = np.random.default_rng(key)
        if self.problem == "influenza":
            made = game(self.problem, rng)
            points = np.array([made.space.draw(rng) for _ in range(TESTED_POLICIES)])
        else:
            made = synthetic(self.problem, self.components, rng, TESTED)
            points = np.linspace(0.0, 1.0, TESTED)[:, None]
        objective = Weighted(len(made.components))
        truth = made.truth(points)
        total = truth.sum(axis=1)
        decomposed = DecomposedPosterior(made.components, objective, points)
        plain = Posterior.unobserved(ComposedProcess(made.components, objective), points)
        rows: list[dict[str, Any]] = []
        places = rng.permutation(len(points))[: self.observations]
        for t, place in enumerate(places, 1):
            y = truth[place] + made.noises * rng.normal(size=len(made.noises))
            decomposed.observe(points[place], y)
            plain = plain.observe(points[place], float(y.sum()))
            mean, variance = decomposed.at_points
            plain_mean, plain_variance = plain.at_points
            rows.append(
                {
                    "observations": t,
                    "decomposed": np.sqrt(np.mean((mean - total) ** 2)),
                    "plain": np.sqrt(np.mean((plain_mean - total) ** 2)),
                    "decomposed_sd": np.sqrt(variance).mean(),
                    "plain_sd": np.sqrt(plain_variance).mean(),
                }
            )
        columns = {"problem": self.problem, "components": self.components, "trial": self.trial}
        return pd.DataFrame(rows).assign(**columns)


def tasks_of(
    decisions: Decisions, options: Options
) -> list[GameTask | RegressionTask | MessageTask]:
    """Return the tasks of a figure, by trial."""
    count = options.trials or (decisions.quick_trials if options.quick else decisions.trials)
    most = decisions.quick if options.quick else None
    if decisions.messages:
        return [
            MessageTask(name, trial, options.seed)
            for trial in range(count)
            for name in decisions.messages
        ]
    if decisions.rounds:
        return [
            GameTask(name, min(rounds, most or rounds), trial, options.seed, decisions.scales)
            for trial in range(count)
            for name, rounds in decisions.rounds.items()
        ]
    return [
        RegressionTask(name, components, most or decisions.observations, trial, options.seed)
        for trial in range(count)
        for name, counts in decisions.regressions.items()
        for components in counts
    ]
