"""Single steps of moves that are always accepted: from the exact conditional, and reversed."""

import numpy as np
from scipy import stats

#: Bins of equal probability.
BINS = 20


def inverse(grid: np.ndarray, log_density: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the quantiles of the distribution whose log density is given on a fine grid."""
    return np.interp(shares, _cumulative(grid, log_density), grid)


def _cumulative(grid: np.ndarray, log_density: np.ndarray) -> np.ndarray:
    density = np.exp(log_density - log_density.max())
    steps = 0.5 * (density[1:] + density[:-1]) * np.diff(grid)
    total = np.concatenate([[0.0], np.cumsum(steps)])
    return total / total[-1]


def _bins(grid: np.ndarray, log_density: np.ndarray, draws: np.ndarray, n: int) -> np.ndarray:
    shares = np.interp(draws, grid, _cumulative(grid, log_density))
    return np.minimum((n * shares).astype(int), n - 1)


def stationary(grid: np.ndarray, log_density: np.ndarray, ends: np.ndarray) -> float:
    """Return the p value of the ends of steps from independent draws of the distribution.

    With 40,000 steps a shift by 3 % of the standard deviation gives less than 1e-3, as a rule.
    """
    counts = np.bincount(_bins(grid, log_density, ends, BINS), minlength=BINS)
    return float(stats.chisquare(counts).pvalue)


def reversible(
    grid: np.ndarray, log_density: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> float:
    """Return the p value of steps being as frequent from one bin to another as back (Bowker)."""
    n = BINS // 2
    table = np.zeros((n, n))
    pair = (_bins(grid, log_density, draws, n) for draws in (starts, ends))
    np.add.at(table, tuple(pair), 1)
    there, back = table[np.triu_indices(n, 1)], table.T[np.triu_indices(n, 1)]
    enough = there + back > 20
    square = ((there - back) ** 2 / np.maximum(there + back, 1))[enough].sum()
    return float(stats.chi2(enough.sum()).sf(square))
