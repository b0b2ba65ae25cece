"""Whether chains agree: R-hat and effective sample sizes, and chains that stay in other modes."""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import arviz as az
import numpy as np
import pandas as pd
import xarray as xr
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from kem_pymc.diagnostics.quantities import Draws, varying

if TYPE_CHECKING:
    from xarray import DataTree

#: Scalar variables that don't depend on cluster labels, with their descriptions.
SCALARS = {"n_clusters": "the number of clusters", "log_joint": "the log joint density"}

#: Chains disagree if R-hat is above this value; means are uncertain if the ESS is below this value.
RHAT, ESS = 1.05, 200

#: Smallest numbers of draws per chain, and of chains, from which agreement can be assessed.
ENOUGH_DRAWS, ENOUGH_CHAINS = 50, 2

#: Two chains are in different modes if the medians of their log joint density differ by more than
#: this number of within-chain standard deviations.
APART = 1.0

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


def convergence(draws: Draws) -> pd.DataFrame:
    """Return what :func:`measures` says of every quantity of draws, one per row.

    Parameters
    ----------
    draws : Draws

    Returns
    -------
    DataFrame
        Columns ``quantity``, ``user``, ``time_step``, ``candidate``, and those of :func:`measures`.
    """
    dataset = varying(draws)
    table = dataset.coords.to_dataset().to_pandas()
    table = table[["quantity", "user", "time_step", "candidate"]].reset_index(drop=True)
    return table.join(measures(dataset["value"].values))


def measures(values: np.ndarray) -> pd.DataFrame:
    """Return mean, sd, R-hat, bulk and tail effective sample size of quantities, one per row.

    R-hat is that of Vehtari et al. (2021): rank-normalised, split, the larger of bulk and folded.
    Quantities that are constant within every chain but differ between chains have R-hat infinity
    and ESS NaN; quantities that never change have NaN for both. With a single chain all R-hats are
    NaN, with fewer than 4 draws all R-hats and ESS.

    Parameters
    ----------
    values : ndarray, shape (chains, draws, quantities)

    Returns
    -------
    DataFrame
        Columns ``mean``, ``sd``, ``r_hat``, ``ess_bulk`` and ``ess_tail``.
    """
    dataset = xr.Dataset({"value": (("chain", "draw", "column"), values)})
    constant = (values == values[:, :1]).all(axis=(0, 1))
    with warnings.catch_warnings(), np.errstate(all="ignore"):  # of constants and infinite values
        warnings.simplefilter("ignore", RuntimeWarning)
        table = pd.DataFrame({"mean": values.mean(axis=(0, 1)), "sd": values.std(axis=(0, 1))})
        r_hat = az.rhat(dataset)["value"].values
        apart = constant & np.isfinite(r_hat)  # large, but for rounding infinite
        table["r_hat"] = np.where(apart, np.inf, r_hat)
        for kind in ("bulk", "tail"):
            ess = az.ess(dataset, method=kind)["value"].values
            table[f"ess_{kind}"] = np.where(constant, np.nan, ess)
    return table


def scalar_r_hats(idata: "DataTree") -> dict[str, float]:
    """Return R-hat of the number of clusters and of the log joint density, by variable name.

    A variable is left out if its R-hat isn't finite: with a single chain or fewer than 4 draws, or
    because it never changes.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # R-hat of constants is undefined
        r_hat = az.rhat(idata["posterior"].dataset[list(SCALARS)])
    return {name: float(r_hat[name]) for name in SCALARS if np.isfinite(r_hat[name])}


def find_modes(draws: Draws) -> tuple[Mode, ...]:
    """Group chains by the level of their log joint density, the highest level first.

    Two chains are separated if their medians differ by more than one within-chain standard
    deviation: the root mean square of both chains' interquartile ranges, in units of that of a
    standard normal distribution, because under the cut target single draws can lie thousands below
    the others. No mode contains two separated chains (complete linkage). With fewer than 4 draws
    there is a single mode.
    """
    label = np.ones(draws.n_chains, dtype=int)
    if draws.n_chains > 1 and draws.n_draws >= 4:
        low, median, high = np.quantile(
            draws.log_joint, [0.25, 0.5, 0.75], axis=1, method="nearest"
        )
        variance = ((high - low) / IQR_OF_NORMAL) ** 2
        gap = np.abs(median[:, None] - median)
        with np.errstate(divide="ignore", invalid="ignore"):  # of chains that never move
            gap = np.where(gap > 0, gap / np.sqrt((variance[:, None] + variance) / 2), 0.0)
        gap = np.nan_to_num(gap, nan=1e6, posinf=1e6)
        label = fcluster(linkage(squareform(gap), "complete"), APART, "distance")
    modes = []
    for number in np.unique(label):
        members = np.flatnonzero(label == number)
        levels = np.median(draws.log_joint[members]), draws.n_clusters[members].mean()
        modes.append(Mode(tuple(members.tolist()), *map(float, levels)))
    return tuple(sorted(modes, key=lambda mode: -mode.log_joint))
