"""Summaries of the posterior of an ``EvolutionModel`` that the plots draw."""

from typing import TYPE_CHECKING

import numpy as np
from xarray import DataArray

from kem_pymc.diagnostics.quantities import Draws, compositions
from kem_pymc.diagnostics.representative import modes
from kem_pymc.plots import style

if TYPE_CHECKING:
    from xarray import DataTree


def inclusion_shares(idata: "DataTree") -> DataArray:
    """Return the inclusion probabilities, with dims (user, time_step, candidate).

    Values of time steps that a user doesn't have are NaN.
    """
    draws = Draws.of(idata)
    shares = np.where(draws.present[..., None], draws.inclusion.mean(axis=(0, 1)), np.nan)
    labels = {"user": draws.users, "time_step": draws.steps, "candidate": draws.pool.names}
    return DataArray(shares, labels, tuple(labels))


def candidate_labels(idata: "DataTree", features: bool) -> list[str]:
    """Return the candidates' labels, typeset and optionally with features by name."""
    draws = Draws.of(idata)
    labels = draws.pool.names
    if features:
        labels = [style.with_features([c], draws.settings["features"]) for c in draws.pool]
    return [style.spelled(label) for label in labels]


def modal_compositions(draws: Draws) -> tuple[list[list[str | None]], np.ndarray]:
    """Return the most probable composition of each dataset, and its probability (U, T).

    Labels are None, and probabilities 0, where a user doesn't have the time step.
    """
    code, named = compositions(draws)
    modal, shares = modes(code.reshape(-1, *draws.present.shape))
    labels = [
        [draws.label(named[c]) if here else None for c, here in zip(row, present, strict=True)]
        for row, present in zip(modal, draws.present, strict=True)
    ]
    return labels, np.where(draws.present, shares, 0.0)
