"""Figure 8: time of a posterior draw against numbers of users, time steps and input dimensions."""

import time

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, ScalarFormatter

import kem_pymc.priors as prior_tables
from kem_pymc.comparison.output import Evidence, Output
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.datasets.simulate import draw_function, draw_hyperparameters
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.plots import style
from kem_pymc.sampler.moves.sweep import CUT, start, sweep

#: Sizes that are varied one at a time, and the typical values of the others.
USERS, STEPS, DIMENSIONS = (3, 6, 12, 24, 48), (2, 4, 6, 8, 10, 20), (2, 5, 10, 20)
TYPICAL = {"users": 9, "steps": 6, "dimension": 2}

#: Number of draws before timing starts, in which the chain settles, and number of timed draws.
SETTLING, DRAWS = 20, 20


def make(evidence: Evidence) -> Output:  # noqa: ARG001  nothing was learned for it
    """Measure the time of a draw while one of the three sizes varies.

    The users are simulated, see :func:`pilot`.
    """
    rows = []
    for what, sizes in (("users", USERS), ("steps", STEPS), ("dimension", DIMENSIONS)):
        for size in sizes:
            seconds = seconds_of(**(TYPICAL | {what: size}))
            rows += [
                {"varied": what, "size": size, "draw": k, "seconds": s}
                for k, s in enumerate(seconds)
            ]
    table = pd.DataFrame(rows)
    return Output(table, _draw(table), {"Growth of the time of a draw": _exponents(table)})


def pilot(users: int, steps: int, dimension: int) -> Cohort:
    """Simulate users of the paper's three types, with batches of 5 points.

    The types are LIN0 + PER0, LIN0 + PER1 and SE1.
    """
    rng = np.random.default_rng(0)
    n = 5 * steps
    inputs, targets = [], []
    for user in range(users):
        x = rng.uniform(0, 20, (n, dimension))
        parts = ((("LIN0", 0), ("PER0", 0)), (("LIN0", 0), ("PER0", 1)), (("SE0", 1),))[user % 3]
        f = np.zeros(n)
        for base, column in parts:
            f += draw_function(base, draw_hyperparameters(base, rng), x[:, column], rng)
        inputs.append(x)
        targets.append(f + np.sqrt(0.5) * rng.normal(size=n))
    return Cohort(
        users=tuple(range(users)),
        inputs=tuple(inputs),
        targets=tuple(targets),
        ends=(np.arange(5, n + 1, 5),) * users,
        features=tuple(f"x{d}" for d in range(dimension)),
    )


def seconds_of(users: int, steps: int, dimension: int) -> list[float]:
    """Return the CPU time of each of `DRAWS` draws, in seconds, after `SETTLING` other draws."""
    pool = CandidatePool.from_base(["LIN", "PER", "SE"], dimension)
    model = EvolutionModel(
        pilot(users, steps, dimension), pool, prior_tables.synthetic(), shared=None
    )
    study, rng = model.engine.model, np.random.default_rng(0)
    state = start(study, CUT, rng)
    seconds = []
    for _ in range(SETTLING + DRAWS):
        began = time.process_time()
        sweep(study, state, CUT, rng)
        seconds.append(time.process_time() - began)
    return seconds[SETTLING:]


def _exponents(table: pd.DataFrame) -> pd.DataFrame:
    medians = table.groupby(["varied", "size"], sort=False)["seconds"].median()
    rows = []
    for what, times in medians.groupby("varied", sort=False):
        sizes = times.index.get_level_values("size").to_numpy(dtype=float)
        slope = np.polyfit(np.log(sizes), np.log(times.to_numpy()), 1)[0]
        rows.append(
            {
                "varied": what,
                "sizes": f"{sizes[0]:.0f} to {sizes[-1]:.0f}",
                "milliseconds": f"{1e3 * times.iloc[0]:.1f} to {1e3 * times.iloc[-1]:.1f}",
                "exponent": f"{slope:.2f}",
            }
        )
    return pd.DataFrame(rows).set_index("varied")


def _draw(table: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(9, 3), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for ax, (what, times) in zip(axes, table.groupby("varied", sort=False), strict=True):
        middle = 1e3 * times.groupby("size")["seconds"].quantile([0.25, 0.5, 0.75]).unstack()
        error = [middle[0.5] - middle[0.25], middle[0.75] - middle[0.5]]
        ax.errorbar(middle.index, middle[0.5], error, fmt="o-", color=style.LINES[0][0])
        ax.set(xscale="log", yscale="log", xlabel=str(what).replace("steps", "time steps"))
        ax.set_xticks(list(middle.index), [str(s) for s in middle.index])
        ax.minorticks_off()
        style.tidy(ax)
    axes[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[0].yaxis.set_major_formatter(ScalarFormatter())
    axes[0].set_ylabel("milliseconds per draw (quartiles)")
    return figure
