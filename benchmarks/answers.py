"""Count how often 95 % intervals of answers about targets of a family hold the truth.

Tables have users in two arms, a line for each arm, and levels and lines of users' own. Answers are
the contrast between arms on the latent scale, the standardised difference on the targets' own, and
the sd of users' levels; with `--smooth`, mean curves of arms and their difference, of models with
smooth functions. With `--exact`, the same posterior without pseudo-observations stands beside them:
users' levels and lines are integrated by quadrature, and everything else by importance sampling.

    uv run python benchmarks/answers.py --tables 100 --json FILE
"""

import os

# Matrices are small, so several threads would only slow each other down.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.polynomial.hermite_e import hermegauss
from rich.console import Console
from rich.table import Table
from scipy.special import logsumexp

import kem_pymc as kem
from kem_pymc.data.families import Family
from kem_pymc.population.hyperparameters import NOISE, OWN
from kem_pymc.population.importance import sample
from kem_pymc.population.summaries import quantiles

#: With `--smooth`: amplitude of the shared curve and of the second arm's own, and number of times.
CURVE, TIMES = 0.7, 5


class Setting(NamedTuple):
    """Simulated tables of one family.

    Attributes
    ----------
    family : Family
        With true parameters, which models estimate.
    users, visits : int
    level : float
        Mean latent value of the first arm.
    effect : float
        Difference of the second arm, at the middle of the trial.
    sd, slope, noise : float
        Sds of users' levels, of their lines (of the change over the trial), and of errors.
    """

    family: Family
    users: int
    visits: int
    level: float
    effect: float
    sd: float = 1.0
    slope: float = 0.5
    noise: float = 0.0


CUTS = (1.0, -1.5, -0.5, 0.5, 1.5)
SETTINGS = {
    "binary, effect 2": Setting(Family("binary"), 60, 8, -1.0, 2.0),
    "binary, effect 0": Setting(Family("binary"), 60, 8, 0.0, 0.0),
    "binary, 10 %, effect 1": Setting(Family("binary"), 60, 8, -2.7, 1.0),
    "counts, mean 1, effect 1": Setting(Family("count"), 30, 8, -0.5, 1.0, 0.7, noise=0.3),
    "counts, mean 5, effect 0.5": Setting(Family("count"), 30, 8, 1.4, 0.5, 0.7, noise=0.3),
    "ordinal, effect 1": Setting(Family("ordinal", CUTS), 60, 8, -0.5, 1.0),
}


class Truth:
    """A simulated table and what is true of it."""

    def __init__(self, setting: Setting, rng: np.random.Generator, curve: float = 0.0) -> None:
        s, self.setting, self.curve = setting, setting, curve
        self.arm = rng.permutation(np.arange(s.users) % 2)
        self.user = np.repeat(np.arange(s.users), s.visits)
        visit = np.tile(np.arange(s.visits), s.users)
        self.t = visit / (s.visits - 1) - 0.5
        self.phase = rng.uniform(0, 2 * np.pi, 2)
        level, slope = s.sd * rng.normal(size=s.users), s.slope * rng.normal(size=s.users)
        g = self.mean(self.t, self.arm[self.user]) + level[self.user] + slope[self.user] * self.t
        g += s.noise * rng.normal(size=len(g))
        shares = rng.random(len(g))
        y = np.array([s.family.quantile(p, v) for p, v in zip(shares, g[:, None], strict=True)])[
            :, 0
        ]
        self.table = pd.DataFrame(
            {
                "user": self.user,
                "day": visit * 1.0,
                "arm": np.array(list("ab"))[self.arm[self.user]],
                "y": y,
            }
        )

    def mean(self, t: np.ndarray, arm: np.ndarray | int) -> np.ndarray:
        """Return mean latent values of arms."""
        s = self.setting
        wave = np.sin(2 * np.pi * t + self.phase[0]) + arm * np.sin(2 * np.pi * t + self.phase[1])
        return s.level + s.effect * arm + 0.3 * t + self.curve * wave

    def average(self, t: np.ndarray, arm: int) -> np.ndarray:
        """Return means of targets of an arm over users, on the targets' own scale."""
        s = self.setting
        variance = s.sd**2 + (s.slope * t) ** 2 + s.noise**2
        return s.family.averaged(self.mean(t, arm), variance)

    def cohort(self) -> kem.Cohort:
        return kem.Cohort.from_frame(
            self.table,
            user="user",
            time="day",
            target="y",
            gaps="skip",
            scope="population",
            family=self.setting.family.name,
        )


def exact(model: kem.PopulationModel, draws: int, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    """Return draws (S,) of answers without pseudo-observations, and their weights.

    The model has lines, a level and a line of each user, and the priors of `model`.
    """
    cohort, unit, family = model.original, model.target_sd, model.original.family
    assert family is not None
    rows, y = np.concatenate(cohort.inputs), np.concatenate(cohort.targets)
    shared, own = model.shared(rows), model.personal(rows)
    starts = np.cumsum([0, *map(len, cohort.targets)])[:-1]
    p, names = shared.shape[1], [h.name for h in model.hyperparameters]
    posterior = model.fit(draws=200)
    # Nodes of levels are closer, of which targets say more than of lines.
    (levels, of_levels), (lines, of_lines) = map(hermegauss, (25, 9))
    grid = np.array(np.meshgrid(levels, lines, indexing="ij")).reshape(2, -1)
    log_shares = np.log(np.outer(of_levels / of_levels.sum(), of_lines / of_lines.sum()).ravel())
    errors, of_errors = hermegauss(1 if family.discrete and family.name != "count" else 5)
    of_errors = np.log(of_errors / of_errors.sum())

    def log_density(x: np.ndarray) -> np.ndarray:
        """Return the log density of shared weights, on the latent scale, and coordinates."""
        total = model.log_prior(x[:, p:])
        natural = {**model.named(x[:, p:])}
        for i in np.flatnonzero(np.isfinite(total)):
            one = {name: values[i] for name, values in natural.items()}
            level, line = (one[f"{OWN}{t.name}.sd"] * unit for t in model.personal.terms)
            r = one[next(n for n in names if n.endswith("correlation"))]
            root = np.array([[level, 0], [r * line, line * np.sqrt(1 - r**2)]])
            g = (shared @ x[i, :p])[:, None] + own @ (root @ grid)
            at = g + one[NOISE] * unit * errors[:, None, None]
            of_row = logsumexp(
                family.log_density(y, at.transpose(0, 2, 1)).transpose(0, 2, 1)
                + of_errors[:, None, None],
                axis=0,
            )
            of_user = np.add.reduceat(of_row, starts, axis=0) + log_shares
            total[i] += logsumexp(of_user, axis=1).sum()
        return total

    mean, _ = posterior.moments()
    start = np.concatenate(
        [
            mean * unit,
            [
                posterior.weights @ h.coordinates(posterior.draws[h.name])
                for h in model.hyperparameters
            ],
        ]
    )
    start[0] += model.target_mean
    low = np.concatenate([np.full(p, -np.inf), model.lower_ends])
    found = sample(log_density, start[None, None], low, draws, np.random.default_rng(seed))
    natural = model.named(found.draws[:, p:])
    own_sd = natural[f"{OWN}level.sd"] * unit
    weights = found.draws[:, :p]
    means = []
    for arm in model.shared.category("arm").values:
        x = rows.copy()
        x[:, cohort.features.index("arm")] = arm
        c, z = model.shared(x), model.personal(x)
        line = natural[f"{OWN}day.sd"] * unit
        r = natural[f"{OWN}day.correlation"]
        variance = (own_sd[:, None] * z[:, 0]) ** 2 + (line[:, None] * z[:, 1]) ** 2
        variance += (
            2 * (r * own_sd * line)[:, None] * z[:, 0] * z[:, 1]
            + (natural[NOISE] * unit)[:, None] ** 2
        )
        latent = weights @ c.T
        means.append((latent.mean(axis=1), family.averaged(latent, variance).mean(axis=1)))
    (one, mean_one), (other, mean_other) = means
    answers = {"contrast": other - one, "difference": mean_other - mean_one}
    return answers | {"sd of levels": own_sd}, found.weights


def one_table(setting: Setting, seed: int, smooth: bool, with_exact: bool) -> dict[str, Any]:
    """Return truths, and estimates with their intervals, by name and by way; seconds of the fit."""
    truth = Truth(setting, np.random.default_rng(seed), CURVE if smooth else 0.0)
    shared = ["day", "arm", "s(day)", "s(day):arm"] if smooth else ["day", "arm", "day:arm"]
    began, ways = time.process_time(), {}
    model = kem.PopulationModel(truth.cohort(), shared, ["level", "day"])
    posterior = model.fit()
    seconds = time.process_time() - began
    t = np.linspace(-0.5, 0.5, TIMES) if smooth else truth.t
    one, other = (truth.mean(t, arm) for arm in (0, 1))
    mean_one, mean_other = (truth.average(t, arm) for arm in (0, 1))
    if smooth:
        over = {"day": (t + 0.5) * (setting.visits - 1)}
        true = {"contrast": other - one, "difference": mean_other - mean_one}
        true["mean curve"] = np.concatenate([mean_one, mean_other])
        rows = posterior.comparisons("arm", over=over)
        curves = posterior.predictions("arm", over)
        found = {"mean curve": curves[["mean", "low_95", "high_95"]].to_numpy().T}
    else:
        true = {"contrast": setting.effect, "difference": np.mean(mean_other - mean_one)}
        true |= {"sd of levels": setting.sd}
        rows = posterior.comparisons("arm")
        sd = posterior.draws[f"{OWN}level.sd"] * model.target_sd
        found = {"sd of levels": ends(sd, posterior.weights)}
    found["contrast"] = rows[["estimate", "low_95", "high_95"]].to_numpy().T
    names = ["difference", "difference_low_95", "difference_high_95"]
    ways["ours"] = found | {"difference": rows[names].to_numpy().T}
    if with_exact:
        draws, weights = exact(model, 600, seed)
        ways["exact"] = {name: ends(values, weights) for name, values in draws.items()}
    return {"true": true, "seconds": seconds, "ways": ways}


def ends(draws: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the mean of draws (S,), and the ends of their 95 % interval."""
    return np.append(weights @ draws, quantiles(draws[:, None], weights, (0.025, 0.975))[:, 0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", type=int, default=100, metavar="N")
    parser.add_argument("--only", default="", metavar="TEXT", help="settings with this in the name")
    parser.add_argument("--smooth", action="store_true", help="curves, and smooth functions")
    parser.add_argument("--exact", action="store_true", help="the exact posterior, too")
    parser.add_argument("--json", type=Path, help="file for the intervals")
    given = parser.parse_args()
    console, every = Console(highlight=False, width=150), {}
    for name, setting in SETTINGS.items():
        if given.only not in name:
            continue
        results: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
        seconds = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for seed in range(given.tables):
                one = one_table(setting, seed, given.smooth, given.exact and not given.smooth)
                seconds.append(one["seconds"])
                for way, answers in one["ways"].items():
                    for answer, values in answers.items():
                        rows = np.vstack([*map(np.ravel, values), np.ravel(one["true"][answer])])
                        results[answer, way].append(rows.T)
        out = Table(title=f"{name}: {given.tables} tables, {np.mean(seconds):.2f} s a fit")
        columns = (
            "answer",
            "",
            "coverage",
            "too high",
            "too low",
            "off, in errors",
            "width",
            "truth",
        )
        for column in columns:
            out.add_column(column)
        for (answer, way), found in sorted(results.items()):
            estimate, low, high, true = np.concatenate(found).T
            above, below, error = low > true, high < true, (high - low) / 3.92
            off = np.mean((estimate - true) / error)
            figures = [1 - np.mean(above | below), above.mean(), below.mean(), off]
            figures += [np.mean(high - low), true.mean()]
            out.add_row(answer, way, *(f"{figure:.3f}" for figure in figures))
        console.print(out)
        every[name] = {" ".join(k): np.array(v).tolist() for k, v in results.items()}
        if given.json is not None:
            given.json.write_text(json.dumps(every) + "\n", "utf-8")


if __name__ == "__main__":
    main()
