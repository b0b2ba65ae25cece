"""Distances between chains in their compositions, and detection of separate modes."""

import warnings
from dataclasses import dataclass

import arviz as az
import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from kem_pymc.diagnostics.quantities import Draws

#: Two chains are in different modes if R-hat of their log joint is above this value, and
APART_RHAT = 1.1

#: if their medians differ by more than this number of within-chain standard deviations.
APART_GAP = 1.0

#: Interquartile range of a standard normal.
IQR_OF_NORMAL = 1.349


@dataclass(frozen=True)
class Mode:
    """Group of chains whose log joint densities overlap.

    Attributes
    ----------
    chains : tuple of int
        Indices of the chains.
    log_joint : float
        Median of the log joint density over the draws of these chains.
    n_clusters : float
        Mean number of clusters over the draws of these chains.
    """

    chains: tuple[int, ...]
    log_joint: float
    n_clusters: float


def composition_distance(draws: Draws) -> np.ndarray:
    """Return the distances between the compositions of chains (K, K).

    The distance is the sum over candidates of the absolute difference of inclusion probabilities,
    averaged over datasets: 1 means that a dataset's compositions differ by one candidate. The
    diagonal contains the distances between the two halves of each chain, as a reference for the
    other entries.
    """
    here = draws.inclusion[:, :, draws.present].astype(float)
    middle = draws.n_draws // 2
    means = here.mean(axis=1)
    distance = np.abs(means[:, None] - means[None]).sum(axis=-1).mean(axis=-1)
    if middle:
        halves = here[:, :middle].mean(axis=1) - here[:, middle:].mean(axis=1)
        np.fill_diagonal(distance, np.abs(halves).sum(axis=-1).mean(axis=-1))
    return distance


def log_joint_gap(log_joint: np.ndarray) -> np.ndarray:
    """Return the gaps between chains' median log joint densities (K, K), in within-chain sds.

    The sd of a chain is that of a normal distribution with the chain's interquartile range, because
    under the cut target single draws can lie thousands below the others. The sd of a pair is the
    root mean square of both. Zero divided by zero counts as zero.
    """
    low, median, high = np.quantile(log_joint, [0.25, 0.5, 0.75], axis=1, method="nearest")
    variance = ((high - low) / IQR_OF_NORMAL) ** 2
    gap = np.abs(median[:, None] - median[None])
    sd = np.sqrt((variance[:, None] + variance[None]) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gap > 0, np.nan_to_num(gap / sd, nan=np.inf), 0.0)


def find_modes(draws: Draws) -> tuple[Mode, ...]:
    """Group chains by the level of their log joint density, the highest level first.

    Two chains are separated if R-hat of the pair's log joint is above 1.1 and their medians differ
    by more than one within-chain standard deviation. No mode contains two separated chains
    (complete linkage). With fewer than 4 draws there is a single mode.
    """
    chains = draws.n_chains
    label = np.ones(chains, dtype=int)
    if chains > 1 and draws.n_draws >= 4:
        apart = np.minimum(log_joint_gap(draws.log_joint), 1e6)
        for i in range(chains):
            for j in range(i):
                if not _pair_rhat(draws.log_joint[[i, j]]) > APART_RHAT:
                    apart[i, j] = apart[j, i] = 0.0
        label = fcluster(linkage(squareform(apart), "complete"), APART_GAP, "distance")
    modes = []
    for number in np.unique(label):
        members = np.flatnonzero(label == number)
        levels = np.median(draws.log_joint[members]), draws.n_clusters[members].mean()
        modes.append(Mode(tuple(members.tolist()), *map(float, levels)))
    return tuple(sorted(modes, key=lambda mode: -mode.log_joint))


def _pair_rhat(values: np.ndarray) -> float:
    if (values == values[:, :1]).all():
        return 1.0 if values[0, 0] == values[1, 0] else np.inf
    if not np.isfinite(values).all():
        return np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(az.rhat(values))
