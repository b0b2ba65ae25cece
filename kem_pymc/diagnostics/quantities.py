"""Draws of a posterior as plain arrays, and quantities that don't depend on cluster labels."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from kem_pymc.errors import InputError
from kem_pymc.evolutions.from_posterior import (
    read_concentration,
    read_population,
    study_settings,
)
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool

if TYPE_CHECKING:
    from xarray import DataTree

#: Candidates with an inclusion probability outside these bounds are settled: they hardly vary.
SETTLED = (0.02, 0.98)


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of an ``EvolutionModel`` by chain (K), draw (S), user (U) and time step (T).

    Attributes
    ----------
    pool : CandidatePool
    settings : dict
        Settings of the study, see :func:`kem_pymc.evolutions.from_posterior.study_settings`.
    users, steps : list
        Labels of the users and time steps.
    present : (U, T) bool
        Whether the user has the time step.
    assignment : (K, S, U, T) int
    inclusion : (K, S, U, T, C) bool
    noise : (K, S, U, T) float
    n_clusters, log_joint : (K, S) float
    concentration : (K, S) float
        alpha; the same in all draws if it is fixed.
    population : dict of str to (K, S) float
        Population parameters of the priors.
    """

    pool: CandidatePool
    settings: dict[str, Any]
    users: list[Any]
    steps: list[Any]
    present: np.ndarray
    assignment: np.ndarray
    inclusion: np.ndarray
    noise: np.ndarray
    n_clusters: np.ndarray
    log_joint: np.ndarray
    concentration: np.ndarray
    population: dict[str, np.ndarray]

    @classmethod
    def of(cls, idata: "DataTree") -> "Draws":
        """Read the draws from a posterior.

        Raises
        ------
        InputError
            If `idata` isn't the posterior of an ``EvolutionModel``.
        """
        settings = study_settings(idata)
        order = ("chain", "draw", "user", "time_step")
        names = ("assignment", "inclusion", "noise", "n_clusters", "log_joint")
        try:
            posterior = idata["posterior"]
            arrays = {
                n: posterior[n].transpose(*order[: posterior[n].ndim], ...).values for n in names
            }
            users, steps = (posterior.coords[n].values.tolist() for n in ("user", "time_step"))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                "The posterior lacks variables of an evolution model. "
                "Sample it with an EvolutionModel."
            ) from error
        arrays["concentration"] = read_concentration(idata, settings)
        arrays["inclusion"] = arrays["inclusion"].astype(bool)
        present = (arrays["assignment"] >= 0).all(axis=(0, 1))
        pool = CandidatePool(settings["pool"], settings["dimension"])
        population = read_population(idata, settings)
        return cls(pool, settings, users, steps, present, **arrays, population=population)

    @property
    def n_chains(self) -> int:
        return self.assignment.shape[0]

    @property
    def n_draws(self) -> int:
        """Number of draws of each chain."""
        return self.assignment.shape[1]

    def label(self, composition: Composition) -> str:
        """Return the label of a composition in this study; ARD is abbreviated."""
        return composition.label(self.pool.dimension)


def compositions(draws: Draws) -> tuple[np.ndarray, list[Composition]]:
    """Return the composition of every dataset in every draw (K, S, U, T), as indices into a list.

    The first element of the list is the empty composition, even if it doesn't occur.
    """
    packed = np.packbits(draws.inclusion, axis=-1)
    rows = packed.reshape(-1, packed.shape[-1])
    nothing = np.zeros((1, rows.shape[1]), dtype=rows.dtype)
    # Zeros sort first, so the empty composition has index 0.
    distinct, code = np.unique(np.vstack([nothing, rows]), axis=0, return_inverse=True)
    bits = np.unpackbits(distinct, axis=1, count=len(draws.pool)).astype(bool)
    return code[1:].reshape(packed.shape[:-1]), [draws.pool.composition(row) for row in bits]


def parents(code: np.ndarray) -> np.ndarray:
    """Return the composition one time step earlier (..., T); the empty one at the first."""
    return np.insert(code[..., :-1], 0, 0, axis=-1)


def varying(draws: Draws) -> xr.Dataset:
    """Return the quantities whose convergence is assessed, one column each.

    These are the log joint density, the number of clusters, the mean size of compositions, the
    concentration if it was learned, and population parameters of the priors; and for each dataset
    the size of its composition, the log of its noise variance, and the inclusion of every candidate
    whose probability isn't settled (see `SETTLED`).

    Returns
    -------
    Dataset
        Variable ``value`` with dims (chain, draw, column). The coordinates ``quantity``, ``user``,
        ``time_step`` and ``candidate`` describe each column ("" if not applicable). For a
        population parameter, ``candidate`` is its name.
    """
    sizes = draws.inclusion.sum(axis=-1).astype(float)
    columns: dict[tuple[str, str, str, str], np.ndarray] = {
        ("log joint", "", "", ""): draws.log_joint,
        ("clusters", "", "", ""): draws.n_clusters,
        ("mean size", "", "", ""): sizes[:, :, draws.present].mean(axis=-1),
    }
    if isinstance(draws.settings["concentration"], dict):  # it was learned
        columns["concentration", "", "", ""] = draws.concentration
    columns |= {("population", "", "", name): draws.population[name] for name in draws.population}
    shares = draws.inclusion.mean(axis=(0, 1))
    unsettled = (shares >= SETTLED[0]) & (shares <= SETTLED[1])
    for u, t in np.argwhere(draws.present):
        place = str(draws.users[u]), str(draws.steps[t])
        columns["size", *place, ""] = sizes[:, :, u, t]
        columns["log noise", *place, ""] = np.log(draws.noise[:, :, u, t])
        for c in np.flatnonzero(unsettled[u, t]):
            columns["inclusion", *place, draws.pool.names[c]] = draws.inclusion[:, :, u, t, c]
    names = ("quantity", "user", "time_step", "candidate")
    return xr.Dataset(
        {"value": (("chain", "draw", "column"), np.stack([*columns.values()], axis=-1))},
        coords={
            n: ("column", list(v)) for n, v in zip(names, zip(*columns, strict=True), strict=True)
        },
    )
