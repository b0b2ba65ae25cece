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
    draws = [[d.hyperparameters, d.noise, d.weight, _listed(d.sites)] for d in row.draws]
    sites = _listed(row.sites if used else None)
    return {**vars(row), "composition": label, "draws": draws, "sites": sites}


def _listed(sites: ScaledSites | None) -> list[Any] | None:
    if sites is None:
        return None
    return [sites.targets.tolist(), sites.noise.tolist(), float(sites.log_constant)]


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
    composition = Composition.parse(data["composition"], dimension)
    draws = tuple(Draw(h, noise, weight, _sites(own)) for h, noise, weight, own in data["draws"])
    sites = _sites(data["sites"])
    return ScoredKernel(**{**data, "composition": composition, "draws": draws, "sites": sites})


def _sites(data: list[Any] | None) -> ScaledSites | None:
    return None if data is None else ScaledSites(np.array(data[0]), np.array(data[1]), data[2])
