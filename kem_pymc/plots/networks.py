"""Plot of the networks that tasks of lifelong optimisation use."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from kem_pymc._system.options import checked
from kem_pymc.plots import style

if TYPE_CHECKING:
    from xarray import Dataset


@checked
def networks(used: "Dataset", *, ax: Axes | None = None) -> Axes:
    """Draw the weight of every network in every task, after the task's last point.

    The weight is the standard deviation of the network's output at the task's points, where that of
    the function is one. Networks that a task doesn't use are left white; those that no task uses
    aren't drawn.

    Parameters
    ----------
    used : Dataset
        See :meth:`kem_pymc.lifelong.LifelongSampler.networks`.
    ax : Axes, optional

    Returns
    -------
    Axes
    """
    names, weights = used["task"].values.tolist(), used["weight"].values.T
    places = np.flatnonzero(weights.any(axis=1))
    ax = style.axes_or_new(ax, 1.8 + 0.45 * len(names), 1.4 + 0.32 * len(places))
    shown = np.ma.masked_equal(weights[places], 0.0)
    image = ax.imshow(shown, vmin=0.0, cmap=style.SHADES, aspect="auto")
    ax.set(xlabel="task", ylabel="network")
    ax.set_xticks(range(len(names)), names, rotation=0 if len("".join(names)) < 30 else 45)
    ax.set_yticks(range(len(places)), [str(place + 1) for place in places])
    ax.figure.colorbar(image, ax=ax, label="weight")
    return ax
