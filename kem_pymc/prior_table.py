"""The priors of a study as the compiled engine sees them; it knows no PyMC."""

import math
from numbers import Real
from typing import NamedTuple

import numpy as np

from kem_pymc.compiled import FunctionPointer
from kem_pymc.errors import InputError
from kem_pymc.references import by_reference

#: Smallest noise variance of a fit (paper, fig. 9), where a table of priors names no other.
NOISE_FLOOR = 0.01


@by_reference
class PriorTable(NamedTuple):
    """The priors of a study as the engine wants them.

    Densities are those of unconstrained coordinates: logs of positive hyperparameters and of the
    noise variance (the Jacobian is included), values of the others. All of them are given natural
    values of the P population parameters; P is mostly zero.

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
        Which distinct prior each hyperparameter has.
    centre : (H,) float64
        Median of each coordinate: where a fit starts that knows no better.
    scale : (H,) float64
        min(prior standard deviation, 1) of each coordinate: the unit of proposals.
    stay, enter : (C,) float64
        Probability that a candidate is in, given that the parent has it or hasn't.
    population : (P,) float64
        Natural values of the population parameters, which a move changes in place.
    reference : (P,) float64
        Their prior medians. `centre` and `scale` are those at them, and so is whatever else
        proposals remember: draws may not depend on what the values were before.
    population_entry : (P,) int64
        Which distinct prior each of them has.
    population_positive : (P,) bool
        Whether its unconstrained coordinate is the log.
    population_width : (P,) float64
        Prior standard deviation of its coordinate.
    uses : (number of distinct priors, P) bool
        Which distinct priors depend on which of them.
    noise_uses : (P,) bool
        On which of them the prior of the noise depends.
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
    """Return the smallest noise variance of fits, once it is known to be one.

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
