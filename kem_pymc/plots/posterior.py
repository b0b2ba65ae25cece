"""Plots of posterior inclusion probabilities of candidates, and of co-clustering of datasets."""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from kem_pymc.diagnostics.quantities import Draws
from kem_pymc.diagnostics.representative import shared_clusters
from kem_pymc.errors import InputError
from kem_pymc.plots import style
from kem_pymc.plots.draws import candidate_labels, inclusion_shares

if TYPE_CHECKING:
    from xarray import DataArray, DataTree

#: Colour scale of probabilities.
LIMITS: style.Style = {"cmap": style.SHADES, "vmin": 0, "vmax": 1}

#: Maximum number of columns of a table into whose cells numbers are written.
WRITTEN = 12

#: Maximum number of datasets for which each has its own, still readable, tick.
TICKED = 40

ORDERS = ("time_step", "user", "similarity")


def inclusion(
    idata: "DataTree",
    user: Hashable | None = None,
    *,
    minimum: float = 0.01,
    max_candidates: int = 30,
    features: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw the posterior inclusion probability of each candidate, by time step.

    Parameters
    ----------
    idata : DataTree
        Posterior of an ``EvolutionModel``.
    user : label, optional
        User whose probabilities are drawn; by default the mean over the users that have the time
        step.
    minimum : float
        Candidates that are less probable at every time step aren't drawn; a note below the axes
        gives their number.
    max_candidates : int
        Maximum number of candidates; the most probable ones are drawn.
    features : bool
        Whether to write features by name, ``SE(age)``, instead of by index.
    ax : Axes, optional
        By default the axes of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    InputError
        If `idata` isn't such a posterior, or has no such user.
    """
    shares = inclusion_shares(idata)
    if user is None:
        table, whom = shares.mean("user"), f"mean of {shares.sizes['user']} users"
    elif user in shares.coords["user"].values.tolist():
        table, whom = shares.sel(user=user), f"user {user}"
    else:
        raise InputError(f"The posterior has no user {user!r}. Use the label of one of its users.")
    shown = _worth_showing(table, minimum, max_candidates)
    labels = candidate_labels(idata, features)
    steps = table.sizes["time_step"]
    beside = max(style.text_size(labels[c], 10)[0] for c in shown) / 72
    width = max(2.6 + 0.5 * steps, beside + max(0.5 * steps, 2.6))  # at least as wide as the title
    ax = style.axes_or_new(ax, width, 1.1 + 0.26 * len(shown))
    image = _draw_table(ax, table, shown, [labels[c] for c in shown])
    if steps <= WRITTEN:
        _write_numbers(ax, table.values[:, shown].T)
    else:
        _colour_bar(image, ax, "posterior inclusion probability")
    ax.set_title(f"Inclusion probability, {whom}", fontsize="medium")
    if len(shown) < len(labels):
        style.note(ax, f"Less probable candidates that aren't shown: {len(labels) - len(shown)}.")
    return ax


def co_clustering(
    idata: "DataTree",
    *,
    order: Literal["time_step", "user", "similarity"] = "time_step",
    ax: Axes | None = None,
) -> Axes:
    """Draw the posterior probability that two datasets share a cluster, for all pairs.

    Parameters
    ----------
    idata : DataTree
        Posterior of an ``EvolutionModel``.
    order : {"time_step", "user", "similarity"}
        Order of the datasets: in blocks of a time step, with similar users side by side; in blocks
        of a user; or with datasets that share clusters side by side, regardless of user and time
        step.
    ax : Axes, optional
        By default the axes of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    InputError
        If `idata` isn't such a posterior, or the order is unknown.
    """
    if order not in ORDERS:
        raise InputError(f"There is no order {order!r}. Use one of {', '.join(ORDERS)}.")
    draws = Draws.of(idata)
    places = np.argwhere(draws.present)  # of each dataset: the indices of its user and time step
    together = shared_clusters(draws.assignment[:, :, draws.present])
    ranks = _similar_first(together)
    user_ranks = np.array([ranks[places[:, 0] == u].mean() for u in range(places[:, 0].max() + 1)])
    key = {
        "time_step": (user_ranks[places[:, 0]], places[:, 1]),
        "user": (places[:, 1], places[:, 0]),
        "similarity": (ranks,),
    }[order]
    chosen = np.lexsort(key)
    ax = style.axes_or_new(ax, 5.8, 4.6)
    image = ax.imshow(together[np.ix_(chosen, chosen)], **LIMITS, interpolation="nearest")
    _colour_bar(image, ax, "posterior probability of the same cluster")
    users, steps = draws.users, style.counted(draws.steps)
    if order == "similarity":
        names = [f"{users[u]}, {steps[t]}" for u, t in places[chosen]]
        _tick_datasets(ax, names)
    else:
        column, names = (1, steps) if order == "time_step" else (0, users)
        _tick_blocks(ax, places[chosen, column], names)
        ax.set(xlabel=order.replace("_", " "), ylabel=order.replace("_", " "))
    return ax


def _worth_showing(table: "DataArray", minimum: float, most: int) -> np.ndarray:
    """Return the indices of the candidates to draw, in the pool's order; at least one."""
    highest = table.max("time_step").values
    likely = np.argsort(-highest, kind="stable")[:most]
    return np.sort(likely[: max(int((highest >= minimum).sum()), 1)])


def _draw_table(ax: Axes, table: "DataArray", shown: np.ndarray, labels: Sequence[str]) -> Any:
    """Draw the inclusion probabilities of candidates (rows) by time step (columns)."""
    steps = table.coords["time_step"].values
    image = ax.imshow(table.values[:, shown].T, **LIMITS, aspect="auto", interpolation="nearest")
    ax.set_xticks(range(len(steps)), style.counted(steps))
    ax.set_yticks(range(len(labels)), labels, fontsize=_row_size(ax, len(labels)))
    ax.set_xlabel("time step")
    ax.set_xticks(np.arange(1, len(steps)) - 0.5, minor=True)
    ax.set_yticks(np.arange(1, len(labels)) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=1)
    _frameless(ax)
    return image


def _row_size(ax: Axes, rows: int) -> float:
    """Return the largest font size at which the rows fit, at most the default size."""
    room = ax.get_window_extent().height / ax.figure.dpi * 72 / rows
    return min(FontProperties(size="medium").get_size_in_points(), 0.8 * room)


def _write_numbers(ax: Axes, values: np.ndarray) -> None:
    font: style.Style = {"size": 0.85 * _row_size(ax, len(values)), "ha": "center", "va": "center"}
    for (row, column), value in np.ndenumerate(values):
        if value >= 0.005:  # False for missing values (NaN) too
            ink = style.ink_on(style.SHADES(value))
            ax.text(column, row, f"{value:.2f}", color=ink, **font)


def _colour_bar(image: Any, ax: Axes, label: str) -> None:
    figure = image.figure
    room = figure.bbox.height / figure.dpi * 72
    characters = max(int(0.9 * room / style.text_size("n", 10)[0]), len("probability"))
    bar = figure.colorbar(image, ax=ax, label=style.wrapped(label, characters), shrink=0.8)
    bar.outline.set_visible(False)


def _frameless(ax: Axes) -> None:
    ax.spines[:].set_visible(False)
    ax.tick_params(which="both", length=0)


def _similar_first(together: np.ndarray) -> np.ndarray:
    """Return a rank for each dataset, with datasets that share clusters at close ranks."""
    if len(together) < 3:
        return np.arange(len(together))
    distance = squareform(1 - together, checks=False)
    leaves = leaves_list(linkage(distance, "average", optimal_ordering=True))
    return np.argsort(leaves)


def _tick_datasets(ax: Axes, names: Sequence[str]) -> None:
    ax.set(xlabel="user, time step", ylabel="user, time step")
    ticks = range(len(names)) if len(names) <= TICKED else []
    ax.set_xticks(ticks, names[: len(ticks)], rotation=90, fontsize="x-small")
    ax.set_yticks(ticks, names[: len(ticks)], fontsize="x-small")
    _frameless(ax)


def _tick_blocks(ax: Axes, block: np.ndarray, names: Sequence[Any]) -> None:
    """Draw one tick for each run of equal blocks, and lines between the runs."""
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    middles = (starts + np.append(starts[1:], len(block)) - 1) / 2
    labels = [str(names[b]) for b in block[starts]]
    ax.set_xticks(middles, labels)
    ax.set_yticks(middles, labels)
    for start in starts[1:] - 0.5:
        ax.axvline(start, color=style.FAINT, linewidth=0.8)
        ax.axhline(start, color=style.FAINT, linewidth=0.8)
    _frameless(ax)
