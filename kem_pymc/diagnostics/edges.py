"""Posterior probabilities of the edges of the graph of evolutions, overall and by chain."""

import numpy as np
import pandas as pd
import xarray as xr

from kem_pymc.diagnostics.quantities import Draws, compositions, parents

#: Agreement of chains is assessed with edges that have at least this posterior mean of datasets.
CARRYING = 0.5

#: Probability of intervals.
INTERVAL = 0.9


def edge_table(draws: Draws) -> pd.DataFrame:
    """Return the posterior of every evolution (edge), one per row, those with most datasets first.

    Columns: ``parent``, ``child``; ``datasets``, the posterior mean of n_child; ``occurrence``, the
    fraction of draws that contain the edge; ``probability``, the mean of n_child / (alpha +
    N_parent) over the draws in which the parent has members, as in
    :class:`kem_pymc.evolutions.evolutions.Child`; ``lower`` and ``upper``, its equal-tailed 90 %
    interval; ``chain 0``, ``chain 1``, ..., the probability in each chain, NaN if the parent has no
    members in any of its draws; ``difference``, the largest difference between chains of the mean
    over all draws, in which draws without the parent count as zero, so that edges of rare parents
    can't differ by much.
    """
    code, named = compositions(draws)
    counts, pairs = _counts(code[:, :, draws.present], parents(code)[:, :, draws.present])
    members = counts @ (pairs[:, :1] == pairs[:, 0])
    shares = xr.DataArray(
        counts / (draws.concentration[..., None] + members), dims=("chain", "draw", "edge")
    ).where(members > 0)
    tail = (1 - INTERVAL) / 2
    lower, upper = shares.quantile([tail, 1 - tail], ("chain", "draw")).values
    by_chain = shares.mean("draw").values
    overall = shares.fillna(0).mean("draw").values
    table = pd.DataFrame(
        {
            "parent": [draws.label(named[p]) for p in pairs[:, 0]],
            "child": [draws.label(named[c]) for c in pairs[:, 1]],
            "datasets": counts.mean(axis=(0, 1)),
            "occurrence": (counts > 0).mean(axis=(0, 1)),
            "probability": shares.mean(("chain", "draw")).values,
            "lower": lower,
            "upper": upper,
            **{f"chain {k}": by_chain[k] for k in range(draws.n_chains)},
            "difference": overall.max(axis=0) - overall.min(axis=0),
        }
    )
    return table.sort_values("datasets", ascending=False, kind="stable", ignore_index=True)


def carrying(table: pd.DataFrame) -> pd.DataFrame:
    """Return the edges with at least half a dataset, by which the agreement of chains is judged."""
    return table[table["datasets"] >= CARRYING]


def _counts(child: np.ndarray, parent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of datasets of each edge in each draw (K, S, E), and the edges (E, 2)."""
    chains, draws, _ = child.shape
    pair = np.stack([parent, child], axis=-1).reshape(-1, 2)
    pairs, edge = np.unique(pair, axis=0, return_inverse=True)
    row = np.repeat(np.arange(chains * draws), child.shape[2])
    counts = np.bincount(row * len(pairs) + edge, minlength=chains * draws * len(pairs))
    return counts.reshape(chains, draws, len(pairs)), pairs
