"""Where chains sit: their distance in compositions, and modes they don't leave."""

import warnings
from dataclasses import dataclass

import arviz as az
import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from kem_pymc.diagnostics.quantities import Draws

#: Two chains are in different modes if R-hat of their log joint is beyond this ...
APART_RHAT = 1.1

#: ... and their medians are further apart than so many within-chain standard deviations.
APART_GAP = 1.0

#: Interquartile range of a standard normal.
IQR_OF_NORMAL = 1.349


@dataclass(frozen=True)
class Mode:
    """Chains whose log joint densities overlap.

    Attributes
    ----------
    chains : tuple of int
    log_joint : float
        Median over their draws.
    n_clusters : float
        Mean over their draws.
    """

    chains: tuple[int, ...]
    log_joint: float
    n_clusters: float


def composition_distance(draws: Draws) -> np.ndarray:
    """Return how much chains differ in compositions (K, K).

    The sum over candidates of the absolute difference of inclusion probabilities, averaged over
    datasets: 1 means that a dataset's compositions differ by one candidate. On the diagonal stands
    the distance between a chain's halves, which is what the other entries compare with.
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
    """Return the gaps between chains' median log joint densities (K, K), in within-chain sd.

    The sd is that of a normal with the chain's interquartile range, since under the cut target
    single draws fall thousands below the rest; that of a pair is the root mean square. Zero over
    zero counts as zero.
    """
    low, median, high = np.quantile(log_joint, [0.25, 0.5, 0.75], axis=1, method="nearest")
    variance = ((high - low) / IQR_OF_NORMAL) ** 2
    gap = np.abs(median[:, None] - median[None])
    sd = np.sqrt((variance[:, None] + variance[None]) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gap > 0, np.nan_to_num(gap / sd, nan=np.inf), 0.0)


def find_modes(draws: Draws) -> tuple[Mode, ...]:
    """Group chains by the level of their log joint density, the highest level first.

    Two chains are apart if R-hat of the pair's log joint is beyond 1.1 and their levels differ by
    more than one within-chain standard deviation; no mode holds two chains that are apart
    (complete linkage).
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
        own = np.flatnonzero(label == number)
        levels = np.median(draws.log_joint[own]), draws.n_clusters[own].mean()
        modes.append(Mode(tuple(own.tolist()), *map(float, levels)))
    return tuple(sorted(modes, key=lambda mode: -mode.log_joint))


def _pair_rhat(values: np.ndarray) -> float:
    if (values == values[:, :1]).all():
        return 1.0 if values[0, 0] == values[1, 0] else np.inf
    if not np.isfinite(values).all():
        return np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(az.rhat(values))
