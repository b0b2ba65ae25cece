"""Convergence plots: traces and rank plots by ArviZ, and edge probabilities by chain."""

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, cast

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kem_pymc._system.options import check_whole, checked
from kem_pymc.diagnostics.edges import edge_table
from kem_pymc.diagnostics.quantities import Draws
from kem_pymc.errors import InputError
from kem_pymc.kernels.prose import named
from kem_pymc.plots import style

if TYPE_CHECKING:
    from arviz_plots import PlotCollection
    from xarray import DataTree

#: Height of an edge's row in inches.
ROW = 0.3

#: Prefix of the columns of an edge table that belong to chains.
CHAIN = "chain "


@checked
def traces(idata: "DataTree") -> "PlotCollection":
    """Draw traces and rank plots of the log joint density and the number of clusters.

    The plots are ArviZ's, with one colour per chain. A rank plot shows how the ranks of a chain's
    draws among all draws deviate from uniform; black points are the strongest evidence against
    agreement, and p is small where chains differ. The axis of the log joint density leaves out the
    lowest 0.5 % of the draws.

    Parameters
    ----------
    idata : DataTree
        Posterior of an ``EvolutionModel`` with at least 2 chains.

    Returns
    -------
    PlotCollection
        ArviZ's plot collection; its ``savefig`` saves it, and ``viz["figure"].item()`` is the
        matplotlib figure.

    Raises
    ------
    InputError
        If `idata` isn't such a posterior, or there is only one chain.
    """
    import arviz_plots as azp

    draws = Draws.of(idata)
    if draws.n_chains < 2:
        raise InputError(
            "There is only one chain, so chains can't be compared. Sample at least 2 chains."
        )
    values = {
        "log joint": (("chain", "draw"), draws.log_joint),
        "clusters": (("chain", "draw"), draws.n_clusters.astype(float)),
    }
    # ArviZ distinguishes chains by their coordinate.
    coords = {"chain": range(draws.n_chains), "draw": range(draws.n_draws)}
    colours = [colour for colour, _ in _looks(draws.n_chains)]
    drawn = azp.combine_plots(
        xr.DataTree.from_dict({"posterior": xr.Dataset(values, coords=coords)}),
        [(azp.plot_trace, {"color": colours}), (azp.plot_rank, {"color": colours})],
        backend="matplotlib",
        figure_kwargs={"figsize": (8.5, 5.0), "layout": "constrained"},
    )
    figure = cast(Figure, drawn.viz["figure"].item())
    figure.set_layout_engine("constrained", w_pad=0.08)
    low, high = np.quantile(draws.log_joint, [0.005, 1])
    figure.axes[0].set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    handles = [Line2D([], [], color=colour, label=f"chain {k}") for k, colour in enumerate(colours)]
    figure.legend(handles=handles, loc="outside upper center", ncols=8, frameon=False)
    for ax in figure.axes:
        style.tidy(ax)
        for text in ax.texts:  # the p value, which ArviZ puts at the title's position
            text.set(transform=ax.transAxes, position=(1, 0.98), ha="right", va="top")
            text.set(fontsize="small", color=style.MUTED, in_layout=False)
    return drawn


def _looks(chains: int) -> list[tuple[str, str]]:
    """Return the colour and marker of each chain."""
    return [*style.LINES[:-2], *[(style.MUTED, "o")] * chains][:chains]


@checked
def edges_by_chain(idata: "DataTree", *, max_edges: int = 20, ax: Axes | None = None) -> Axes:
    """Draw the probability of each evolution with its 90 % interval, and its mean in each chain.

    Where chains agree, their marks coincide with that of the overall probability. The interval is
    over the draws in which the parent has members; the number next to a bar is the number of pilot
    datasets that follow the edge.

    Parameters
    ----------
    idata : DataTree
        Posterior of an ``EvolutionModel``.
    max_edges : int
        Maximum number of edges; those with the most datasets are drawn.
    ax : Axes, optional
        By default the axes of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    InputError
        If `idata` isn't such a posterior, or `max_edges` is below 1.
    """
    check_whole(1, inf, max_edges=max_edges)
    draws = Draws.of(idata)
    table, features = edge_table(draws).head(max_edges), draws.settings["features"]
    names = [_name(row.parent, row.child, features) for row in table.itertuples()]
    lines = sum(1 + name.count("\n") for name in names)
    wide = max(8.0, 5.0 + max(style.text_size(name, 9)[0] for name in names) / 72)
    ax = style.axes_or_new(ax, wide, ROW * max(len(names), 0.6 * lines) + 0.9)
    y = np.arange(len(table))
    ax.hlines(y, table["lower"], table["upper"], color=style.FAINT, linewidth=7, zorder=1)
    ax.vlines(table["probability"], y - 0.3, y + 0.3, color=style.INK, linewidth=1.5, zorder=2)
    chains = [name for name in table.columns if name.startswith(CHAIN)]
    offsets = np.linspace(-0.2, 0.2, len(chains)) if len(chains) > 1 else [0.0]
    for name, offset, (colour, marker) in zip(chains, offsets, _looks(len(chains)), strict=True):
        ax.scatter(table[name], y + offset, s=16, color=colour, marker=marker, label=name, zorder=3)
    small: style.Style = {"va": "center", "fontsize": "small", "color": style.MUTED}
    texts = ["datasets", *(f"{carried:.1f}" for carried in table["datasets"])]
    for place, text in zip([-0.85, *y], texts, strict=True):
        ax.text(1.02, place, text, transform=ax.get_yaxis_transform(), **small)
    ax.set_yticks(y, names, fontsize="small")
    ax.set(xlim=(-0.02, 1.02), ylim=(len(y) - 0.4, -0.6), xlabel="probability of the evolution")
    style.tidy(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    above: style.Style = {"loc": "lower left", "bbox_to_anchor": (0, 1.01), "borderaxespad": 0}
    ax.legend(ncols=4, frameon=False, fontsize="small", handletextpad=0.1, **above)
    return ax


def _name(parent: str, child: str, features: Sequence[str]) -> str:
    arrow = f"\N{RIGHTWARDS ARROW}{style.NBSP}"
    first, second = (style.balanced(named(label, features), 34) for label in (parent, child))
    if parent == child:
        return f"{first} stays"
    joint = f"{first} {arrow}{second}"
    return joint if len(joint) <= 44 else f"{first}\n{arrow}{second}"
