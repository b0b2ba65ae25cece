"""Time a selection for one user at one time step, and compare with the authors' program.

Selections use the defaults: at most six children of the last composition, at most six other final
compositions of pilot users and the last composition itself are considered, with fits that start
from the values of pilot users' clusters. The time for 30 points is the median over users. More
points are measured for one user, whose time must not grow more than ninefold with twice the points.
Targets of a family are drawn around other users' targets, taken for latent values, and selections
for both run in turns.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from measure import Row, at_least, at_most

import kem_pymc as kem
from kem_pymc.data.families import Family
from kem_pymc.errors import SelectionWarning

#: Seconds of a selection by the authors' program on a comparable machine, which took 0.85 to 1.69.
AUTHORS = 0.85

USERS, POINTS = 40, 30

#: Numbers of points of a user with many points, and maximum seconds for the last number.
MANY, SECONDS = (120, 500, 1000, 2000), 60.0

#: Families, with the mean and unit of latent values; and the largest spread of users' targets, in
#: that unit, for whom counts are of a usual size.
FAMILIES = {
    "count": (Family("count", (), (1.0, 1.0)), 1.0, 0.25),
    "binary": (Family("binary", (), (0.0, 1.5)), 0.0, 0.4),
    "binomial": (Family("binomial", (), (-1.0, 1.0)), -1.0, 0.3),
    "ordinal": (Family("ordinal", (1.0, -1.5, -0.5, 1.0, 2.8), (0.0, 1.0)), 0.0, 0.3),
    "positive": (Family("positive", (2.0,), (1.0, 1.0)), 1.0, 0.3),
    "student": (Family("student", (4.0, 0.3)), 0.0, 0.3),
}
USUAL = 6.0


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


def families(evolutions: kem.Evolutions) -> list[Row]:
    """Measure selections of targets of a family as multiples of those of normal targets."""
    test = kem.datasets.synthetic(users=2 * USERS, seed=1)
    usual = [u for u in range(2 * USERS) if test.targets[u][:POINTS].std() < USUAL]
    made = []
    for name, (family, centre, unit) in FAMILIES.items():
        scaling = replace(evolutions.scaling, target_mean=centre, target_sd=unit, family=family)
        selectors = [kem.KEMSelector(replace(evolutions, scaling=scaling))]
        selectors.append(kem.KEMSelector(evolutions))
        ratios = []
        for user in usual:
            x, latent = test.inputs[user][:POINTS], test.targets[user][:POINTS]
            trials = name == "binomial"
            sizes = np.full(POINTS, 10.0 if trials else 1.0)
            g, u = centre + unit * latent, np.random.default_rng(user).uniform(size=POINTS)
            each = zip(u, g, sizes, strict=True)
            y = np.array([family.quantile(p, v, n) for p, v, n in each], float)
            seconds, few = [], slice(POINTS - 5)
            for selector, values in zip(selectors, (y, latent), strict=True):
                with_sizes = trials and values is y
                known: dict[str, Any] = {"sizes": sizes} if with_sizes else {}
                before: dict[str, Any] = {"sizes": sizes[few]} if with_sizes else {}
                last = selector.select(x[few], values[few], **before)
                started = time.process_time()
                selector.select(x, values, previous=last, **known)
                seconds.append(time.process_time() - started)
            ratios.append(seconds[0] / seconds[1])
        figure = f"  {name}: time of a selection over that of normal targets"
        made.append(at_most(figure, statistics.median(ratios), 2.0))
    return made


def rows() -> list[Row]:
    """Learn from a few draws, then measure selections for new users."""
    evolutions = learned()
    selector = kem.KEMSelector(evolutions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        return [*typical(selector), *families(evolutions), *growing(selector)]
