"""KEM beside ARD on the synthetic study: every row of the table is a run.

Pilot cohorts of 10 users, 6 time steps of 5 points; for every pilot seed, 50 test users of the
same population, each selected for at 5, 10, ..., 30 points and judged by the mean log predictive
density of 200 noisy points of its true function (paper, section 7.1).

    uv run python benchmarks/synthetic_study.py --out kem-out-synthetic
"""

import os

# Matrices are small: threads only get in each other's way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
import time
import warnings
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
from rich.console import Console
from rich.table import Table

import kem_pymc as kem
from kem_pymc.errors import SelectionWarning

STEPS = 6
RULES = [
    ("pilot", "process"),
    ("pilot", "laplace"),
    ("ml", "bic"),
]


def pool() -> kem.CandidatePool:
    return kem.CandidatePool.from_base(["LIN", "PER", "SE"], dimension=1, interactions=True)


def learn(feedback: str, seed: int, options: argparse.Namespace) -> dict:
    """Sample the posterior of one pilot cohort; return evolutions and what they look like."""
    cohort = kem.datasets.synthetic(users=10, time_steps=STEPS, seed=seed)
    model = kem.EvolutionModel(cohort, pool(), priors=kem.priors.synthetic(), feedback=feedback)
    started = time.perf_counter()
    with model:
        idata = pm.sample(
            draws=options.draws,
            tune=options.tune,
            chains=options.chains,
            cores=options.cores,
            random_seed=seed,
            progressbar=False,
            compute_convergence_checks=False,
        )
    seconds = time.perf_counter() - started
    posterior = idata["posterior"]
    inclusion = posterior["inclusion"]
    truth = [model.pool.inclusion(kem.Composition.parse(c)) for c in cohort.truth.compositions]
    last = inclusion.isel(time_step=-1).to_numpy()
    contains = np.mean([last[:, :, u][..., t].all(-1).mean() for u, t in enumerate(truth)])
    share = inclusion.mean(("chain", "draw")).to_numpy()
    with np.errstate(invalid="ignore", divide="ignore"):  # chains that never move
        r_hat = az.rhat(idata, var_names=["n_clusters", "log_joint", "noise", "inclusion"])
    open_question = (share > 0.02) & (share < 0.98)
    return {
        "evolutions": kem.Evolutions.from_posterior(idata),
        "seconds": seconds,
        "contains": contains,
        "pilot_size": inclusion.sum("candidate").mean(("chain", "draw", "user")).to_numpy(),
        "clusters": float(r_hat["n_clusters"]),
        "log joint": float(r_hat["log_joint"]),
        "noise": float(r_hat["noise"].max()),
        "inclusion": float(r_hat["inclusion"].where(open_question).max()),
        "(median)": float(r_hat["inclusion"].where(open_question).median()),
    }


def walk(job: tuple[str, object, int, int, int]) -> list[dict]:
    """Select for one test user at every time step."""
    method, selector, seed, user, users = job
    cohort = kem.datasets.synthetic(users=users, time_steps=STEPS, seed=1000 + seed)
    truth = cohort.truth
    rows, previous = [], None
    for step, end in enumerate(cohort.ends[user]):
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SelectionWarning)
            selection = selector.select(
                cohort.inputs[user][:end], cohort.targets[user][:end], previous
            )
        seconds = time.perf_counter() - started
        density = selection.log_predictive_density(truth.x_test, truth.y_test[user])
        rows.append(
            {
                "method": method,
                "seed": seed,
                "user": user,
                "points": int(end),
                "log_likelihood": float(np.mean(density)),
                "size": len(selection.composition),
                "composition": str(selection.composition),
                "truth": truth.compositions[user],
                "seconds": seconds,
                "time_step": step,
            }
        )
        previous = selection
    return rows


def selectors(learned: dict[str, dict]) -> Iterator[tuple[str, object]]:
    """Yield every method by name."""
    table = kem.priors.synthetic()
    for feedback, result in learned.items():
        for fit, criterion in RULES:
            options = {"priors": table} if fit == "map" else {}
            yield (
                f"KEM {feedback}, {fit}, {criterion}",
                kem.KEMSelector(result["evolutions"], fit=fit, criterion=criterion, **options),
            )
    yield "ARD, ml", kem.ARDSelector(dimension=1, fit="ml")
    yield "ARD, map", kem.ARDSelector(dimension=1, fit="map", priors=table)


def _short(value: float | str) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.2f}" if math.isfinite(value) and value < 100 else "> 100"


def by_points(rows: pd.DataFrame, value: str, digits: int) -> Table:
    """Return a table of means: methods down, numbers of points across."""
    points = sorted(rows["points"].unique())
    table = Table("method", *(f"{p}" for p in points), title=f"{value} by number of points")
    means = rows.groupby(["method", "points"], sort=False)[value].mean().unstack()
    for method, row in means.iterrows():
        table.add_row(str(method), *(f"{row[p]:.{digits}f}" for p in points))
    return table


def gains(rows: pd.DataFrame, method: str, other: str) -> Table:
    """Return the mean gain of a method over another, paired by user, with its standard error."""
    wide = rows.pivot_table(
        index=["seed", "user"], columns=["method", "points"], values="log_likelihood"
    )
    table = Table(
        "points", "mean gain", "standard error", "median gain", title=f"{method} - {other}"
    )
    for points in sorted(rows["points"].unique()):
        gain = wide[method][points] - wide[other][points]
        error = gain.std() / len(gain) ** 0.5
        table.add_row(str(points), f"{gain.mean():.2f}", f"{error:.2f}", f"{gain.median():.2f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--targets", nargs="+", default=["cut", "joint"])
    parser.add_argument("--test-users", type=int, default=50)
    parser.add_argument("--draws", type=int, default=250)
    parser.add_argument("--tune", type=int, default=250)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("kem-out-synthetic"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console(width=max(Console().width, 110))

    frames, pilots = [], []
    for seed in options.seeds:
        learned = {target: learn(target, seed, options) for target in options.targets}
        for target, result in learned.items():
            result["evolutions"].save(options.out / f"evolutions-{target}-{seed}.json")
            pilots.append({"target": target, "seed": seed} | result)
        users = options.test_users
        jobs = [(n, s, seed, u, users) for n, s in selectors(learned) for u in range(users)]
        with Pool(options.cores) as workers:
            done = workers.map(walk, jobs, chunksize=5)
        frames.append(pd.DataFrame([row for rows in done for row in rows]))
        rows = pd.concat(frames)
        rows.to_csv(options.out / "selections.csv", index=False)
        console.rule(f"{len(frames)} of {len(options.seeds)} pilot seeds")
        report(console, rows, pilots)


def report(console: Console, rows: pd.DataFrame, pilots: list[dict]) -> None:
    """Print what the pilot posteriors look like, and how the methods compare."""
    figures = [k for k in pilots[0] if k not in ("evolutions", "pilot_size")]
    title = "pilot posteriors: share of final compositions containing the truth; largest R-hats"
    table = Table(*figures, "size by time step", title=title)
    for pilot in pilots:
        numbers = [_short(v) for k, v in pilot.items() if k in figures]
        table.add_row(*numbers, " ".join(f"{s:.1f}" for s in pilot["pilot_size"]))
    console.print(table)
    console.print(by_points(rows, "log_likelihood", 2))
    console.print(by_points(rows, "size", 2))
    console.print(by_points(rows.assign(milliseconds=1000 * rows["seconds"]), "milliseconds", 1))
    for other in ("ARD, ml", "ARD, map"):
        console.print(gains(rows, "KEM cut, pilot, process", other))


if __name__ == "__main__":
    main()
