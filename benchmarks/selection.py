"""Time a selection for one user at one time step, and compare with the authors' program.

Selections use the defaults: at most six children of the last composition, at most six other final
compositions of pilot users and the last composition itself are considered, with fits that start
from the values of pilot users' clusters. The time for 30 points is the median over users. More
points are measured for one user, whose time must not grow more than ninefold with twice the points.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import time
import warnings
from typing import Any

import numpy as np
from measure import Row, at_least, at_most

import kem_pymc as kem
from kem_pymc.errors import SelectionWarning

#: Seconds of a selection by the authors' program on a comparable machine, which took 0.85 to 1.69.
AUTHORS = 0.85

USERS, POINTS = 40, 30

#: Numbers of points of a user with many points, and maximum seconds for the last number.
MANY, SECONDS = (120, 500, 1000, 2000), 60.0


def learned() -> kem.Evolutions:
    """Learn evolutions and final compositions from a few draws of the synthetic study."""
    pilot = kem.datasets.synthetic(users=10, seed=0)
    pool = kem.CandidatePool.from_base(["LIN", "PER", "SE"], dimension=1, interactions=True)
    study = pilot, pool, kem.priors.synthetic()
    models = kem.EvolutionModel(*study), kem.final_model(*study, shared=None)
    options: dict[str, Any] = {
        "draws": 100,
        "tune": 100,
        "chains": 1,
        "random_seed": 0,
        "progress": False,
    }
    idata, final = (kem.sample(model, **options) for model in models)
    return kem.Evolutions.from_posterior(idata, final=final)


def typical(selector: kem.KEMSelector) -> list[Row]:
    """Measure a selection and prediction at a later time step, as the median over users."""
    test = kem.datasets.synthetic(users=USERS, seed=1)
    seconds, options = [], []
    for user in range(USERS):
        x, y = test.inputs[user], test.targets[user]
        before = selector.select(x[: POINTS - 5], y[: POINTS - 5])
        started = time.perf_counter()
        selection = selector.select(x[:POINTS], y[:POINTS], previous=before)
        selection.predict(x[:5] + 0.1)
        seconds.append(time.perf_counter() - started)
        options.append(len(selection.considered))
    median = statistics.median(seconds)
    counts = f"{POINTS} points, {statistics.mean(options):.2g} options"
    figure = f"selection and prediction with the defaults, {counts}"
    return [
        at_most(figure, 1e3 * median, 20.0, " ms"),
        at_least("  speed-up over the authors' fastest selection (0.85 s)", AUTHORS / median, 40.0),
    ]


def growing(selector: kem.KEMSelector) -> list[Row]:
    """Measure selections for a user with many points from a wave, a random walk and noise."""
    rng = np.random.default_rng(1)
    most = MANY[-1]
    x = np.sort(rng.uniform(0, most / 5, (most, 1)), axis=0)
    y = 2 * np.sin(2 * np.pi * x[:, 0] / 5) + np.cumsum(rng.normal(0, 0.05, most))
    y += rng.normal(0, 0.7, most)
    before = selector.select(x[:40], y[:40])
    made, last = [], None
    for n in MANY:
        selection = selector.select(x[:n], y[:n], previous=before)
        seconds, options = selection.run_time, len(selection.considered)
        figure = f"  {n} points, {options} options ({seconds:.3g} s)"
        if last is not None:
            doublings = np.log2(n / last[0])
            growth = (seconds / last[1]) ** (1 / doublings)
            made.append(at_most(f"{figure}: growth with twice the points", growth, 9.0))
        last = n, seconds
    return [*made, at_most(f"selection with the defaults, {n} points", seconds, SECONDS, " s")]


def rows() -> list[Row]:
    """Learn from a few draws, then measure selections for new users."""
    selector = kem.KEMSelector(learned())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        return [*typical(selector), *growing(selector)]
