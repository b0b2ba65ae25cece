"""Measure how the time of a sweep for `cut` grows with the size of a study.

The paper's figure 8 shows this for the authors' program. One size at a time changes while the
others stay fixed. The exponent is the slope of log seconds on log size. The time of a sweep depends
on the state of its chain, so every size is measured after a warm-up of the chain.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

import numpy as np
from measure import Row, at_most

import kem_pymc as kem
from kem_pymc.sampler.moves.sweep import CUT, start, sweep


class Size(NamedTuple):
    """Size of a study; the `points` of each user arrive in `steps` equal parts.

    Candidates enter with the paper's prior probabilities, .1 and .02; with `entering` these are
    rescaled so that their sum, the expected number of candidates that enter, is `entering`.
    """

    users: int = 10
    steps: int = 6
    points: int = 30
    dimension: int = 2
    candidates: int = 20
    entering: float | None = None


#: Kinds of growth by name: sizes of studies, numbers that grow, and largest exponent allowed.
GROWTH: dict[str, tuple[list[Size], list[int], float]] = {
    "users": ([Size(users=n) for n in (10, 30, 100, 300, 1000)], [10, 30, 100, 300, 1000], 1.1),
    "time steps of 5 points": (
        [Size(steps=n, points=5 * n) for n in (2, 5, 10, 20, 40)],
        [2, 5, 10, 20, 40],
        3.0,
    ),
    "time steps of 60 points in all": (
        [Size(steps=n, points=60) for n in (2, 5, 10, 20, 30)],
        [2, 5, 10, 20, 30],
        1.1,
    ),
    "input dimension": ([Size(dimension=n) for n in (1, 2, 5, 10, 20)], [1, 2, 5, 10, 20], 0.3),
    "candidates, one of which is expected to enter": (
        [Size(dimension=6, candidates=n, entering=1.0) for n in (8, 20, 50, 100, 200)],
        [8, 20, 50, 100, 200],
        0.3,
    ),
    "candidates, more of which enter": (
        [Size(dimension=6, candidates=n) for n in (8, 20, 50, 100, 200)],
        [8, 20, 50, 100, 200],
        0.3,
    ),
}

#: Number of warm-up sweeps, maximum seconds for them; minimum seconds and sweeps to measure.
SETTLING, LONGEST, SECONDS, FEWEST = 20, 20.0, 2.0, 5


def cohort_of(size: Size) -> kem.Cohort:
    """Simulate users of two kinds: linear plus periodic, or smooth."""
    rng = np.random.default_rng(0)
    inputs, targets = [], []
    for user in range(size.users):
        x = rng.uniform(-2, 2, (size.points, size.dimension))
        last = x[:, -1]
        f = x[:, 0] + np.sin(4 * last) if user % 2 else np.exp(-((last - 0.5) ** 2))
        inputs.append(x)
        targets.append(f - f.mean() + 0.4 * rng.normal(size=size.points))
    ends = np.linspace(size.points / size.steps, size.points, size.steps).round().astype(int)
    features = tuple(f"x{d}" for d in range(size.dimension))
    users, all_ends = tuple(range(size.users)), (ends,) * size.users
    return kem.Cohort(users, tuple(inputs), tuple(targets), all_ends, features)


def pool_of(size: Size) -> kem.CandidatePool:
    """Return a pool of `size.candidates`: base kernels in all dimensions, then products of two."""
    bases = ("LIN", "PER", "SE", "RQ", "MATERN32", "MATERN52")
    turns, dimensions = range(len(bases)), range(size.dimension)
    single = [f"{bases[(turn + d) % len(bases)]}{d}" for turn in turns for d in dimensions]
    products = [f"{a} x {b}" for k, a in enumerate(single) for b in single[k + 1 :]]
    return kem.CandidatePool([*single, *products][: size.candidates], size.dimension)


def priors_of(size: Size, pool: kem.CandidatePool) -> kem.priors.Priors:
    """Return the paper's priors, with the size's expected number of entering candidates."""
    priors = kem.priors.paper()
    if size.entering is None:
        return priors
    share = size.entering / sum(priors.entering(candidate) for candidate in pool)
    return priors.replace(enter={name: share * p for name, p in priors.enter.items()})


def seconds_of(size: Size) -> float:
    """Return the median CPU seconds of a sweep."""
    pool = pool_of(size)
    engine = kem.EvolutionModel(
        cohort_of(size), pool, priors=priors_of(size, pool), shared=None
    ).engine
    rng = np.random.default_rng(0)
    state = start(engine.model, CUT, rng)
    began = time.process_time()
    for _ in range(SETTLING):
        sweep(engine.model, state, CUT, rng)
        if time.process_time() - began > LONGEST:
            break
    times: list[float] = []
    while sum(times) < SECONDS or len(times) < FEWEST:
        began = time.process_time()
        sweep(engine.model, state, CUT, rng)
        times.append(time.process_time() - began)
    return float(np.median(times))


def measured(name: str) -> tuple[list[int], list[float], float]:
    """Return sizes, seconds per sweep and the exponent of one kind of growth."""
    sizes, numbers, _ = GROWTH[name]
    seconds = [seconds_of(size) for size in sizes]
    exponent = float(np.polyfit(np.log(numbers), np.log(seconds), 1)[0])
    return numbers, seconds, exponent


def rows(picture: Path) -> list[Row]:
    """Measure every kind of growth, and draw the results."""
    results = {name: measured(name) for name in GROWTH}
    draw(results, picture)
    out = []
    for name, (numbers, seconds, exponent) in results.items():
        span = (
            f"{numbers[0]} to {numbers[-1]}: {1e3 * seconds[0]:.3g} to {1e3 * seconds[-1]:.3g} ms"
        )
        out.append(at_most(f"exponent, {name} ({span})", exponent, GROWTH[name][2]))
    return out


def draw(results: dict[str, tuple[list[int], list[float], float]], file: Path) -> None:
    """Draw seconds against size, in one panel for every kind of growth."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullLocator

    size = 2.7 * len(results), 2.8
    figure, axes = plt.subplots(1, len(results), figsize=size, sharey=True, layout="constrained")
    for ax, (name, (numbers, seconds, exponent)) in zip(axes, results.items(), strict=True):
        ax.plot(numbers, seconds, "o-", color="#2b6c8f")
        ax.set(xscale="log", yscale="log", title=f"exponent {exponent:.2f}")
        ax.set_xlabel(fill(name, 26))
        ax.set_xticks(numbers, [f"{n}" for n in numbers])
        ax.xaxis.set_minor_locator(NullLocator())
    axes[0].set_ylabel("CPU seconds per sweep")
    figure.savefig(file, dpi=150)
    plt.close(figure)
