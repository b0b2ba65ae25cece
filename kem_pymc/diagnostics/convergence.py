"""R-hat and effective sample sizes of quantities that don't depend on cluster labels."""

import warnings
from typing import TYPE_CHECKING

import arviz as az
import numpy as np
import pandas as pd

from kem_pymc.diagnostics.quantities import Draws, varying

if TYPE_CHECKING:
    from xarray import DataTree

#: Scalar variables that don't depend on cluster labels, with their descriptions.
SCALARS = {"n_clusters": "the number of clusters", "log_joint": "the log joint density"}

#: Chains disagree if R-hat is above this value; means are uncertain if the ESS is below this value.
RHAT, ESS = 1.05, 200

#: Smallest numbers of draws per chain, and of chains, from which agreement can be assessed.
ENOUGH_DRAWS, ENOUGH_CHAINS = 50, 2


def convergence(draws: Draws) -> pd.DataFrame:
    """Return mean, sd, R-hat, bulk and tail effective sample size of every quantity, one per row.

    R-hat is that of Vehtari et al. (2021): rank-normalised, split, the larger of bulk and folded.
    Quantities that are constant within every chain but differ between chains have R-hat infinity
    and ESS NaN; quantities that never change have NaN for both. With a single chain all R-hats are
    NaN, with fewer than 4 draws all R-hats and ESS.

    Parameters
    ----------
    draws : Draws

    Returns
    -------
    DataFrame
        Columns ``quantity``, ``user``, ``time_step``, ``candidate``, ``mean``, ``sd``, ``r_hat``,
        ``ess_bulk`` and ``ess_tail``.
    """
    dataset = varying(draws)
    values = dataset["value"].values
    table = dataset.coords.to_dataset().to_pandas()
    table = table[["quantity", "user", "time_step", "candidate"]].reset_index(drop=True)
    with np.errstate(invalid="ignore"):  # the sd of infinite log densities is NaN
        table["mean"], table["sd"] = values.mean(axis=(0, 1)), values.std(axis=(0, 1))
    constant = (values == values[:, :1]).all(axis=(0, 1))
    if values.shape[1] < 4:
        return table.assign(r_hat=np.nan, ess_bulk=np.nan, ess_tail=np.nan)
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # R-hat of constants is undefined
        r_hat = az.rhat(dataset)["value"].values if draws.n_chains > 1 else np.nan
        bulk, tail = (az.ess(dataset, method=m)["value"].values for m in ("bulk", "tail"))
    table["r_hat"], table["ess_bulk"], table["ess_tail"] = r_hat, bulk, tail
    same = constant & (values[:, 0] == values[0, 0]).all(axis=0)
    table.loc[constant, ["ess_bulk", "ess_tail"]] = np.nan
    table.loc[constant & ~same, "r_hat"] = np.inf
    table.loc[same, "r_hat"] = np.nan
    return table


def scalar_r_hats(idata: "DataTree") -> dict[str, float | None]:
    """Return R-hat of the number of clusters and of the log joint density, by variable name.

    It is None for a single chain, for fewer than 4 draws, and if R-hat isn't finite, e.g. because
    the variable never changes.
    """
    posterior = idata["posterior"].dataset[list(SCALARS)]
    if posterior.sizes["chain"] < 2 or posterior.sizes["draw"] < 4:
        return dict.fromkeys(SCALARS)
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # R-hat of constants is undefined
        r_hat = az.rhat(posterior)
    values = {name: float(r_hat[name]) for name in SCALARS}
    return {name: value if np.isfinite(value) else None for name, value in values.items()}


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise :func:`convergence` by kind of quantity.

    Parameters
    ----------
    table : DataFrame
        From :func:`convergence`.

    Returns
    -------
    DataFrame
        One row per kind: worst and median R-hat and ESS, and the numbers of quantities with R-hat
        above `RHAT` and with ESS below `ESS`.
    """
    rows = []
    for kind, group in table.groupby("quantity", sort=False):
        rows.append(
            {
                "quantity": kind,
                "number": len(group),
                "r_hat_worst": group["r_hat"].max(),
                "r_hat_median": group["r_hat"].median(),
                "r_hat_beyond": int((group["r_hat"] > RHAT).sum()),
                "ess_worst": group[["ess_bulk", "ess_tail"]].min(axis=None),
                "ess_median": group["ess_bulk"].median(),
                "ess_below": int((group[["ess_bulk", "ess_tail"]].min(axis=1) < ESS).sum()),
            }
        )
    return pd.DataFrame(rows).set_index("quantity")
