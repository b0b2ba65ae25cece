"""The priors of a study as priors of a fit."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.problem import Prior
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.priors.compiled_table import PriorTable

if TYPE_CHECKING:
    from kem_pymc.priors import Priors


class CompilesPriors:
    """Mixin of what compiles a study's priors for its pool, when it first needs them."""

    pool: CandidatePool
    priors: "Priors | None"

    def __getstate__(self) -> dict[str, Any]:
        # Pointers to compiled code are invalid in another process, which compiles again.
        return {k: v for k, v in self.__dict__.items() if k != "_table"}

    @cached_property
    def _table(self) -> PriorTable | None:
        return None if self.priors is None else self.priors.compile(self.pool)


def study_prior(priors: PriorTable, coordinates: Coordinates, parent: Composition) -> Prior:
    """Return the study's priors for a composition, given its parent composition.

    Parameters
    ----------
    priors : kem_pymc.priors.compiled_table.PriorTable
        Table of densities of unconstrained coordinates.
    coordinates : Coordinates
    parent : Composition

    Returns
    -------
    Prior

    Raises
    ------
    InputError
        If the parent has a candidate that isn't in the pool.
    """
    return Prior(
        centre=np.zeros(len(coordinates)),
        precision=np.zeros(len(coordinates)),
        entries=priors.entry[coordinates.places],
        parent=coordinates.pool.inclusion(parent),
        log_density=priors.log_density,
        gradient=priors.gradient,
        noise_log_density=priors.noise_log_density,
        noise_gradient=priors.noise_gradient,
        population=priors.population,
        from_study=True,
    )
