"""The priors of a study as priors of a fit."""

import numpy as np

from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.problem import Prior
from kem_pymc.kernels.composition import Composition
from kem_pymc.priors.compiled_table import PriorTable


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
