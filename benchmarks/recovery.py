"""Compositions found in simulated cohorts of each family, beside normal cohorts that say as much.

Pilot and new users have a line or a periodic function of the first feature, or a smooth function of
the second, each with the same sd around a common level. The rows of a time step are in the order of
the first feature, so that consecutive rows have similar latent values, as families are learned.
Beside each cohort there are two normal ones with the same latent values. Their targets have known
noise, whose variance is the inverse Fisher information of the family: in the one at the target's
true latent value, in the other on average over all targets, since the first knows nothing where
events are rare, though their absence says that latent values are low. Normal cohorts are scaled by
pilots' true latent values, those of families by what is learned. Evolutions are learned from
the pilots and compositions selected for new users, time step by time step. It prints

- the share of new users whose final composition is the true one, of true components that are found,
  and how many false ones a user has;
- how many next targets and latent values 95 % intervals hold, one time step ahead; of whole numbers
  also by a randomised PIT, of which exact distributions have 95 % inside. Latent values are those
  of the true family, whose unit learned cut points of levels don't have.

    uv run python benchmarks/recovery.py
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import time
import warnings
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import kem_pymc as kem
from kem_pymc.data.datasets.simulate import draw_function
from kem_pymc.data.families import Family
from kem_pymc.data.scaling import Scaling
from kem_pymc.kernels.composition import Composition

#: Compositions of users, in turn.
KINDS = ("LIN0", "PER0", "SE1")

#: Numbers of users, and the share of their points in the first of two time steps.
PILOTS, NEW, FIRST = 9, 12, 0.75

#: Share of outliers, and their sd, in multiples of that of other errors.
OUTLIERS, FAR = 0.05, 10.0


class Setting(NamedTuple):
    """A family with true parameters, the common level and sd of latent values, points, trials."""

    family: Family
    level: float
    sd: float = 1.5
    points: int = 36
    trials: float | None = None


#: Single trials and rare events say little, so they have more points and larger differences.
SETTINGS = {
    "count, 80 % zeros": Setting(Family("count"), -2.66, 2.0, points=60),
    "count, mean 5": Setting(Family("count"), 1.3, 0.8),
    "binary, 5 %": Setting(Family("binary"), -6.94, 4.0, points=100),
    "binary, 50 %": Setting(Family("binary"), 0.0, 2.5, points=60),
    "binomial of 10": Setting(Family("binomial"), -1.0, trials=10.0),
    "ordinal of 5": Setting(Family("ordinal", (1.0, -1.5, -0.5, 0.5, 1.5)), 0.0),
    "positive, shape 2": Setting(Family("positive", (2.0,)), 1.0, 1.0),
    "student, 5 % outliers": Setting(Family("student", (4.0, 0.7)), 0.0),
}


def function(kind: str, sd: float, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a user's function (n,) of features (n, 2) between 0 and 1, with mean 0 and an sd."""
    values = {f"{kind}.amplitude": 1.0}
    if kind == "LIN0":
        values["LIN0.shift"] = rng.normal(0.5, 0.1)
    elif kind == "PER0":
        values |= {
            "PER0.lengthscale": rng.lognormal(0, 0.1),
            "PER0.period": rng.lognormal(-1.5, 0.1),
        }
    elif kind == "SE1":
        values["SE1.lengthscale"] = rng.lognormal(-1.4, 0.1)
    f = draw_function(kind, values, x, rng)
    return sd * (f - f.mean()) / f.std()


def cohorts(
    s: Setting, users: int, rng: np.random.Generator
) -> tuple[dict[str, kem.Cohort], np.ndarray]:
    """Return a cohort of the family, the normal ones beside it, and latent values (users, n)."""
    n, family = s.points, s.family
    x = rng.uniform(size=(users, n, 2))
    for part in np.split(x[:, :, 0], [int(FIRST * n)], axis=1):
        part.sort(axis=1)
    x[:, :, 1] = np.abs((3 * x[:, :, 0] + 2 * x[:, :1, 1]) % 2 - 1)
    g = s.level + np.array([function(KINDS[u % len(KINDS)], s.sd, x[u], rng) for u in range(users)])
    sizes = np.ones(g.shape) if s.trials is None else np.full(g.shape, s.trials)
    error = rng.normal(size=g.shape)
    if family.name == "student":
        far = rng.random(g.shape) < OUTLIERS
        y = g + family.parameters[1] * np.where(far, FAR, 1.0) * rng.normal(size=g.shape)
        information = np.full(g.shape, (1 - OUTLIERS) / family.parameters[1] ** 2)
    else:
        u = rng.random(g.shape)
        every = np.nditer([u, g, sizes])
        y = np.array([family.likelihood.quantile(float(p), v, k) for p, v, k in every]).reshape(
            g.shape
        )
        information = expected_information(family, g, sizes)
    plain = kem.Cohort(
        users=tuple(range(users)),
        inputs=tuple(x),
        targets=tuple(y),
        ends=(np.array([int(FIRST * n), n]),) * users,
        features=("a", "b"),
    )
    out = {"family": replace(plain, sizes=None if s.trials is None else tuple(sizes))}
    for name, each in (("normal", information), ("even", np.full(g.shape, information.mean()))):
        sd = 1 / np.sqrt(each)
        out[name] = replace(plain, targets=tuple(g + sd * error), noise=tuple(sd))
    return out, g


def expected_information(family: Family, g: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the Fisher information of g (...): the derivative of the mean squared, or summed."""
    if family.name == "ordinal":
        each = []
        for level in np.arange(1.0, len(family.parameters) + 1):
            first, _ = family.derivatives(np.full(g.shape, level), g)
            each.append(np.exp(family.log_density(np.full(g.shape, level), g)) * first**2)
        return np.sum(each, axis=0)
    if family.name == "positive":
        return np.full(g.shape, family.parameters[0])
    return family.likelihood.variance(g, sizes)  # of the canonical parameter


class Found(NamedTuple):
    """What was found for new users, each (users,) or (users, targets)."""

    exact: np.ndarray
    sensitivity: np.ndarray
    false: np.ndarray
    target: np.ndarray
    pit: np.ndarray
    latent: np.ndarray


def learned(pilot: kem.Cohort, scaling: Scaling, seed: int, draws: int) -> kem.Evolutions:
    """Learn evolutions and final compositions."""
    pool = kem.CandidatePool.from_base(["LIN", "PER", "SE"], dimension=2)
    model = kem.EvolutionModel(pilot, pool, scaling=scaling)
    options: dict[str, Any] = {
        "draws": draws,
        "tune": draws,
        "chains": 2,
        "cores": 1,
        "progress": False,
    }
    idata, final = (
        kem.sample(m, random_seed=seed, **options)
        for m in (model, kem.final_model(pilot, pool, scaling=scaling))
    )
    return kem.Evolutions.from_posterior(idata, final=final)


def found(
    pilot: kem.Cohort, new: kem.Cohort, g: np.ndarray, scaling: Scaling, seed: int, draws: int
) -> Found:
    """Learn from pilots, and compare selections and predictions for new users with the truth."""
    selector = kem.KEMSelector(learned(pilot, scaling, seed, draws))
    rng, rows = np.random.default_rng(seed), []
    for user in range(new.n_users):
        x, y = new.inputs[user], new.targets[user]
        given = new.given(user)
        previous: Any = None
        inside: list[bool] = []
        pits: list[bool] = []
        latent: list[bool] = []
        for step, n in enumerate(new.ends[user]):
            previous = selector.select(x[:n], y[:n], previous, **new.given(user, n))
            if n == len(y):
                break
            part = slice(n, new.ends[user][step + 1])
            then = {name: values[part] for name, values in given.items()}
            predicted = previous.predict(x[part], include_noise=True, **then)
            low, high = predicted.quantile(0.025), predicted.quantile(0.975)
            inside += [*((low <= y[part]) & (y[part] <= high))]
            pit = predicted.observation.cdf(y[part])
            if new.family is not None and new.family.discrete:
                pit = pit - rng.random(len(pit)) * np.exp(
                    predicted.observation.log_density(y[part])
                )
            pits += [*(np.abs(pit - 0.5) < 0.475)]
            f = predicted.function
            value = replace(f, sd=np.hypot(f.sd, np.sqrt(predicted.noises)))
            low, high = value.quantile(0.025), value.quantile(0.975)
            latent += [*((low <= g[user, part]) & (g[user, part] <= high))]
        true = Composition.parse(KINDS[user % len(KINDS)])
        ours, theirs = {*previous.composition.candidates}, {*true.candidates}
        sensitivity = len(ours & theirs) / len(theirs) if theirs else np.nan
        rows.append((ours == theirs, sensitivity, len(ours - theirs), inside, pits, latent))
    return Found(*(np.array(each, dtype=float) for each in zip(*rows, strict=True)))


def one_cohort(name: str, seed: int, draws: int) -> dict[str, Found]:
    """Return what is found in a cohort of a family, and in the normal one beside it."""
    s = SETTINGS[name]
    parts, g = cohorts(s, PILOTS + NEW, np.random.default_rng(seed))
    pilots, others = range(PILOTS), range(PILOTS, PILOTS + NEW)
    own = parts["family"]
    family = Family.learn(
        s.family.name, own.targets[:PILOTS], None if own.sizes is None else own.sizes[:PILOTS]
    )
    parts["family"] = own = replace(own, family=family)
    scaling, true = Scaling.unit(own.subset(pilots)), g[:PILOTS]
    known = replace(scaling, target_mean=true.mean(), target_sd=true.std(), family=None)
    return {
        kind: found(
            cohort.subset(pilots),
            cohort.subset(others),
            g[PILOTS:],
            scaling if kind == "family" else known,
            seed,
            draws,
        )
        for kind, cohort in parts.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cohorts", type=int, default=8, metavar="N")
    parser.add_argument("--draws", type=int, default=50, metavar="N")
    parser.add_argument("--only", default="", metavar="TEXT", help="families with this in the name")
    parser.add_argument("--json", type=Path, help="file for the results")
    given = parser.parse_args()
    console, every = Console(highlight=False, width=150), {}
    for name in SETTINGS:
        if given.only not in name:
            continue
        began, results = time.process_time(), defaultdict(list)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for seed in range(given.cohorts):
                for kind, result in one_cohort(name, seed, given.draws).items():
                    results[kind].append(result)
        table = Table("", *Found._fields, title=f"{name}: {time.process_time() - began:.0f} s")
        means = {
            kind: np.array([[np.nanmean(part) for part in one] for one in ones])
            for kind, ones in results.items()
        }
        for kind, values in means.items():
            table.add_row(kind, *(f"{v:.3f}" for v in values.mean(axis=0)))
        for kind in ("normal", "even"):
            away = means["family"] - means[kind]
            error = away.std(axis=0, ddof=1) / np.sqrt(len(away)) if len(away) > 1 else 0 * away[0]
            table.add_row(
                f"family - {kind}",
                *(f"{d:+.3f} ± {e:.3f}" for d, e in zip(away.mean(axis=0), error, strict=True)),
            )
        console.print(table)
        every[name] = {kind: values.tolist() for kind, values in means.items()}
        if given.json is not None:
            given.json.write_text(json.dumps(every, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
