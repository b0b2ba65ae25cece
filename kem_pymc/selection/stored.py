"""Selections as plain data, from which predictions follow again to the last bit.

What the evolutions and the user's data determine isn't stored with a selection: candidates,
scaling, what users share, and the points in scaled units.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kem_pymc.data.validation import check_points
from kem_pymc.gp.recorded import ScaledSites
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.scored_kernel import Draw, ScoredKernel
from kem_pymc.selection.selection import LEAST_WEIGHT, Selection
from kem_pymc.selection.selector import ScaledPoints


def to_dict(selection: Selection) -> dict[str, Any]:
    """Return a selection as plain data, for :func:`from_dict`.

    Observations that stand for targets of a family are left out where predictions don't use them.
    """
    unshared = None if selection.unshared is None else to_dict(selection.unshared)
    return {
        "considered": [
            _row(row, selection.label(row.composition), place == 0 or row.weight >= LEAST_WEIGHT)
            for place, row in enumerate(selection.considered)
        ],
        "shares": selection.shared is not None,
        "departure": selection.departure,
        "unshared": unshared,
        "run_time": selection.run_time,
        "message": selection.message,
    }


def _row(row: ScoredKernel, label: str, used: bool) -> dict[str, Any]:
    sites = None
    if row.sites is not None and used:
        z, v, constant = row.sites
        sites = [z.tolist(), v.tolist(), constant]
    data = {name: value for name, value in vars(row).items() if name != "draws"}
    return data | {"composition": label, "draws": [[*d] for d in row.draws], "sites": sites}


def from_dict(
    data: Mapping[str, Any], selector: KEMSelector, x: np.ndarray, y: np.ndarray, **given: Any
) -> Selection:
    """Return a selection from plain data.

    Parameters
    ----------
    data : mapping
        As from :func:`to_dict`.
    selector : KEMSelector
        Selector with the evolutions of the selection.
    x, y : ndarray, shapes (n, D) and (n,)
        The data that the kernel was selected on, in the user's units.
    **given
        ``noise`` and ``sizes`` of the targets, as for :meth:`KEMSelector.select`.

    Returns
    -------
    Selection
    """
    x, y = check_points(x, y, selector.pool.dimension)
    shared = selector.shared if data["shares"] else None
    points = ScaledPoints.of(selector.scaling, x, y, shared, **given)
    unshared = None
    if data["unshared"] is not None:
        assert selector.unshared is not None
        unshared = from_dict(data["unshared"], selector.unshared, x, y, **given)
    return Selection(
        considered=tuple(_scored(row, selector.pool.dimension) for row in data["considered"]),
        pool=selector.pool,
        scaling=selector.scaling,
        x=points.x,
        y=points.y,
        run_time=data["run_time"],
        message=data["message"],
        shared=shared,
        unshared=unshared,
        departure=data["departure"],
        known_noise=points.noise,
        recorded=points.recorded,
        distribution=selector.distribution,
        calibration=selector.calibration,
    )


def _scored(data: Mapping[str, Any], dimension: int) -> ScoredKernel:
    sites = data["sites"]
    if sites is not None:
        sites = ScaledSites(np.array(sites[0]), np.array(sites[1]), sites[2])
    draws = tuple(Draw(*draw) for draw in data["draws"])
    composition = Composition.parse(data["composition"], dimension)
    return ScoredKernel(**{**data, "composition": composition, "draws": draws, "sites": sites})
