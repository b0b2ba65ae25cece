"""Screening: a first search on some of many points, whose best kernels begin the search on all.

A fit takes about n^3 operations, so that a search on hundreds of points fits few kernels. Which
kernels are promising is visible on fewer points, chosen at random: regular ones would hide periods
below twice their distance.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kem_pymc.search.evocov.fitting import Fitter
from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.strategies import SELECTED

#: Number of points of a first search, and number above which there is one.
POINTS, MANY = 200, 250

#: Number of kernels of a first search, and its share of the time.
KERNELS, SHARE = 1410, 0.6


def screening(fitter: Fitter) -> Fitter | None:
    """Return the fitter of a first search on some of the points; None if they are few."""
    n = len(fitter.y)
    if n <= MANY:
        return None
    chosen = np.sort(np.random.default_rng([fitter.seed, n]).choice(n, POINTS, replace=False))
    return replace(fitter, x=fitter.x[chosen], y=fitter.y[chosen])


def finalists(individuals: Sequence[Individual], count: int = SELECTED) -> list[Individual]:
    """Return the best different kernels, the one with the smallest BIC first."""
    best: dict[str, Individual] = {}
    for individual in sorted(individuals, key=lambda individual: individual.bic):
        best.setdefault(str(individual.tree), individual)
    return list(best.values())[:count]
