"""Plot of the posterior of a composition's hyperparameters."""

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.kernels.composition import Composition

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

#: Maximum number of panels side by side.
COLUMNS = 4


def hyperparameters(
    evolutions: Evolutions,
    composition: Composition | str,
    parent: Composition | str | None = None,
    **options: Any,
) -> "PlotCollection":
    """Draw the posterior densities of a composition's hyperparameters and noise variance, by ArviZ.

    Each cluster is weighted by its number of members, over all posterior draws. Positive values are
    drawn as base 10 logarithms, because they differ by factors. Values are in scaled units.

    Parameters
    ----------
    evolutions : Evolutions
    composition : Composition or str
    parent : Composition or str, optional
        Parent composition of the clusters to use; by default clusters of all parents.
    **options
        Further arguments of ``arviz_plots.plot_dist``, such as ``figure_kwargs=``,
        ``kind="hist"`` or ``plot_collection=``.

    Returns
    -------
    PlotCollection
        ArviZ's plot collection; its ``savefig`` saves it, and ``viz["figure"].item()`` is the
        matplotlib figure, which notebooks display.

    Raises
    ------
    InputError
        If a composition can't be parsed, or no pilot user had `composition`, or none had it below
        the given parent.
    """
    import arviz_plots as azp
    from matplotlib import pyplot

    values = _samples(evolutions, composition, parent)
    rows = -(-len(values) // COLUMNS)
    across = min(len(values), COLUMNS)
    size = {"figsize": (2.6 * across, 2.1 * rows), "layout": "constrained"}
    given: dict[str, Any] = {"kind": "kde", "visuals": {"point_estimate_text": False}}
    if "plot_collection" not in options:
        given |= {"backend": "matplotlib", "col_wrap": COLUMNS, "figure_kwargs": size}
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(values)})
    drawn = azp.plot_dist(tree, **given | options)
    if drawn.backend == "matplotlib":  # as for all plots of this package, pyplot doesn't keep it
        pyplot.close(drawn.viz["figure"].item())
    return drawn


def _samples(
    evolutions: Evolutions, composition: Composition | str, parent: Composition | str | None
) -> dict[str, Any]:
    """Return draws (1, n) of each value by name; a cluster's are repeated for each member."""
    pool = evolutions.pool
    child, above = (
        Composition.parse(c, pool.dimension) if isinstance(c, str) else c
        for c in (composition, parent)
    )
    clusters = [c for c in evolutions.clusters if c.child == child and above in (None, c.parent)]
    if child is None or not clusters:
        where = "" if above is None else f" with parent {evolutions.label(above)}"
        raise InputError(
            f"No pilot user had {composition}{where}. "
            "Choose a child, and optionally its parent, from the evolutions."
        )
    counts = [c.count for c in clusters]
    coordinates = np.repeat([c.values for c in clusters], counts, axis=0)
    named = [Coordinates(pool, child).named(row) for row in coordinates]
    positive = {h.name: h.positive for h in child.hyperparameters}
    drawn = {name: np.array([values[name] for values, _ in named]) for name in positive} | {
        "noise variance": np.array([noise for _, noise in named])
    }
    return {
        f"log10 {name}" if positive.get(name, True) else name: (
            ("chain", "draw"),
            (np.log10(v) if positive.get(name, True) else v)[None],
        )
        for name, v in drawn.items()
    }
