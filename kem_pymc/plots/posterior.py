"""Plots of posterior inclusion probabilities of candidates, and of co-clustering of datasets."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.axes import Axes
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from kem_pymc._system.display import plural
from kem_pymc._system.options import checked
from kem_pymc.diagnostics.quantities import Draws
from kem_pymc.diagnostics.representative import shared_clusters
from kem_pymc.errors import InputError
from kem_pymc.kernels.prose import named
from kem_pymc.plots import style

if TYPE_CHECKING:
    from xarray import DataTree

#: Colour scale of probabilities.
LIMITS: style.Style = {"cmap": style.SHADES, "vmin": 0, "vmax": 1}

#: Maximum number of columns of a table into whose cells numbers are written.
WRITTEN = 12

#: Maximum number of candidates that are drawn, and of datasets that have their own ticks; largest
#: width of a table with many columns, in inches.
DRAWN, TICKED, WIDEST = 30, 40, 9.0


@checked
def inclusion(
    idata: "DataTree",
    user: Hashable | None = None,
    *,
    by: Literal["time_step", "user"] = "time_step",
    minimum: float = 0.01,
    ax: Axes | None = None,
) -> Axes:
    """Draw the posterior inclusion probability of each candidate, by time step or by user.

    At most 30 candidates are drawn, the most probable ones.

    Parameters
    ----------
    idata : DataTree
        Posterior of an ``EvolutionModel``.
    user : label, optional
        User whose probabilities are drawn; by default the mean over the users that have the time
        step.
    by : {"time_step", "user"}
        With "user", a column is a user's last time step, and users are ordered such that those with
        the same parts are side by side.
    minimum : float
        Candidates that are less probable in every column aren't drawn; a note below the axes gives
        their number.
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
    draws = Draws.of(idata)
    shares = np.where(draws.present[..., None], draws.inclusion.mean(axis=(0, 1)), np.nan)
    columns = style.counted(draws.steps)
    if by == "user":
        table, whom = shares[np.arange(len(shares)), draws.present.sum(axis=1) - 1], "by user"
        order = np.lexsort(np.round(table, 1).T[np.argsort(table.mean(axis=0))])[::-1]
        table, columns = table[order], [str(draws.users[u]) for u in order]
    elif user is None:
        table, whom = np.nanmean(shares, axis=0), f"mean of {plural(len(draws.users), 'user')}"
    elif user in draws.users:
        table, whom = shares[draws.users.index(user)], f"user {user}"
    else:
        raise InputError(f"The posterior has no user {user!r}. Use the label of one of its users.")
    highest = np.nanmax(table, axis=0)
    likely = np.argsort(-highest, kind="stable")[:DRAWN]
    shown = np.sort(likely[: max(int((highest >= minimum).sum()), 1)])  # in the pool's order
    table, features = table[:, shown].T, draws.settings["features"]
    candidates = [*draws.pool]
    labels = [named((candidates[c],), features) for c in shown]
    rows, steps = table.shape
    beside = max(style.text_size(label, 10)[0] for label in labels) / 72
    across = max(0.5 * steps if steps <= WRITTEN else min(0.22 * steps, WIDEST), 2.6)
    width = max(2.6 + across, beside + across)  # at least as wide as the title
    ticked = steps <= TICKED or by == "time_step"
    below = max(style.text_size(c, 9)[0] for c in columns) / 72 if ticked and by == "user" else 0
    ax = style.axes_or_new(ax, width, 1.1 + 0.26 * rows + below)
    image = ax.imshow(table, **LIMITS, aspect="auto", interpolation="nearest")
    if steps <= WRITTEN:
        for (row, column), value in np.ndenumerate(table):
            if value >= 0.005:  # False for missing values (NaN) too
                font: style.Style = {"fontsize": "small", "ha": "center", "va": "center"}
                ink = style.ink_on(style.SHADES(value))
                ax.text(column, row, f"{value:.2f}", color=ink, **font)
    else:
        _colour_bar(image, ax, "probability")
    turned: style.Style = {"rotation": 90, "fontsize": "small"} if by == "user" else {}
    ax.set_xticks(range(steps) if ticked else [], columns if ticked else [], **turned)
    ax.set_yticks(range(rows), labels)
    ax.set_xlabel("time step" if by == "time_step" else "user")
    ax.set_xticks(np.arange(1, steps) - 0.5, minor=True)
    ax.set_yticks(np.arange(1, rows) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=1)
    _frameless(ax)
    ax.set_title(f"Inclusion probability, {whom}", fontsize="medium")
    if rows < len(draws.pool):
        hidden = len(draws.pool) - rows
        style.note(ax, f"Parts that aren't shown, as less probable in every column: {hidden}.")
    return ax


@checked
def co_clustering(
    idata: "DataTree",
    *,
    order: Literal["time_step", "similarity"] = "time_step",
    ax: Axes | None = None,
) -> Axes:
    """Draw the posterior probability that two datasets share a cluster, for all pairs.

    Parameters
    ----------
    idata : DataTree
        Posterior of an ``EvolutionModel``.
    order : {"time_step", "similarity"}
        Order of the datasets: in blocks of a time step, with similar users side by side; or with
        datasets that share clusters side by side, regardless of user and time step.
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
    if order not in ("time_step", "similarity"):
        raise InputError(f"There is no order {order!r}. Use time_step or similarity.")
    draws = Draws.of(idata)
    places = np.argwhere(draws.present)  # of each dataset: the indices of its user and time step
    user, step = places.T
    together = shared_clusters(draws.assignment[:, :, draws.present])
    distance = squareform(1 - together, checks=False)
    leaves = np.arange(len(places))
    if len(places) > 2:
        leaves = leaves_list(linkage(distance, "average", optimal_ordering=True))
    ranks = np.argsort(leaves)
    of_user = np.bincount(user, ranks) / np.bincount(user)
    chosen = leaves if order == "similarity" else np.lexsort((of_user[user], step))
    ax = style.axes_or_new(ax, 5.8, 4.6)
    image = ax.imshow(together[np.ix_(chosen, chosen)], **LIMITS, interpolation="nearest")
    _colour_bar(image, ax, "posterior probability of the same cluster")
    steps = style.counted(draws.steps)
    look: style.Style = {}
    if order == "time_step":  # one tick for each block, and lines between them
        starts = np.flatnonzero(np.diff(step[chosen], prepend=-1))
        ticks = (starts + np.append(starts[1:], len(chosen)) - 1) / 2
        labels = [steps[t] for t in step[chosen][starts]]
        for start in starts[1:] - 0.5:
            ax.axvline(start, color=style.FAINT, linewidth=0.8)
            ax.axhline(start, color=style.FAINT, linewidth=0.8)
    else:
        labels = [f"{draws.users[u]}, {steps[t]}" for u, t in places[chosen]]
        labels = labels if len(labels) <= TICKED else []
        ticks = np.arange(len(labels))
        look = {"fontsize": "x-small"}
    ax.set_xticks(ticks, labels, rotation=90 if look else 0, **look)
    ax.set_yticks(ticks, labels, **look)
    text = "time step" if order == "time_step" else "user, time step"
    ax.set(xlabel=text, ylabel=text)
    _frameless(ax)
    return ax


def _colour_bar(image: Any, ax: Axes, label: str) -> None:
    bar = image.figure.colorbar(image, ax=ax, label=style.wrapped(label, 32), shrink=0.8)
    bar.outline.set_visible(False)


def _frameless(ax: Axes) -> None:
    ax.spines[:].set_visible(False)
    ax.tick_params(which="both", length=0)
