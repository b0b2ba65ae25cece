"""The priors of a study as the compiled engine sees them; it knows no PyMC."""

from typing import NamedTuple

import numpy as np

from kem_pymc.compiled import FunctionPointer
from kem_pymc.references import by_reference


@by_reference
class PriorTable(NamedTuple):
    """The priors of a study as the engine wants them.

    Densities are those of unconstrained coordinates: logs of positive hyperparameters and of the
    noise variance (the Jacobian is included), values of the others.

    Attributes
    ----------
    log_density, gradient : pointer
        ``f(entry, v) -> float``
    draw : pointer
        ``f(entry, generator) -> float``
    noise_log_density, noise_gradient : pointer
        ``f(parent, v) -> float`` with the parent's inclusion indicators (C,) bool
    noise_draw : pointer
        ``f(parent, generator) -> float``
    entry : (H,) int64
        Which distinct prior each hyperparameter has.
    centre : (H,) float64
        Median of each coordinate: where a fit starts that knows no better.
    scale : (H,) float64
        min(prior standard deviation, 1) of each coordinate: the unit of proposals.
    stay, enter : (C,) float64
        Probability that a candidate is in, given that the parent has it or hasn't.
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
