"""Measure lifelong Bayesian optimisation: time, what its settings do, and BoTorch beside it.

    uv run python benchmarks/lifelong.py time
    uv run python benchmarks/lifelong.py sensitivity --out FOLDER
    uv run --extra peers python benchmarks/lifelong.py peers --out FOLDER

`time` is the CPU time of an acquisition after 200 evaluations with ten networks, with one thread.
`sensitivity` varies the learning rate, the iterations, the scaling of values, and the number of
networks, one at a time, on sequences of Branin functions. `peers` compares with BoTorch's
multi-task Gaussian process on the same functions, with the same first points. Sequences differ from
those of figure lbo-fig2. Results are CSV files, one for each sequence; existing ones
aren't computed again.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import optuna
import pandas as pd
from measure import at_most
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.study import Study
from rich.console import Console
from rich.table import Table

from experiments.data.branin import RANGES, Branin, branin_sequence
from experiments.lifelong.samplers import sampler
from experiments.results import slug
from kem_pymc._system.files import write_atomically
from kem_pymc.lifelong import LifelongSampler, tasks
from kem_pymc.lifelong.lbo import LBO
from kem_pymc.lifelong.space import Space

SPACE: dict[str, BaseDistribution] = {
    name: FloatDistribution(*ends) for name, ends in RANGES.items()
}

#: Standard deviations of parameters, numbers of sequences, functions and evaluations.
NOISES, SEQUENCES, FUNCTIONS, EVALUATIONS = (0.05, 0.5), 4, 5, 30

#: Seed of the sequences, which no other experiment has.
SEED = 101

#: Number of evaluations after which an acquisition is timed, and the limit in seconds.
MANY, LIMIT = 200, 3.0

#: What is varied: the rate of Adam, its iterations, and the number of networks.
SETTINGS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "rate .003": {"rate": 0.003},
    "rate .03": {"rate": 0.03},
    "30 iterations": {"iterations": 30},
    "300 iterations": {"iterations": 300},
    "1 network": {"max_networks": 1},
    "5 networks": {"max_networks": 5},
    "25 networks": {"max_networks": 25},
    "standardised values": {},
}


class Point(NamedTuple):
    """One evaluation."""

    value: float
    seconds: float


#: Evaluates a sequence of functions, and returns the evaluations of each of them.
type Run = Callable[[list[Branin], int], Iterator[list[Point]]]


def ours(method: str = "lbo", *, warm_start: bool = False, **settings: Any) -> Run:
    """Return a sampler of the experiments, with settings of LBO."""

    def run(functions: list[Branin], seed: int) -> Iterator[list[Point]]:
        own = sampler(method, seed, warm_start=warm_start)
        if settings and isinstance(own, LifelongSampler):
            own.model = LBO(seed=seed, **settings)
        for function in functions:
            study = optuna.create_study(sampler=own)
            yield [step(study, function) for _ in range(EVALUATIONS)]

    return run


def step(study: Study, function: Branin) -> Point:
    """Evaluate the point that the sampler proposes."""
    began = time.process_time()
    trial = study.ask(SPACE)
    seconds = time.process_time() - began
    value = float(function(**trial.params))
    study.tell(trial, value)
    return Point(value, seconds)


def standardised(values: np.ndarray) -> np.ndarray:
    """Return values without the transform of Yeo and Johnson."""
    return (values - values.mean()) / max(values.std(), 1e-12)


def with_standardised_values(functions: list[Branin], seed: int) -> Iterator[list[Point]]:
    """Run LBO on values that are only standardised."""
    with mock.patch.object(tasks, "normalised", standardised):
        yield from ours()(functions, seed)


def botorch(functions: list[Branin], seed: int) -> Iterator[list[Point]]:
    """Run BoTorch's multi-task Gaussian process with log expected improvement.

    First points are those of this package. Values are standardised within tasks.
    """
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import MultiTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    first, space = sampler("random", seed), Space(SPACE)
    rows: list[np.ndarray] = []
    values: list[np.ndarray] = []
    unit = torch.zeros(2, len(space.numeric), dtype=torch.double)
    unit[1] = 1.0
    for number, function in enumerate(functions):
        study = optuna.create_study(sampler=first)
        values.append(np.empty(0))
        own: list[np.ndarray] = []
        points = []
        for evaluation in range(EVALUATIONS):
            began = time.process_time()
            if evaluation < first.n_startup_trials:
                trial = study.ask(SPACE)
                study.tell(trial, 0.0)
                row = space.encode([trial.params])[0]
            else:
                every = [*rows, np.array(own)]
                x = np.vstack(
                    [np.column_stack([r, np.full(len(r), i)]) for i, r in enumerate(every)]
                )
                y = np.concatenate([tasks.normalised(v) for v in values])[:, None]
                model = MultiTaskGP(
                    torch.tensor(x), torch.tensor(y), task_feature=-1, output_tasks=[number]
                )
                fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
                best = tasks.normalised(values[-1]).min()
                acquisition = LogExpectedImprovement(model, best_f=best, maximize=False)
                found, _ = optimize_acqf(acquisition, unit, q=1, num_restarts=5, raw_samples=256)
                row = found.numpy()[0]
            seconds = time.process_time() - began
            value = float(function(**space.decode(row)))
            own.append(row)
            values[-1] = np.append(values[-1], value)
            points.append(Point(value, seconds))
        rows.append(np.array(own))
        yield points


def measured(name: str, run: Run, out: Path) -> pd.DataFrame:
    """Return the evaluations of all sequences by a method, from files as far as there are any."""
    found = []
    for noise in NOISES:
        for sequence in range(SEQUENCES):
            file = out / slug(name) / f"noise-{noise:g}-sequence-{sequence}.csv"
            if not file.is_file():
                rows = evaluated(run, noise, sequence).assign(method=name)
                file.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(file, rows.to_csv(index=False).encode())
            found.append(pd.read_csv(file))
    return pd.concat(found)


def evaluated(run: Run, noise: float, sequence: int) -> pd.DataFrame:
    """Return the evaluations of one sequence by a method."""
    rng = np.random.default_rng([SEED, sequence, round(1000 * noise)])
    functions = branin_sequence(noise, FUNCTIONS, rng)
    rows = []
    for number, points in enumerate(run(functions, sequence)):
        best = np.minimum.accumulate([point.value for point in points])
        rows += [
            {
                **{"noise": noise, "sequence": sequence, "function": number, "evaluation": i},
                **{"seconds": point.seconds, "regret": best[i] - functions[number].minimum},
            }
            for i, point in enumerate(points)
        ]
    return pd.DataFrame(rows)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return means and medians of the regret after the last evaluation, and seconds."""
    last = rows[rows["evaluation"] == rows["evaluation"].max()]
    found = {}
    for noise, own in last.groupby("noise"):
        by_method = own.groupby("method", sort=False)["regret"]
        found[f"mean, noise {noise:g}"] = by_method.mean().map("{:.3f}".format)
        found[f"median, noise {noise:g}"] = by_method.median().map("{:.3f}".format)
    found["CPU s a point"] = (
        rows.groupby("method", sort=False)["seconds"].mean().map("{:.2f}".format)
    )
    return pd.DataFrame(found)


def show(title: str, table: pd.DataFrame) -> None:
    """Print a table."""
    printed = Table(title=title)
    for name in [table.index.name or "", *table]:
        printed.add_column(str(name))
    for name, row in table.iterrows():
        printed.add_row(str(name), *map(str, row))
    Console().print(printed)


def times() -> None:
    """Print the time of an acquisition after many evaluations."""
    rng, space = np.random.default_rng(SEED), Space(SPACE)
    own = sampler("lbo", 0)
    for function in branin_sequence(0.1, 2, rng):
        study = optuna.create_study(sampler=own)
        for row in space.draw(MANY, rng):
            point = space.decode(row)
            value = float(function(**point))
            study.add_trial(optuna.create_trial(params=point, distributions=SPACE, value=value))
        step(study, function)  # compiles
    seconds = [step(study, function).seconds for _ in range(5)]
    figure = at_most(
        f"CPU time of an acquisition, n = {MANY}", float(np.median(seconds)), LIMIT, " s"
    )
    show("Time", pd.DataFrame([vars(figure)]).set_index("figure"))


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["time", "sensitivity", "peers"])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # no line for each study
    if given.what == "time":
        times()
        return
    if given.out is None:
        parser.error("Give a folder as --out.")
    runs: dict[str, Run]
    if given.what == "sensitivity":
        runs = {name: ours(**settings) for name, settings in SETTINGS.items()}
        runs["standardised values"] = with_standardised_values
    else:
        runs = {
            "LBO": ours(),
            "warm start": ours("gp", warm_start=True),
            "multi-task GP": ours("multitask_gp"),
            "BoTorch MultiTaskGP": botorch,
            "random": ours("random"),
        }
    found = pd.concat([measured(name, run, given.out) for name, run in runs.items()])
    count = f"{SEQUENCES} sequences of {FUNCTIONS} functions, {EVALUATIONS} evaluations"
    show(f"Smallest value above the minimum: {count}", summary(found))


if __name__ == "__main__":
    main()
