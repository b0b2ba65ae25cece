"""Simulation-based calibration (Talts et al. 2020): ranks of what a model was simulated from.

If parameters come from the prior and targets from the parameters, the rank of a parameter among
independent posterior draws is uniform. Simultaneous bands of the ranks' distribution function are
those of Säilynoja, Bürkner and Vehtari (2022), their level found by simulation.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pymc as pm
import simuk
from matplotlib.figure import Figure
from scipy import stats

Quantity = Callable[[Any], np.ndarray]


def ranks(
    model: pm.Model,
    quantities: Mapping[str, Quantity],
    *,
    simulations: int,
    draws: int,
    thin: int,
    tune: int,
    seed: int,
    **options: Any,
) -> dict[str, np.ndarray]:
    """Return the ranks (simulations,) of scalar quantities among `draws` posterior draws.

    Parameters
    ----------
    quantities : mapping of str to callable
        From a dataset with dimension ``sample`` to values (sample,). Ties are broken at random.
    draws, thin : int
        Only every `thin`-th posterior draw is kept, so that draws are nearly independent.
    **options
        For ``pm.sample``.
    """
    sampling = {"draws": draws * thin, "tune": tune, "chains": 1, "cores": 1}
    sampling |= {"progressbar": False, "compute_convergence_checks": False}
    sbc = simuk.SBC(
        model,
        num_simulations=simulations,
        sample_kwargs={**sampling, **options},
        seed=seed,
        progress_bar=False,
    )
    with np.errstate(over="ignore"):  # of trajectories that diverge, which NUTS notices
        sbc.run_simulations()
    assert len(sbc.posteriors) == simulations  # simuk logs errors and goes on
    rng = np.random.default_rng(seed)
    found: dict[str, list[int]] = {name: [] for name in quantities}
    for i, posterior in enumerate(sbc.posteriors):
        kept = posterior.isel(sample=slice(thin - 1, None, thin))
        truth = sbc.ref_params.isel(sample=[i])
        for name, quantity in quantities.items():
            values, true = np.asarray(quantity(kept)), np.asarray(quantity(truth))[0]
            found[name].append(rank_among(values, float(true), rng))
    return {name: np.array(values) for name, values in found.items()}


def rank_among(values: np.ndarray, true: float, rng: np.random.Generator) -> int:
    """Return the rank of a true value among draws, ties broken at random."""
    ties = int((values == true).sum())
    return int((values < true).sum() + rng.integers(ties + 1))


def counts_below(ranks: np.ndarray, draws: int) -> np.ndarray:
    """Return how many ranks are at most 0, 1, ..., draws - 1."""
    return np.cumsum(np.bincount(ranks, minlength=draws + 1))[:-1]


def _smallest_tail(below: np.ndarray, n: int, draws: int) -> float:
    """Return the smallest two-sided binomial tail probability over the distribution function."""
    p = np.arange(1, draws + 1) / (draws + 1)
    tails = np.minimum(stats.binom.cdf(below, n, p), stats.binom.sf(below - 1, n, p))
    return float(2 * tails.min())


def _smallest_tails_if_uniform(n: int, draws: int, repeats: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    uniform = rng.integers(draws + 1, size=(repeats, n))
    return np.array([_smallest_tail(counts_below(r, draws), n, draws) for r in uniform])


def p_value(ranks: np.ndarray, draws: int, repeats: int = 4000) -> float:
    """Return the probability that uniform ranks leave as narrow a simultaneous band as these."""
    observed = _smallest_tail(counts_below(ranks, draws), len(ranks), draws)
    reference = _smallest_tails_if_uniform(len(ranks), draws, repeats)
    return float((1 + (reference <= observed).sum()) / (1 + repeats))


def rank_picture(ranks: Mapping[str, np.ndarray], draws: int, level: float = 0.95) -> Figure:
    """Draw rank distribution functions minus the uniform one, with simultaneous bands."""
    figure = Figure(figsize=(3 * len(ranks), 2.6), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(ranks), sharey=True))
    uniform = np.arange(1, draws + 1) / (draws + 1)
    for ax, (name, values) in zip(axes, ranks.items(), strict=True):
        n = len(values)
        tail = np.quantile(_smallest_tails_if_uniform(n, draws, 2000), 1 - level)
        lower, upper = (stats.binom.ppf(q, n, uniform) / n for q in (tail / 2, 1 - tail / 2))
        ax.fill_between(uniform, lower - uniform, upper - uniform, step="mid", color="#d6e6f4")
        ax.step(uniform, counts_below(values, draws) / n - uniform, where="mid", color="#0072b2")
        ax.set(title=name, xlabel="rank / draws")
    axes[0].set_ylabel("ECDF minus uniform")
    return figure
