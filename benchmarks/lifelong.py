"""Measure lifelong optimisation: the time of LBO, and the default beside other methods.

    uv run python benchmarks/lifelong.py time
    uv run --extra peers --extra tuning python benchmarks/lifelong.py transfer --out FOLDER

`time` is the CPU time of an acquisition by LBO after 200 evaluations with ten networks, with one
thread. `transfer` compares the default with Gaussian processes, Empirical GPs (Lin et al. 2026),
Optuna's TPE and LBO, most of them with warm starts, and on a few sequences with BoTorch's
multi-task process, on shifted test functions and on hyperparameters of classifiers on windows of a
registry that drifts. Sequences differ from those of figure lbo-fig2. Results are CSV files, one for
each sequence; existing ones aren't computed again.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optuna
import pandas as pd
from measure import at_most
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.study import Study
from rich.console import Console
from rich.table import Table

from experiments.data.branin import RANGES, Branin, branin_sequence
from experiments.data.registry import simulated_registry
from experiments.lifelong.samplers import sampler
from experiments.results import slug
from kem_pymc._system.files import write_atomically
from kem_pymc.lifelong import tasks
from kem_pymc.lifelong.space import Space

SPACE: dict[str, BaseDistribution] = {
    name: FloatDistribution(*ends) for name, ends in RANGES.items()
}

#: Seed of the sequences, which no other experiment has.
SEED = 101

#: Number of evaluations after which an acquisition is timed, and the limit in seconds.
MANY, LIMIT = 200, 3.0

#: Number of points with which a function begins, numbers of evaluations after which methods are
#: compared, and number of sequences of each family.
STARTUP, AFTER, TRANSFERS = 5, (5, 10, 15), 8

#: Number of sequences for methods that take long.
SLOW = {"BoTorch MultiTaskGP": 2, "LBO, warm start": 4}

#: Number of people who enter a simulated registry in a year.
PER_YEAR = 100

#: Families whose functions have a minimum of zero.
KNOWN = ("Branin, noise .1", "Hartmann-6, shifts .04")

#: Constants of the function of Hartmann in six dimensions.
HARTMANN_ALPHA = np.array([1.0, 1.2, 3.0, 3.2])
HARTMANN_A = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
HARTMANN_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


class Point(NamedTuple):
    """One evaluation."""

    value: float
    seconds: float


#: Evaluates a sequence of functions, and returns the evaluations of each of them.
type Run = Callable[[Sequence[Any], int], Iterator[list[Point]]]

#: Returns the value of a point.
type Function = Callable[..., Any]


class Family(NamedTuple):
    """Functions of sequences.

    Attributes
    ----------
    space : dict of str to BaseDistribution
    functions : callable
        Draws a sequence.
    """

    space: dict[str, BaseDistribution]
    functions: Callable[[np.random.Generator], Sequence[Function]]


def ours(
    method: str,
    space: dict[str, BaseDistribution],
    evaluations: int,
    *,
    warm_start: bool = False,
) -> Run:
    """Return a sampler of the experiments."""

    def run(functions: Sequence[Function], seed: int) -> Iterator[list[Point]]:
        own = sampler(method, seed, warm_start=warm_start)
        for function in functions:
            study = optuna.create_study(sampler=own)
            yield [step(study, function, space) for _ in range(evaluations)]

    return run


def tpe(space: dict[str, BaseDistribution], evaluations: int) -> Run:
    """Return Optuna's TPE, which begins with the best points of earlier studies, the last first."""

    def run(functions: Sequence[Function], seed: int) -> Iterator[list[Point]]:
        best: list[dict[str, Any]] = []
        for number, function in enumerate(functions):
            own = optuna.samplers.TPESampler(seed=1000 * seed + number, n_startup_trials=STARTUP)
            study = optuna.create_study(sampler=own)
            for point in reversed(best[-STARTUP:]):
                study.enqueue_trial(point, skip_if_exists=True)
            yield [step(study, function, space) for _ in range(evaluations)]
            best.append(study.best_params)

    return run


def step(study: Study, function: Function, space: dict[str, BaseDistribution]) -> Point:
    """Evaluate the point that the sampler proposes."""
    began = time.process_time()
    trial = study.ask(space)
    seconds = time.process_time() - began
    value = float(function(**trial.params))
    study.tell(trial, value)
    return Point(value, seconds)


def botorch(
    functions: Sequence[Function],
    seed: int,
    ranges: dict[str, BaseDistribution],
    evaluations: int,
) -> Iterator[list[Point]]:
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
    first, space = sampler("random", seed), Space(ranges)
    rows: list[np.ndarray] = []
    values: list[np.ndarray] = []
    unit = torch.zeros(2, len(space.numeric), dtype=torch.double)
    unit[1] = 1.0
    for number, function in enumerate(functions):
        study = optuna.create_study(sampler=first)
        values.append(np.empty(0))
        own: list[np.ndarray] = []
        points = []
        for evaluation in range(evaluations):
            began = time.process_time()
            if evaluation < first.n_startup_trials:
                trial = study.ask(ranges)
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
                row = space.nearest(found.numpy())[0]
            seconds = time.process_time() - began
            value = float(function(**space.decode(row)))
            own.append(row)
            values[-1] = np.append(values[-1], value)
            points.append(Point(value, seconds))
        rows.append(np.array(own))
        yield points


# --- Transfer -------------------------------------------------------------------------------------


def hartmann(**point: float) -> float:
    """Return the function of Hartmann in six dimensions, less its minimum."""
    squares = HARTMANN_A * (np.array(list(point.values())) - HARTMANN_P) ** 2
    return 3.32237 - float(HARTMANN_ALPHA @ np.exp(-squares.sum(axis=1)))


def shifted(function: Function, shift: np.ndarray) -> Function:
    """Return a function that is moved by a shift (D,)."""

    def moved(**point: float) -> float:
        return function(**{name: v - s for (name, v), s in zip(point.items(), shift, strict=True)})

    return moved


def above_minimum(function: Branin) -> Function:
    """Return a function less its minimum."""
    return lambda **point: float(function(**point)) - function.minimum


def windows(model: Callable[..., Any], rng: np.random.Generator) -> list[Function]:
    """Return the losses of a classifier, 1 - AUC by cross-validation, on windows of a registry."""
    from sklearn.model_selection import cross_val_score

    registry = simulated_registry(rng, per_year=PER_YEAR)

    def loss(x: Any, y: Any, **point: Any) -> float:
        return 1.0 - float(cross_val_score(model(**point), x, y, scoring="roc_auc", cv=3).mean())

    return [partial(loss, x, y) for x, y in registry.windows(overlap=2, count=4).values()]


def support_vectors(**point: Any) -> Any:
    """Return a support vector machine."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    return make_pipeline(StandardScaler(), SVC(**point))


def boosting(**point: Any) -> Any:
    """Return gradient boosting."""
    from xgboost import XGBClassifier

    return XGBClassifier(n_jobs=1, random_state=0, **point)


FAMILIES: dict[str, Family] = {
    "Branin, noise .1": Family(
        SPACE, lambda rng: [above_minimum(one) for one in branin_sequence(0.1, 5, rng)]
    ),
    "Hartmann-6, shifts .04": Family(
        {f"x{i}": FloatDistribution(0, 1) for i in range(6)},
        lambda rng: [shifted(hartmann, 0.04 * rng.normal(size=6)) for _ in range(5)],
    ),
    "support vector machine": Family(
        {
            "C": FloatDistribution(1e-2, 1e2, log=True),
            "gamma": FloatDistribution(1e-4, 1.0, log=True),
        },
        partial(windows, support_vectors),
    ),
    "gradient boosting": Family(
        {
            "learning_rate": FloatDistribution(0.005, 0.5, log=True),
            "n_estimators": IntDistribution(5, 100, log=True),
            "max_depth": IntDistribution(1, 8),
            "reg_lambda": FloatDistribution(0.1, 100.0, log=True),
        },
        partial(windows, boosting),
    ),
}


def methods(family: Family) -> dict[str, Run]:
    """Return the methods that are compared on a family."""
    own = family.space, max(AFTER)
    return {
        "residual (default)": ours("residual", *own, warm_start=True),
        "GP": ours("gp", *own),
        "GP, warm start": ours("gp", *own, warm_start=True),
        "multi-task GP": ours("multitask_gp", *own),
        "Empirical GP, warm start": ours("empirical_gp", *own, warm_start=True),
        "TPE, warm start": tpe(*own),
        "LBO, warm start": ours("lbo", *own, warm_start=True),
        "BoTorch MultiTaskGP": partial(botorch, ranges=own[0], evaluations=own[1]),
    }


def transfer(out: Path) -> None:
    """Compare methods on sequences of all families, and print what they lack.

    It is what the best value lies above the minimum or, where that isn't known, above the smallest
    value that any method found: means over all functions but the first, with standard errors over
    sequences.
    """
    for name, family in FAMILIES.items():
        rows = []
        for method, run in methods(family).items():
            for sequence in range(SLOW.get(method, TRANSFERS)):
                file = out / slug(name) / slug(method) / f"sequence-{sequence}.csv"
                if not file.is_file():
                    functions = family.functions(np.random.default_rng([SEED, 1, sequence]))
                    file.parent.mkdir(parents=True, exist_ok=True)
                    found = [
                        {"function": number, "evaluation": i + 1, **point._asdict()}
                        for number, points in enumerate(run(functions, sequence))
                        for i, point in enumerate(points)
                    ]
                    write_atomically(file, pd.DataFrame(found).to_csv(index=False).encode())
                rows.append(pd.read_csv(file).assign(method=method, sequence=sequence))
        every = pd.concat(rows)
        show(f"{name}: up to {TRANSFERS} sequences", lacking(every, name in KNOWN))
        few = every[every["sequence"] < min(SLOW.values())]
        show(f"{name}: the first {min(SLOW.values())}", lacking(few, name in KNOWN))


def lacking(rows: pd.DataFrame, known: bool) -> pd.DataFrame:
    """Return means and standard errors of what methods lack after numbers of evaluations."""
    keys = ["method", "sequence", "function"]
    least = 0.0 if known else rows.groupby(["sequence", "function"])["value"].transform("min")
    rows = rows.assign(lacks=rows.groupby(keys)["value"].cummin() - least)
    later = rows[rows["function"] > 0]
    found = {}
    for count in AFTER:
        own = later[later["evaluation"] == count].groupby(["method", "sequence"], sort=False)
        each = own["lacks"].mean().groupby("method", sort=False)
        error = each.sem().map("{:.4f}".format)
        found[f"after {count}"] = each.mean().map("{:.4f} ± ".format) + error
    asked = later[later["evaluation"] > STARTUP].groupby("method", sort=False)["seconds"]
    return pd.DataFrame(found).assign(**{"CPU s a point": asked.mean().map("{:.3f}".format)})


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
        step(study, function, SPACE)  # compiles
    seconds = [step(study, function, SPACE).seconds for _ in range(5)]
    figure = at_most(
        f"CPU time of an acquisition, n = {MANY}", float(np.median(seconds)), LIMIT, " s"
    )
    show("Time", pd.DataFrame([vars(figure)]).set_index("figure"))


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["time", "transfer"])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # no line for each study
    if given.what == "time":
        times()
    elif given.out is None:
        parser.error("Give a folder as --out.")
    else:
        transfer(given.out)


if __name__ == "__main__":
    main()
