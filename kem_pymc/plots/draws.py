"""Summaries of the posterior of an ``EvolutionModel`` that the plots draw."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from kem_pymc.errors import InputError
from kem_pymc.evolutions.from_posterior import study_settings
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.plots import style

if TYPE_CHECKING:
    from xarray import DataArray, DataTree


def variable(idata: "DataTree", name: str) -> "DataArray":
    """Return a posterior variable with dims (sample, user, time_step, ...).

    Raises
    ------
    InputError
        If the posterior lacks the variable, or the variable lacks these dims.
    """
    try:
        by_sample = idata["posterior"][name].stack(sample=("chain", "draw"), create_index=False)
        return by_sample.transpose("sample", "user", "time_step", ...)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"The posterior lacks the variable {name} with dims user and time_step. "
            "Sample it with an EvolutionModel."
        ) from error


def inclusion_shares(idata: "DataTree") -> "DataArray":
    """Return the inclusion probabilities, with dims (user, time_step, candidate).

    Values of time steps that a user doesn't have are NaN.
    """
    present = (variable(idata, "assignment") >= 0).all("sample")
    return variable(idata, "inclusion").mean("sample").where(present)


def candidate_labels(idata: "DataTree", features: bool) -> list[str]:
    """Return the candidates' labels, typeset and optionally with features by name."""
    labels = [str(c) for c in variable(idata, "inclusion").coords["candidate"].values]
    if features:
        settings = study_settings(idata)
        pool = CandidatePool(labels, settings["dimension"])
        labels = [style.with_features([c], settings["features"]) for c in pool]
    return [style.spelled(label) for label in labels]


def modal_compositions(idata: "DataTree") -> tuple[list[list[str | None]], np.ndarray]:
    """Return the most probable composition of each dataset, and its probability (U, T).

    Labels are None, and probabilities 0, where a user doesn't have the time step.
    """
    inclusion = variable(idata, "inclusion")
    names = [str(c) for c in inclusion.coords["candidate"].values]
    pool = CandidatePool(names, study_settings(idata)["dimension"])
    present = (variable(idata, "assignment") >= 0).all("sample").values
    labels: list[list[str | None]] = []
    shares = np.zeros(present.shape)
    rows = inclusion.values.astype(bool)
    for u, steps in enumerate(present):
        labels.append([None] * len(steps))
        for t in np.flatnonzero(steps):
            draws = Counter(row.tobytes() for row in rows[:, u, t])
            mode, count = draws.most_common(1)[0]
            composition = pool.composition(np.frombuffer(mode, dtype=bool))
            labels[u][t] = composition.label(pool.dimension)
            shares[u, t] = count / len(rows)
    return labels, shares


def co_membership(idata: "DataTree") -> tuple[np.ndarray, np.ndarray]:
    """Return how often two datasets share a cluster (N, N), and the datasets' indices (N, 2).

    The indices of a dataset are those of its user and of its time step.
    """
    assignment = variable(idata, "assignment").values
    places = np.argwhere((assignment >= 0).all(axis=0))
    clusters = assignment[:, *places.T]
    together = np.zeros((len(places), len(places)))
    for draw in clusters:
        together += draw[:, None] == draw
    return together / len(clusters), places
