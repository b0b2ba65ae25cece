"""Run simulation-based calibration of the joint model's sampler, and draw the rank histograms.

Parameters are drawn from the prior and data from the parameters; then the sampler draws from the
posterior. For a correct sampler the rank of a parameter among its draws is uniform (Talts et al.
2020), and at least one bar of a histogram is outside the band with a probability of 5 %. The
program also prints p-values of the ranks' distribution functions, and the power to detect small
errors with this number of replicates.

    uv run python benchmarks/calibration.py --simulations 1000
"""

import os

# Matrices are small, so several threads would only slow each other down.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pymc as pm
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1]))  # to import the calibration code from the tests

from tests.statistical.calibration import p_value
from tests.statistical.test_calibration import EVOLUTION, engine_ranks

#: Number of posterior draws of each replicate, and of sweeps between two draws.
DRAWS, THIN = 19, 15

#: Level of the band of a histogram, and one minus the level of the tests in `power`.
LEVEL = 0.95

#: Errors by name: true mean and sd of a parameter whose posterior has mean 0 and sd 1.
FAULTS = {"mean off by 0.15 sd": (0.15, 1.0), "sd too small by 15 %": (0.0, 1 / 0.85)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--simulations", type=int, default=1000, metavar="N")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--out", type=Path, default=Path("docs/explanation/calibration.png"), metavar="FILE"
    )
    given = parser.parse_args()
    console, began = Console(highlight=False), time.process_time()
    alpha = pm.Gamma.dist(3, 2)
    found = engine_ranks(alpha, False, given.simulations, DRAWS, THIN, given.seed)
    ranks = dict(zip((*EVOLUTION, "concentration"), found.T, strict=True))
    picture(ranks).savefig(given.out, dpi=110)
    for name, values in ranks.items():
        console.print(f"{name}: p = {p_value(values, DRAWS):.2f}")
    for name, fault in FAULTS.items():
        console.print(f"power to detect {name}: {power(given.simulations, *fault):.2f}")
    console.print(f"{time.process_time() - began:.0f} s of CPU time; the figure is in {given.out}")


def picture(ranks: Mapping[str, np.ndarray]) -> Figure:
    """Return a figure with a histogram of ranks for every quantity."""
    figure = Figure(figsize=(2.4 * len(ranks), 2.3), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(ranks), sharey=True))
    for ax, (name, values) in zip(axes, ranks.items(), strict=True):
        _draw(ax, values)
        ax.set_title(f"{name}, p = {p_value(values, DRAWS):.2f}", fontsize="medium")
    axes[0].set_ylabel(f"number of replicates (of {len(values)})")
    return figure


def _draw(ax: Axes, values: np.ndarray) -> None:
    bins = DRAWS + 1
    low, high = band(len(values), bins)
    ax.axhspan(low, high, color="#e69f00", alpha=0.3, zorder=3, linewidth=0)
    ax.axhline(len(values) / bins, color="#1a1a1a", linewidth=0.8, zorder=4)
    ax.bar(range(bins), np.bincount(values, minlength=bins), width=0.9, color="#7fb2d8")
    ax.set(xlabel=f"rank among {DRAWS} draws", xlim=(-0.6, bins - 0.4))
    ax.spines[["top", "right"]].set_visible(False)


def band(n: int, bins: int, repeats: int = 4000) -> tuple[float, float]:
    """Return the counts between which all bars lie with probability `LEVEL` for uniform ranks."""
    counts = np.random.default_rng(0).multinomial(n, np.full(bins, 1 / bins), size=repeats)
    tails = np.minimum(
        stats.binom.cdf(counts, n, 1 / bins), stats.binom.sf(counts - 1, n, 1 / bins)
    )
    tail = np.quantile(tails.min(axis=1), 1 - LEVEL)
    low, high = stats.binom.ppf([tail, 1 - tail], n, 1 / bins)
    return float(low), float(high)


def power(n: int, mean: float, sd: float, repeats: int = 200) -> float:
    """Return the power of a test at 5 % to detect wrong normal posteriors.

    Parameters
    ----------
    n : int
        Number of replicates.
    mean, sd : float
        True mean and sd of a parameter whose posterior has mean 0 and sd 1.
    repeats : int
        Number of simulated tests.
    """
    rng = np.random.default_rng(1)
    below = stats.norm.cdf(rng.normal(mean, sd, size=(repeats, n)))
    ranks = rng.binomial(DRAWS, below)
    return float(np.mean([p_value(own, DRAWS, repeats=400) < 1 - LEVEL for own in ranks]))


if __name__ == "__main__":
    main()
