"""Count how often 95 % intervals of the population model hold the truth, on simulated tables.

Each setting is a number of users, visits and arms with true effects and variances. Tables differ in
arms of unequal sizes, missing visits, and the shapes of curves. Truths of shared parts are those of
the table's own rows, and variances of users' own parts and of noise are expected ones, as the
documentation of shares says. With three or four visits both models are the same.

    uv run python benchmarks/population.py --tables 500 --jobs 2 --json FILE
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

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
from loky import get_reusable_executor
from rich.console import Console
from rich.table import Table

import kem_pymc as kem
from kem_pymc.errors import SamplingWarning
from kem_pymc.population.design import spectral_root
from kem_pymc.population.likelihood import Scales
from kem_pymc.population.summaries import quantiles
from kem_pymc.population.variances import total, variances

ARMS = "abc"

#: Number of times at which curves are compared with the truth.
TIMES = 5

#: Quantiles of hyperparameters that are compared with those of NUTS.
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Setting(NamedTuple):
    """Simulated tables: sizes of parts are in sds of users' levels, over the whole of the trial.

    Attributes
    ----------
    users, visits, arms : int
    effect : float
        Difference between neighbouring arms, half of which is there from the first visit on.
    slope, own_curve, noise : float
        Sds of users' lines (of the change over the trial), of their curves, and of noise.
    curve : float
        Amplitude of the shared curve; of an arm's own curve a half of it.
    missing : float
        Probability that a visit after the first is missing.
    lines : bool
        Whether the model has lines only, in place of the default terms.
    """

    users: int
    visits: int
    arms: int
    effect: float
    slope: float
    noise: float
    curve: float = 0.0
    own_curve: float = 0.0
    missing: float = 0.15
    lines: bool = True


SETTINGS = {
    "lines, 8 x 4, none": Setting(8, 4, 2, 0.0, 0.6, 0.5),
    "lines, 8 x 12, none": Setting(8, 12, 2, 0.0, 1.0, 1.0),
    "lines, 9 x 6, three arms": Setting(9, 6, 3, 1.0, 0.5, 0.4),
    "lines, 16 x 6, little level": Setting(16, 6, 2, 1.0, 1.0, 3.0),
    "lines, 30 x 3, three arms": Setting(30, 3, 3, 0.5, 1.0, 0.7),
    "lines, 60 x 8, large": Setting(60, 8, 2, 3.0, 1.0, 0.5),
    "default, 8 x 6, none": Setting(8, 6, 2, 0.0, 0.6, 0.5, lines=False),
    "default, 8 x 12, curve": Setting(8, 12, 2, 0.0, 0.8, 0.5, 1.0, lines=False),
    "default, 16 x 8, curves": Setting(16, 8, 2, 1.0, 0.8, 0.5, 1.0, 0.5, lines=False),
    "default, 30 x 6, three arms": Setting(30, 6, 3, 0.5, 0.8, 0.7, 0.7, 0.4, lines=False),
    "default, 60 x 12, large": Setting(60, 12, 2, 2.0, 0.8, 0.5, 1.0, 0.4, lines=False),
}


def kernel(x: np.ndarray, lengthscale: float) -> np.ndarray:
    """Return the squared exponential covariance of values, where the trial has length 2."""
    return np.exp(-((x[:, None] - x) ** 2) / (2 * lengthscale**2))


class Truth:
    """A simulated table and what is true of it."""

    def __init__(self, setting: Setting, rng: np.random.Generator) -> None:
        s = self.setting = setting
        # Twice as many users in the first arm as in the last.
        shares_of_arms = np.linspace(2, 1, s.arms)
        edges = np.round(s.users * np.cumsum(shares_of_arms) / shares_of_arms.sum())
        self.arm = np.searchsorted(edges, np.arange(s.users), side="right")
        visits = np.arange(s.visits) / (s.visits - 1)
        kept = rng.random((s.users, s.visits)) >= s.missing
        kept[:, 0] = True
        kept[kept.sum(axis=1) < 2, -1] = True
        user, visit = np.nonzero(kept)
        self.t, self.user = visits[visit], user
        self.phase, self.quick = rng.uniform(0, 2 * np.pi, 1 + s.arms), rng.uniform(0.8, 1.5)
        self.lengthscale = 0.6
        self.level = rng.normal(size=s.users)
        self.slope = s.slope * rng.normal(size=s.users)
        root = np.linalg.cholesky(kernel(2 * visits, self.lengthscale) + 1e-9 * np.eye(s.visits))
        self.curve = s.own_curve * rng.normal(size=(s.users, s.visits)) @ root.T
        self.middle = self.t.mean()
        y = self.mean(self.t, self.arm[user]) + self.level[user]
        y += self.slope[user] * (self.t - self.middle) + self.curve[user, visit]
        y += s.noise * rng.normal(size=len(y))
        arms = [ARMS[a] for a in self.arm[user]]
        table = pd.DataFrame({"user": user, "day": visit * 1.0, "arm": arms, "y": y})
        self.cohort = kem.Cohort.from_frame(
            table, user="user", time="day", target="y", gaps="skip", scope="population"
        )

    def mean(self, t: np.ndarray, arm: np.ndarray) -> np.ndarray:
        """Return the mean curves of arms."""
        s = self.setting
        wave = np.sin(2 * np.pi * self.quick * t + self.phase[0])
        own = np.sin(2 * np.pi * self.quick * t + self.phase[1 + arm])
        return 5 - t + s.effect * arm * (1 + t) / 2 + s.curve * (wave + own / 2)

    def users(self, visit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return levels and lines of users' own functions over all rows' visits."""
        away = visit - visit.mean()
        level = self.level + self.curve[:, visit].mean(axis=1)
        line = self.slope / (self.setting.visits - 1) + self.curve[:, visit] @ away / (away @ away)
        return level, line

    def shares(self, model: kem.PopulationModel) -> dict[str, float]:
        """Return the shares that the documentation promises, given true functions and sds."""
        s, sd = self.setting, model.target_sd
        rows = np.concatenate(model.cohort.inputs)
        target = (self.mean(self.t, self.arm[self.user]) - model.target_mean) / sd
        weights = np.linalg.lstsq(model.shared(rows), target, rcond=1e-10)[0]
        own = np.zeros(model.personal.size)
        for term, span in zip(model.personal.terms, model.personal.spans(), strict=True):
            if term.smooth:
                own[span] = s.own_curve * spectral_root(np.array(self.lengthscale))
            else:
                own[span] = s.slope * self.t.std() if term.features else 1.0
        every = Scales(
            np.ones((1, len(weights))), np.diag(own / sd)[None], np.array([s.noise / sd])
        )
        nothing = np.zeros((1, len(weights), len(weights)))
        parts, _ = variances(model, every, weights[None], nothing)
        return {name: float((part / total(parts))[0]) for name, part in parts.items()}


def model_of(truth: Truth) -> kem.PopulationModel:
    """Return the model with the terms of the setting."""
    lines = ["day", "arm", "day:arm"], ["level", "day"]
    return kem.PopulationModel(truth.cohort, *(lines if truth.setting.lines else ()))


def one_table(
    setting: Setting, seed: int
) -> tuple[list[tuple[str, float, float, float]], float, float]:
    """Return rows of quantity, truth and interval; k-hat; and seconds of CPU time of the fit."""
    truth = Truth(setting, np.random.default_rng(seed))
    s, cohort = setting, truth.cohort
    began = time.process_time()
    model = model_of(truth)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)
        posterior = model.fit(seed=seed)
    seconds = time.process_time() - began
    rows: list[tuple[str, float, float, float]] = []

    def add(name: str, table: pd.DataFrame, true: Any, prefix: str = "") -> None:
        low, high = table[f"{prefix}low_95"], table[f"{prefix}high_95"]
        rows.extend(zip([name] * len(low), np.atleast_1d(true), low, high, strict=True))

    last, step = float(s.visits - 1), 1e-4
    curves = np.array([truth.mean(truth.t, np.full(len(truth.t), a)) for a in range(s.arms)])
    ends = np.array([truth.mean(np.ones(1), np.array([a]))[0] for a in range(s.arms)])
    pairs = [(a, b) for a in range(s.arms) for b in range(a + 1, s.arms)]
    average = curves.mean(axis=1)
    add("contrast", posterior.comparisons("arm"), [average[b] - average[a] for a, b in pairs])
    at_last = posterior.comparisons("arm", over={"day": [last]})
    add("contrast, last visit", at_last, [ends[b] - ends[a] for a, b in pairs])
    arm = truth.arm[truth.user]
    rise = truth.mean(truth.t + step, arm) - truth.mean(truth.t - step, arm)
    add("slope", posterior.slopes(), rise.mean() / (2 * step * last))
    places = np.linspace(0, 1, TIMES)
    found = posterior.predictions("arm", {"day": places * last})
    true = [truth.mean(places, np.full(TIMES, a)) for a in range(s.arms)]
    add("mean curve", found, np.concatenate(true))
    users = posterior.users().set_index("user").loc[list(cohort.users)].reset_index()
    level, line = truth.users(np.round(truth.t * last).astype(int))
    add("user's level", users, level, "level_")
    add("user's line", users, line, "line_")
    parts = posterior.variance_shares()
    true_shares = truth.shares(model)
    for i, part in enumerate(parts["component"]):
        add(f"share: {part}", parts.iloc[[i]], true_shares[part])
    return rows, posterior.pareto_k, seconds


def summary(results: list) -> dict[str, Any]:
    """Return coverage, and where intervals miss, by quantity; k-hat above .7; and seconds."""
    found = defaultdict(list)
    for rows, _, _ in results:
        for name, true, low, high in rows:
            # An interval that begins at 0 % as it is printed holds the share of an absent part.
            if name.startswith("share") and low < 0.005:
                low = min(low, true)
            found[name].append((true < low, true > high, high - low, true))
    return {
        "coverage": {n: 1 - np.array(v)[:, :2].sum(axis=1).mean() for n, v in found.items()},
        "below": {n: np.array(v)[:, 0].mean() for n, v in found.items()},
        "above": {n: np.array(v)[:, 1].mean() for n, v in found.items()},
        "width": {n: np.array(v)[:, 2].mean() for n, v in found.items()},
        "truth": {n: np.array(v)[:, 3].mean() for n, v in found.items()},
        "k_hat": float(np.mean([k > 0.7 for _, k, _ in results])),
        "seconds": float(np.mean([seconds for *_, seconds in results])),
    }


def against_nuts(setting: Setting, draws: int) -> dict[str, object]:
    """Compare quantiles by importance sampling with those of NUTS, of a setting's first table.

    Returns, for each hyperparameter, the largest difference in sds over quantiles of 5, 25, 50, 75
    and 95 %, and how many Monte Carlo errors the largest one has; and the largest difference of the
    last contrast's estimate and ends in sds. NUTS has four chains of `draws`.
    """
    model = model_of(Truth(setting, np.random.default_rng(0)))
    began = time.process_time()
    how = {"chains": 4, "cores": 1, "target_accept": 0.95, "random_seed": 0, "progressbar": False}
    idata = pm.sample(model=model, draws=draws, **how)
    seconds = time.process_time() - began
    by_nuts, own = model.posterior(idata), model.fit(draws=4 * draws)
    found = {}
    for h in model.hyperparameters:
        nuts = idata["posterior"][h.name].to_numpy()
        mine = quantiles(own.draws[h.name][:, None], own.weights, QUANTILES)[:, 0]
        away = np.abs(np.quantile(nuts, QUANTILES) - mine)
        errors = []
        for level in QUANTILES:
            error = float(az.mcse(nuts, method="quantile", prob=level))
            # That of weighted draws is smaller or larger by the root of effective draws.
            ess = float(az.ess(nuts, method="quantile", prob=level))
            errors.append(error * np.sqrt(1 + ess / own.effective))
        found[h.name] = round(away.max() / nuts.std(), 3), round(float((away / errors).max()), 1)
    one, other = (p.comparisons("arm").iloc[-1] for p in (own, by_nuts))
    ends = ["estimate", "low_95", "high_95"]
    found["contrast"] = round(float((one[ends] - other[ends]).abs().max() / other["sd"]), 3), np.nan
    return {"seconds of NUTS": seconds, "k-hat": own.pareto_k, "effective": own.effective} | found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", type=int, default=500, metavar="N")
    parser.add_argument("--only", metavar="TEXT", default="", help="settings with this in the name")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument(
        "--nuts", type=int, metavar="DRAWS", help="compare one table with NUTS instead"
    )
    given = parser.parse_args()
    console = Console(highlight=False, width=150)
    every = {}
    for name, setting in SETTINGS.items():
        if given.only not in name:
            continue
        if given.nuts:
            console.print(name, against_nuts(setting, given.nuts))
            continue
        pool = get_reusable_executor(given.jobs)
        settings = [setting] * given.tables
        every[name] = summary(list(pool.map(one_table, settings, range(given.tables))))
        out = Table(
            title=f"{name}: k-hat above .7 {every[name]['k_hat']:.3f}, "
            f"{every[name]['seconds']:.2f} s"
        )
        for column in ("quantity", "coverage", "too high", "too low", "width", "truth"):
            out.add_column(column)
        for quantity in every[name]["coverage"]:
            keys = ("coverage", "below", "above", "width", "truth")
            out.add_row(quantity, *(f"{every[name][key][quantity]:.3f}" for key in keys))
        console.print(out)
        if given.json is not None:
            given.json.write_text(json.dumps(every, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
