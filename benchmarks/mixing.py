"""Compare the agreement and mixing speed of chains between sets of moves at equal CPU time.

Four chains run for each target and set of moves on the synthetic study: two start sequentially
(datasets are assigned to clusters one after the other), two from the union of short runs on every
user alone. The first half of each chain's time is discarded.

    uv run python benchmarks/mixing.py --seconds 60 --out kem-out-mixing
"""

import os

# Matrices are small, so several threads would only slow each other down.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Literal, NamedTuple

import arviz as az
import numpy as np
import pandas as pd
import xarray as xr
from rich.console import Console
from rich.table import Table

import kem_pymc as kem
from kem_pymc.model.engine import Arrays, Engine
from kem_pymc.model.shared_functions import KnownByUser
from kem_pymc.sampler.moves.sweep import CUT, JOINT, PAPER, Schedule, sweep
from kem_pymc.sampler.moves.sweep import start as start_sequentially
from kem_pymc.sampler.state import MOVES, State

#: Sets of moves by target.
SCHEDULES: dict[str, dict[str, Schedule]] = {
    "cut": {
        "paper's": PAPER,
        "without refits": CUT._replace(seating=3, n_mh=30, refits=0),
        "default": CUT,
    },
    "joint": {
        "without splits of clusters": JOINT._replace(split_merge=0),
        "without extensions": JOINT._replace(extensions=0),
        "with swaps": JOINT._replace(odds=JOINT.odds._replace(swap=0.05)),
        "default": JOINT,
    },
}

#: Inclusion of a candidate in a dataset is uncertain between these probabilities.
OPEN = (0.02, 0.98)

#: Number of sweeps for every user alone, before the users' clusters are combined.
SWEEPS = 20


class Job(NamedTuple):
    """One chain to run."""

    target: Literal["cut", "joint"]
    moves: str
    chain: int
    data_seed: int
    seconds: float


@dataclass
class Chain:
    """Values of one chain after each sweep in the second half of its CPU time."""

    job: Job
    log_density: np.ndarray
    clusters: np.ndarray
    noise: np.ndarray
    inclusion: np.ndarray
    proposed: np.ndarray
    accepted: np.ndarray
    seconds: float


def start_from_users(
    engine: Engine, schedule: Schedule, rng: np.random.Generator, sweeps: int = SWEEPS
) -> State:
    """Return the union of the results of short runs on every user alone, without shared clusters.

    While `start_sequentially` begins with few clusters for many users,
    this state has kernels that fit each user. If some chains start here and others there, they
    agree only if they no longer depend on their starts.
    """
    parts = [_alone(engine, user, schedule, rng, sweeps) for user in range(engine.shape[0])]
    users, steps = engine.shape
    structure, hyperparameters, noise = (
        np.concatenate(arrays) for arrays in zip(*parts, strict=True)
    )
    labels = structure[..., 0]
    structure[..., 0] = np.where(labels >= 0, labels + np.arange(users)[:, None] * steps, -1)
    return engine.load(engine.model, structure, hyperparameters, noise, schedule=schedule)


def engine_alone(engine: Engine, user: int) -> Engine:
    """Return the engine of one user alone, given the user's index."""
    shared = engine.known_by_user
    if shared is not None:
        n = len(engine.cohort.targets[user])
        mean, covariance = shared.mean[[user], :n], shared.covariance[[user], :n, :n]
        factors = shared.factors[[user], :n] if len(shared.factors) else shared.factors
        shared = KnownByUser(mean, np.ascontiguousarray(covariance), factors)
    alone = Engine(
        engine.cohort.subset([engine.cohort.users[user]]),
        *(engine.pool, engine.priors, engine.concentration, engine.likelihood_power),
        *(engine.schedule, engine.sequential, shared),
    )
    alone.prior_table = engine.prior_table
    return alone


def _alone(
    engine: Engine, user: int, schedule: Schedule, rng: np.random.Generator, sweeps: int
) -> Arrays:
    """Return one user's arrays (1, T, ...) after some sweeps without the other users."""
    own = engine_alone(engine, user)
    model = own.at(own.model)
    state = start_sequentially(model, schedule, rng)
    for _ in range(sweeps):
        sweep(model, state, schedule, rng)
    structure, hyperparameters, noise = own.dump(state, model)[:3]
    steps = engine.shape[1]
    return _padded(structure, steps), _padded(hyperparameters, steps), _padded(noise, steps)


def _padded(array: np.ndarray, steps: int) -> np.ndarray:
    """Pad an array (1, t, ...) to (1, T, ...) with the values that stand for missing datasets."""
    absent = -1 if array.dtype.kind == "i" else np.nan
    shape = (1, steps - array.shape[1], *array.shape[2:])
    missing = np.full_like(array, absent, shape=shape)
    if array.dtype.kind == "i":
        missing[..., 1:] = 0  # no candidate is in
    return np.concatenate([array, missing], axis=1)


def engine_of(job: Job) -> Engine:
    """Return the engine of the synthetic study with the job's seed."""
    cohort = kem.datasets.synthetic(users=10, time_steps=6, seed=job.data_seed)
    pool = kem.CandidatePool.from_base(["LIN", "PER", "SE"], dimension=1, interactions=True)
    return kem.EvolutionModel(
        cohort, pool, priors=kem.priors.synthetic(), feedback=job.target, shared=None
    ).engine


def run(job: Job) -> Chain:
    """Run one chain for the job's CPU time."""
    engine = engine_of(job)
    schedule = SCHEDULES[job.target][job.moves]
    rng = np.random.default_rng([job.data_seed, job.chain])
    warm_up = start_sequentially(engine.model, schedule, np.random.default_rng(0))
    sweep(engine.model, warm_up, schedule, np.random.default_rng(0))  # loads the compiled code

    began = time.process_time()
    if job.chain % 2:
        state = start_from_users(engine, schedule, rng)
    else:
        state = start_sequentially(engine.model, schedule, rng)
    rows: list[tuple] = []
    counts = np.array([state.proposed, state.accepted])
    while (spent := time.process_time() - began) < job.seconds:
        sweep(engine.model, state, schedule, rng)
        if spent < job.seconds / 2:
            counts[:] = state.proposed, state.accepted
            continue
        held = state.assignment
        rows.append(
            (
                state.log_density[0],
                state.sizes[0],
                state.log_noise[held].astype(np.float32),
                state.included[held],
            )
        )
    proposed, accepted = np.array([state.proposed, state.accepted]) - counts
    log_density, clusters, noise, inclusion = map(np.array, zip(*rows, strict=True))
    return Chain(job, log_density, clusters, noise, inclusion, proposed, accepted, job.seconds / 2)


def edges(inclusion: np.ndarray, steps: int) -> dict[tuple[bytes, bytes], float]:
    """Return the share of datasets with each evolution, over all draws (draw, N, C)."""
    draws, n, candidates = inclusion.shape
    paths = inclusion.reshape(draws, n // steps, steps, candidates)
    parents = np.zeros_like(paths)
    parents[:, :, 1:] = paths[:, :, :-1]
    both = np.packbits(np.concatenate([parents, paths], -1).reshape(-1, 2 * candidates), axis=1)
    found, counts = np.unique(both, axis=0, return_counts=True)
    total = counts.sum()
    return {row.tobytes(): c / total for row, c in zip(found, counts, strict=True)}


def summarise(chains: list[Chain]) -> dict[str, float | str]:
    """Return the diagnostics of one target and set of moves."""
    shortest = min(len(c.log_density) for c in chains)
    thinned = [np.linspace(0, len(c.log_density) - 1, shortest).astype(int) for c in chains]

    def stacked(name: str) -> np.ndarray:
        return np.stack([getattr(c, name)[keep] for c, keep in zip(chains, thinned, strict=True)])

    inclusion = stacked("inclusion")
    means = inclusion.mean(1)  # (chain, N, C)
    share = means.mean(0)
    is_open = (share > OPEN[0]) & (share < OPEN[1])
    quantities = {
        "log density": stacked("log_density")[..., None],
        "clusters": stacked("clusters")[..., None].astype(float),
        "noise": stacked("noise").astype(float),
        "inclusion": inclusion[:, :, is_open].astype(float),
    }
    data = xr.Dataset({k: (("chain", "draw", k + "_i"), v) for k, v in quantities.items()})
    with np.errstate(invalid="ignore", divide="ignore"):
        r_hat, ess = az.rhat(data), az.ess(data)
    levels = stacked("log_density").mean(1)
    pairs = [(i, j) for i in range(len(chains)) for j in range(i)]
    distance = [np.abs(means[i] - means[j]).sum(-1).mean() for i, j in pairs]
    shares = [edges(c.inclusion, 6) for c in chains]
    known = set().union(*shares)
    seconds = sum(c.seconds for c in chains)
    final = inclusion.reshape(-1, inclusion.shape[2] // 6, 6, inclusion.shape[3])[:, :, -1]
    visited = sum(len(np.unique(final[:, u], axis=0)) for u in range(final.shape[1]))
    accepted = np.sum([c.accepted for c in chains], 0)
    proposed = np.sum([c.proposed for c in chains], 0)
    worst = np.nanmax(r_hat["inclusion"].to_numpy())
    return {
        "target": chains[0].job.target,
        "moves": chains[0].job.moves,
        "sweeps/s": sum(len(c.log_density) for c in chains) / seconds,
        "log density by chain": " ".join(f"{v:.0f}" for v in levels),
        "spread": np.ptp(levels),
        "distance": np.mean(distance),
        "R-hat log density": float(r_hat["log density"].max()),
        "R-hat clusters": float(r_hat["clusters"].max()),
        "R-hat noise": float(r_hat["noise"].max()),
        "R-hat inclusion": worst if np.isfinite(worst) else np.inf,
        "inclusions": int(is_open.sum()),
        "beyond 1.05": int((r_hat["inclusion"] > 1.05).sum()),
        "least ESS": min(float(ess[k].min()) for k in quantities),
        "ESS/s log density": float(ess["log density"].min()) / seconds,
        "ESS/s inclusion (median)": float(ess["inclusion"].median()) / seconds,
        "edge gap": max(
            max(s.get(e, 0) for s in shares) - min(s.get(e, 0) for s in shares) for e in known
        ),
        "final compositions/s": visited / seconds,
        **{f"accepted {m}": a / p for m, a, p in zip(MOVES, accepted, proposed, strict=True) if p},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="CPU seconds per chain")
    parser.add_argument("--seed", type=int, default=0, help="seed of the synthetic study")
    parser.add_argument("--targets", nargs="+", default=list(SCHEDULES))
    parser.add_argument("--moves", nargs="+", help="sets of moves; by default all")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("kem-out-mixing"))
    options = parser.parse_args()
    jobs = [
        Job(target, moves, chain, options.seed, options.seconds)
        for target in options.targets
        for moves in SCHEDULES[target]
        if options.moves is None or moves in options.moves
        for chain in range(options.chains)
    ]
    with get_context("spawn").Pool(options.cores) as workers:
        chains = workers.map(run, jobs, chunksize=1)
    rows = [
        summarise(chains[i : i + options.chains]) for i in range(0, len(chains), options.chains)
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame(rows)
    frame.to_csv(options.out / f"mixing-{options.seed}.csv", index=False)
    report(frame)


def report(frame: pd.DataFrame) -> None:
    """Print the diagnostics, with one column for each target and set of moves."""
    table = Table("", *(f"{t}, {m}" for t, m in zip(frame["target"], frame["moves"], strict=True)))
    for name in frame.columns[2:]:
        cells = [f"{v:.3g}" if isinstance(v, float) else str(v) for v in frame[name]]
        table.add_row(name, *cells)
    Console(width=max(100, Console().width)).print(table)


if __name__ == "__main__":
    main()
