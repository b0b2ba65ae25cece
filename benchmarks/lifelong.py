"""Measure lifelong Bayesian optimisation: time, what its settings do, and BoTorch beside it.

    uv run python benchmarks/lifelong.py time
    uv run python benchmarks/lifelong.py sensitivity --out FOLDER
    uv run --extra peers python benchmarks/lifelong.py peers --out FOLDER
    uv run --extra tuning python benchmarks/lifelong.py transfer --out FOLDER

`time` is the CPU time of an acquisition after 200 evaluations with ten networks, with one thread.
`sensitivity` varies the learning rate, the iterations, the scaling of values, and the number of
networks, one at a time, on sequences of Branin functions. `peers` compares with BoTorch's
multi-task Gaussian process on the same functions, with the same first points. `transfer` compares
the default with Gaussian processes, Empirical GPs (Lin et al. 2026), Optuna's TPE and LBO, most of
them with warm starts, and on a few sequences with BoTorch's, on shifted test functions and on
hyperparameters of classifiers on windows of a registry that drifts. Sequences differ from those of
figure lbo-fig2. Results are CSV files, one for each sequence; existing ones
aren't computed again.
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
from unittest import mock

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
    method: str = "lbo",
    *,
    warm_start: bool = False,
    space: dict[str, BaseDistribution] = SPACE,
    evaluations: int = EVALUATIONS,
    **settings: Any,
) -> Run:
    """Return a sampler of the experiments, with settings of LBO."""

    def run(functions: Sequence[Function], seed: int) -> Iterator[list[Point]]:
        own = sampler(method, seed, warm_start=warm_start)
        if settings and isinstance(own, LifelongSampler):
            own.model = LBO(seed=seed, **settings)
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


def standardised(values: np.ndarray) -> np.ndarray:
    """Return values without the transform of Yeo and Johnson."""
    return (values - values.mean()) / max(values.std(), 1e-12)


def with_standardised_values(functions: Sequence[Function], seed: int) -> Iterator[list[Point]]:
    """Run LBO on values that are only standardised."""
    with mock.patch.object(tasks, "normalised", standardised):
        yield from ours()(functions, seed)


def botorch(
    functions: Sequence[Function],
    seed: int,
    ranges: dict[str, BaseDistribution] = SPACE,
    evaluations: int = EVALUATIONS,
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
    own: dict[str, Any] = {"space": family.space, "evaluations": max(AFTER)}
    return {
        "residual (default)": ours("residual", warm_start=True, **own),
        "GP": ours("gp", **own),
        "GP, warm start": ours("gp", warm_start=True, **own),
        "multi-task GP": ours("multitask_gp", **own),
        "Empirical GP, warm start": ours("empirical_gp", warm_start=True, **own),
        "BoTorch MultiTaskGP": partial(botorch, ranges=family.space, evaluations=max(AFTER)),
        "TPE, warm start": tpe(**own),
        "LBO, warm start": ours("lbo", warm_start=True, **own),
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
    parser.add_argument("what", choices=["time", "sensitivity", "peers", "transfer"])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # no line for each study
    if given.what == "time":
        times()
        return
    if given.out is None:
        parser.error("Give a folder as --out.")
    if given.what == "transfer":
        transfer(given.out)
        return
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
