"""Simulated micro-randomised trials: which message to send when steps, burden and sleep count.

At every decision one of four actions is chosen, of which the first is no message. The context is
the hour, the steps of the day before, and whether it is a weekend. Steps after a message are known
at once; how burdened a user was by it, and how it changed sleep, the next morning. The value is
steps less half of the burden plus half of the sleep, in standard deviations of the steps of a user.

Levels of users differ by .65, and days are correlated by .16: those of the daily steps (their
square roots) of 20 users of HeartSteps V1 (Klasnja et al. 2019), in the same unit. All other
numbers are made up.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from experiments.results import file_of
from kem_pymc.bandits.bandit import Bandit, PolicyName
from kem_pymc.bandits.confidence import exploration
from kem_pymc.bandits.objective import Weighted
from kem_pymc.bandits.space import Points
from kem_pymc.gp.process import GaussianProcess

#: How effects depend on the context: linearly, or as smooth functions.
Truth = Literal["linear", "nonlinear"]

#: Number of users, of days, of pilot users, and of actions; hours of decisions, from 0 to 1.
USERS, DAYS, PILOT, ACTIONS, HOURS = 15, 14, 8, 4, (0.0, 0.5, 1.0)

#: Weights of steps, burden and sleep, and standard deviations of their noise.
WEIGHTS, NOISES = np.array([1.0, -0.5, 0.5]), np.array([1.0, 0.7, 0.7])

#: Standard deviation of users' levels, and correlation of their days (HeartSteps V1).
LEVELS, CORRELATION = 0.65, 0.16

#: Standard deviations of the effects of the context and of messages, of all users and of single
#: ones, and the mean of the burden of a message.
BASE, EFFECT, OWN_EFFECT, BURDEN = 0.4, 0.3, 0.15, 0.3

#: Smooth effects: their lengthscale in the units of hours and steps, and the number of waves.
SMOOTH, WAVES = 0.6, 200

#: What policies by Gaussian processes suppose: lengthscales of contexts, of a user and an action,
#: which no other one resembles, and variances. They are guesses.
ASSUMED, ALONE = 1.5, 0.1
VARIANCES = {"base": 0.5, "effect": 0.2, "level": 0.4, "own": 0.05}

#: Logs of variances of a linear model from which it starts: of the context and of messages, of all
#: users and of single ones, and of the noise.
START = np.log([0.5, 0.1, 0.3, 0.05, 1.5])

#: Factor of beta_t, out of this and a fifth, by eight trials of each truth with the seed 900: the
#: mean regret of D-GPUCB was the same (.118 and .119), that of GP-UCB less (.116 and .127).
SCALE = 0.05

#: Policies by title; those that aren't bandits of the library have functions of their own.
BANDITS: dict[str, PolicyName] = {"D-GPUCB": "d-gpucb", "GP-UCB": "gp-ucb"}


class Choice(NamedTuple):
    """A decision: user, day, and context (hour, steps of the day before, weekend)."""

    user: int
    day: int
    context: np.ndarray


class Population:
    """Simulated users, of which those from `USERS` on are pilot users.

    Parameters
    ----------
    truth : {"linear", "nonlinear"}
    rng : numpy.random.Generator
    """

    def __init__(self, truth: Truth, rng: np.random.Generator) -> None:
        count = USERS + PILOT
        self.levels = LEVELS * rng.normal(size=(count, 3)) * [1.0, 0.5, 0.5]
        make = _lines if truth == "linear" else _waves
        #: Of all users, and of each: effects of the context, and of messages in it.
        self._base = make(BASE, 3, rng)
        self._effect = make(EFFECT, 3 * (ACTIONS - 1), rng)
        self._own = [make(OWN_EFFECT, 3 * (ACTIONS - 1), rng) for _ in range(count)]
        steps = rng.normal(size=(count, DAYS))
        for day in range(1, DAYS):
            steps[:, day] *= np.sqrt(1 - CORRELATION**2)
            steps[:, day] += CORRELATION * steps[:, day - 1]
        self._steps = np.clip(steps, -2, 2)

    def choices(self, first: int, count: int) -> Iterator[Choice]:
        """Yield the decisions of users in the order of time."""
        for day in range(DAYS):
            for hour in HOURS:
                for user in range(first, first + count):
                    context = [hour, self._steps[user, day] / 2, float(day % 7 >= 5)]
                    yield Choice(user, day, np.array(context))

    def means(self, choice: Choice) -> np.ndarray:
        """Return the means of the components (ACTIONS, 3) in a decision."""
        c = choice.context
        effects = (self._effect(c) + self._own[choice.user](c)).reshape(ACTIONS - 1, 3)
        effects[:, 1] += BURDEN
        level = self.levels[choice.user] + self._base(c)
        return level + np.vstack([np.zeros(3), effects])


def _lines(sd: float, count: int, rng: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """Return random linear functions (count,) of a context."""
    slopes = sd * rng.normal(size=(4, count))
    return lambda c: np.array([1.0, *c]) @ slopes


def _waves(sd: float, count: int, rng: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """Return random smooth functions (count,) of a context, by random Fourier features."""
    sd *= np.sqrt(2.0)  # about that of a line
    frequencies = rng.normal(size=(3, WAVES)) / np.array([SMOOTH, SMOOTH, 2.0])[:, None]
    phases = rng.uniform(0, 2 * np.pi, WAVES)
    weights = sd * rng.normal(size=(WAVES, count)) * np.sqrt(2 / WAVES)
    return lambda c: np.cos(c @ frequencies + phases) @ weights


def _process(sd: float, noise: float) -> GaussianProcess:
    """Return a process of user, hour, steps, weekend and action, in units of sd."""
    context = " x ".join(f"SE{d}" for d in (1, 2, 3))
    parts = {
        context: VARIANCES["base"],
        f"{context} x SE4": VARIANCES["effect"],
        "SE0": VARIANCES["level"],
        f"SE0 x {context} x SE4": VARIANCES["own"],
    }
    values = {}
    for part, variance in parts.items():
        values[f"{part}.amplitude"] = sd**2 * variance
        for factor in part.split(" x "):
            name = f"{part}.{factor}" if " x " in part else part
            values[f"{name}.lengthscale"] = ALONE if factor in ("SE0", "SE4") else ASSUMED
    return GaussianProcess.of(" + ".join(parts), values, noise**2, dimension=5)


class _BanditPolicy:
    """A bandit of the library for all users, who are a column of its context."""

    def __init__(self, policy: PolicyName, seed: int, scale: float) -> None:
        noise = float(np.linalg.norm(WEIGHTS * NOISES))
        processes = [_process(sd, sd) for sd in NOISES]
        whole = _process(noise, noise) if policy == "gp-ucb" else None
        actions = Points(np.arange(float(ACTIONS)))
        self.bandit = Bandit(
            actions,
            processes,
            Weighted(list(WEIGHTS)),
            policy,
            whole=whole,
            contexts=4,
            scale=scale,
            seed=seed,
        )
        self._decomposed = policy == "d-gpucb"
        self._late: list[tuple[Choice, int, np.ndarray, int]] = []

    def choose(self, choice: Choice) -> int:
        return int(self.bandit.ask([choice.user, *choice.context])[0])

    def tell(self, choice: Choice, action: int, y: np.ndarray) -> None:
        """Learn from the steps now, and remember what is known the next morning."""
        seen, number = [choice.user, *choice.context], 0
        if self._decomposed:
            number = self.bandit.tell(action, [y[0], None, None], context=seen)
        else:  # the value isn't known yet
            self.bandit.drop(action, seen)
        self._late.append((choice, action, y, number))

    def morning(self) -> None:
        """Learn from burden and sleep of the day before."""
        for choice, action, y, number in self._late:
            seen = [choice.user, *choice.context]
            self.bandit.tell(action, y, context=seen, number=number or None)
        self._late = []

    def pilot(self, choice: Choice, action: int, y: np.ndarray) -> None:
        self.bandit.tell(action, y, context=[choice.user, *choice.context])


class _Linear:
    """Thompson sampling with a Bayesian linear model of the value, with effects of users or not.

    Pooled, it is IntelligentPooling (Tomkins et al. 2021): normal effects of users around those of
    all, whose variances and the noise have the largest marginal likelihood, found anew every
    morning. Otherwise each user has a model of their own, whose prior is what the pilot users say
    of all users and how they differ. With a factor of beta_t, the largest upper bound is chosen in
    place of a draw's largest value.
    """

    def __init__(self, pooled: bool, rng: np.random.Generator, scale: float | None = None) -> None:
        self._pooled, self._rng, self._scale = pooled, rng, scale
        count = USERS + PILOT
        size = 4 * ACTIONS
        self._squares, self._cross = np.zeros((count, size, size)), np.zeros((count, size))
        self._sums, self._counts = np.zeros(count), np.zeros(count)
        self._late: list[tuple[int, np.ndarray, float]] = []
        self._logs = START
        self._prior: tuple[np.ndarray, np.ndarray] | None = None

    def features(self, choice: Choice, action: int) -> np.ndarray:
        """Return features (16,): the context, and again for each message if it is sent."""
        c = np.array([1.0, *choice.context])
        parts = [c] + [c * (action == a) for a in range(1, ACTIONS)]
        return np.concatenate(parts)

    def choose(self, choice: Choice) -> int:
        rows = np.array([self.features(choice, a) for a in range(ACTIONS)])
        mean, covariance = self._posterior(choice.user)
        if self._scale is not None:
            beta = exploration(int(self._counts.sum()) + 1, points=ACTIONS)
            variances = np.einsum("ai,ij,aj->a", rows, covariance, rows)
            return int(np.argmax(rows @ mean + np.sqrt(self._scale * beta * variances)))
        return int(np.argmax(rows @ self._rng.multivariate_normal(mean, covariance)))

    def tell(self, choice: Choice, action: int, y: np.ndarray) -> None:
        self._late.append((choice.user, self.features(choice, action), float(WEIGHTS @ y)))

    def morning(self) -> None:
        for user, row, value in self._late:
            self._squares[user] += np.outer(row, row)
            self._cross[user] += value * row
            self._sums[user] += value**2
            self._counts[user] += 1
        self._late = []
        if self._pooled or self._prior is None:
            fitted = minimize(self._cost, self._logs, method="L-BFGS-B", options={"maxiter": 20})
            self._logs = fitted.x
        if not self._pooled and self._prior is None:
            _, mean, covariance, own, *_ = self._population(self._logs)
            self._prior = mean, covariance + own

    pilot = tell

    def _population(
        self, logs: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, float]:
        """Return the log likelihood, moments of all users' effects, users' variance, and noise."""
        first = np.arange(4 * ACTIONS) < 4
        base, effect, level, own, noise = np.exp(logs)
        prior, users = np.where(first, base, effect), np.where(first, level, own)
        # Of each user the effects of all are seen with those of the user as noise (Woodbury).
        squares, cross = self._squares / noise, self._cross / noise
        inner = np.diag(1 / users) + squares
        solved = np.linalg.solve(inner, np.concatenate([squares, cross[..., None]], axis=2))
        precision = np.diag(1 / prior) + (squares - squares @ solved[..., :-1]).sum(axis=0)
        total = (cross - (squares @ solved[..., -1:])[..., 0]).sum(axis=0)
        covariance = np.linalg.inv(precision)
        mean = covariance @ total
        fit = self._sums.sum() / noise - np.einsum("ni,ni->", cross, solved[..., -1])
        volume = self._counts.sum() * np.log(noise) + np.linalg.slogdet(inner)[1].sum()
        volume += len(inner) * np.log(users).sum() + np.log(prior).sum()
        volume += np.linalg.slogdet(precision)[1]
        height = -0.5 * float(fit - total @ mean + volume)
        return height, mean, covariance, np.diag(users), float(noise)

    def _cost(self, logs: np.ndarray) -> float:
        # A weak prior keeps variances of which little is known near where they begin.
        return -self._population(logs)[0] + 0.5 * float(((logs - START) ** 2).sum()) / 4

    def _posterior(self, user: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the moments of a user's coefficients."""
        noise = float(np.exp(self._logs[-1]))
        seen = self._squares[user] / noise
        if self._prior is not None:
            mean, prior = self._prior
            precision = np.linalg.inv(prior)
            covariance = np.linalg.inv(precision + seen)
            return covariance @ (precision @ mean + self._cross[user] / noise), covariance
        _, mean, covariance, users, _ = self._population(self._logs)
        # Given the effects of all users, and then over these.
        own = np.linalg.inv(np.linalg.inv(users) + seen)
        keep = np.eye(len(mean)) - own @ seen
        return keep @ mean + own @ self._cross[user] / noise, own + keep @ covariance @ keep.T


class _Fixed:
    """The same action always, or a random one."""

    def __init__(self, action: int | None, rng: np.random.Generator) -> None:
        self._action, self._rng = action, rng

    def choose(self, choice: Choice) -> int:
        return int(self._rng.integers(ACTIONS)) if self._action is None else self._action

    def tell(self, choice: Choice, action: int, y: np.ndarray) -> None:
        pass

    def morning(self) -> None:
        pass

    pilot = tell


@dataclass(frozen=True)
class MessageTask:
    """All policies in one simulated trial.

    Attributes
    ----------
    problem : {"linear", "nonlinear"}
        How effects depend on the context.
    trial, seed : int
    scale : float
        Factor of beta_t.
    """

    problem: Truth
    trial: int
    seed: int
    scale: float = SCALE

    @property
    def title(self) -> str:
        """What is run, for people who wait for it."""
        return f"messages, {self.problem} effects, trial {self.trial + 1}"

    def file(self, out: Path) -> Path:
        """Return the file of the results in the folder of an experiment."""
        return file_of(self, out, self.problem, f"messages-{self.trial:02d}")

    def run(self) -> pd.DataFrame:
        """Return one row for each policy and user.

        Columns are `problem`, `trial`, `policy`, `user`, and means over the user's decisions of
        `regret`, the difference of the value's mean from that of the best action, and of `gain`,
        that from no message.
        """
        key = [self.seed, self.trial, sum(map(ord, self.problem))]
        study = Population(self.problem, np.random.default_rng(key))
        rng = np.random.default_rng([*key, 1])
        pilot = [
            (choice, action, study.means(choice)[action] + NOISES * rng.normal(size=3))
            for choice in study.choices(USERS, PILOT)
            for action in [int(rng.integers(ACTIONS))]
        ]
        values = [[WEIGHTS @ y for _, own, y in pilot if own == a] for a in range(ACTIONS)]
        always = 1 + int(np.argmax([np.mean(own) for own in values[1:]]))
        draws = np.random.default_rng([*key, 2])
        policies: dict[str, Any] = {
            **{t: _BanditPolicy(name, self.trial, self.scale) for t, name in BANDITS.items()},
            "Linear, pooled": _Linear(True, draws),
            "Linear, each user": _Linear(False, draws),
            "Linear, pooled, bound": _Linear(True, draws, self.scale),
            "Always the same": _Fixed(always, draws),
            "Never": _Fixed(0, draws),
            "Random": _Fixed(None, draws),
        }
        parts = []
        for title, policy in policies.items():
            for observed in pilot:
                policy.pilot(*observed)
            policy.morning()
            own = _tried(study, policy, np.random.default_rng([*key, 3]))
            parts.append(own.groupby("user", as_index=False).mean().assign(policy=title))
        return pd.concat(parts).assign(problem=self.problem, trial=self.trial)


def _tried(study: Population, policy: Any, rng: np.random.Generator) -> pd.DataFrame:
    """Return user, regret and gain of each decision of a policy."""
    rows, today = [], 0
    for choice in study.choices(0, USERS):
        if choice.day > today:
            policy.morning()
            today = choice.day
        means = study.means(choice)
        values = means @ WEIGHTS
        action = policy.choose(choice)
        policy.tell(choice, action, means[action] + NOISES * rng.normal(size=3))
        regret, gain = values.max() - values[action], values[action] - values[0]
        rows.append({"user": choice.user, "regret": regret, "gain": gain})
    return pd.DataFrame(rows)
