"""The priors of a study in the form that the compiled engine uses, without importing PyMC."""

import math
from numbers import Real
from typing import NamedTuple

import numpy as np

from kem_pymc._system.jit.decorators import FunctionPointer
from kem_pymc._system.jit.structs import by_reference
from kem_pymc.errors import InputError


@by_reference
class PriorTable(NamedTuple):
    """The priors of a study in the form that the compiled engine uses.

    Densities are those of unconstrained coordinates: logs of positive hyperparameters and of the
    noise variance (the Jacobian is included), values of the others. All densities depend on the
    natural values of the P population parameters; P is zero in most studies.

    Attributes
    ----------
    log_density, gradient : pointer
        ``f(entry, v, population) -> float``
    draw : pointer
        ``f(entry, generator, population) -> float``
    noise_log_density, noise_gradient : pointer
        ``f(parent, v, population) -> float`` with the parent's inclusion indicators (C,) bool
    noise_draw : pointer
        ``f(parent, generator, population) -> float``
    entry : (H,) int64
        Index of the distinct prior of each hyperparameter.
    centre : (H,) float64
        Prior median of each coordinate, from which fits start without other information.
    scale : (H,) float64
        min(prior standard deviation, 1) of each coordinate, the unit of proposals.
    stay, enter : (C,) float64
        Inclusion probability of each candidate if the parent has it, and if it doesn't.
    population : (P,) float64
        Natural values of the population parameters, which a move changes in place.
    reference : (P,) float64
        Prior medians of the population parameters. `centre`, `scale` and everything else that
        proposals cache are computed at these values, because proposals must not depend on earlier
        values of the population parameters.
    population_entry : (P,) int64
        Index of the distinct prior of each population parameter.
    population_positive : (P,) bool
        Whether the unconstrained coordinate of the population parameter is the log.
    population_width : (P,) float64
        Prior standard deviation of the population parameter's coordinate.
    uses : (number of distinct priors, P) bool
        Whether a distinct prior depends on a population parameter.
    noise_uses : (P,) bool
        Whether the prior of the noise depends on a population parameter.
    """

    log_density: FunctionPointer
    gradient: FunctionPointer
    draw: FunctionPointer
    noise_log_density: FunctionPointer
    noise_gradient: FunctionPointer
    noise_draw: FunctionPointer
    entry: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    stay: np.ndarray
    enter: np.ndarray
    population: np.ndarray
    reference: np.ndarray
    population_entry: np.ndarray
    population_positive: np.ndarray
    population_width: np.ndarray
    uses: np.ndarray
    noise_uses: np.ndarray


def check_noise_floor(noise_floor: float) -> float:
    """Return the smallest noise variance of fits as a float, if it is valid.

    Raises
    ------
    InputError
        If it isn't positive and finite.
    """
    if not (isinstance(noise_floor, Real) and 0 < noise_floor < math.inf):
        raise InputError(
            f"The smallest noise variance of fits is {noise_floor!r}. "
            "Give a positive number, in scaled units."
        )
    return float(noise_floor)
