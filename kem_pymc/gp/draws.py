"""Draw functions from the Gaussian process prior of a composition."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.kernel import FixedKernel
from kem_pymc.gp.posterior import coloured
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool


@one_blas_thread()
def draw_functions(
    composition: Composition | str,
    x: npt.ArrayLike,
    hyperparameters: Mapping[str, npt.ArrayLike],
    draws: int = 1,
    rng: np.random.Generator | int = 0,
) -> np.ndarray:
    """Draw functions, without noise, from the Gaussian process of a composition.

    Parameters
    ----------
    composition : Composition or str
        The composition, or its printed form such as ``"LIN0 + PER0"``.
    x : array_like, shape (m, D), or (m,) if D is 1
        Inputs at which the functions are drawn, in the units of the hyperparameters.
    hyperparameters : mapping of str to float or array_like, shape (draws,)
        Natural values by name, like ``{"LIN0.amplitude": 1.0, ...}``: one value for all functions,
        or one for each, as from :meth:`kem_pymc.Priors.draw`. Other names are ignored.
    draws : int
        Number of functions.
    rng : Generator or int
        Random number generator, or the seed of one.

    Returns
    -------
    ndarray, shape (draws, m)
        One function per row.

    Raises
    ------
    InputError
        If a hyperparameter is missing or out of range, or has neither one value nor one for each
        draw, or the inputs aren't finite numbers.
    """
    x = np.asarray(x, dtype=np.float64)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or not np.isfinite(x).all():
        raise InputError(
            f"The inputs of shape {x.shape} aren't finite numbers in rows. "
            "Give one row per point and one column per feature."
        )
    if isinstance(composition, str):
        composition = Composition.parse(composition, x.shape[1])
    rng = np.random.default_rng(rng)
    if not composition.candidates:
        return np.zeros((draws, len(x)))
    coordinates = Coordinates(CandidatePool(composition.candidates, x.shape[1]), composition)
    values = [_each(h.name, hyperparameters, draws) for h in coordinates.hyperparameters]
    functions = np.empty((draws, len(x)))
    for draw, natural in enumerate(np.transpose(values)):
        kernel = FixedKernel.of(coordinates, coordinates.from_natural(natural, 1.0))
        full = np.triu(kernel.upper(x)[:, : len(x)])
        covariance = full + np.triu(full, 1).T
        functions[draw] = coloured(covariance, rng.standard_normal((1, len(x))))[0]
    return functions


def _each(name: str, values: Mapping[str, npt.ArrayLike], draws: int) -> np.ndarray:
    """Return one value of a hyperparameter for each draw, NaN if there is no value."""
    given = np.asarray(values.get(name, np.nan), dtype=np.float64)
    if given.shape not in ((), (draws,)):
        raise InputError(
            f"There are values of shape {given.shape} of {name} for {draws} draws. "
            "Give one, or one for each draw."
        )
    return np.broadcast_to(given, draws)
