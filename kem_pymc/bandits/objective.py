"""Objectives of bandits: known functions of unknown components (definitions 1 and 2)."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pandas.api.types import is_list_like
from scipy.stats import qmc

from kem_pymc._system.options import check_seed, check_whole, checked
from kem_pymc.data.validation import filled, number_array
from kem_pymc.errors import InputError

#: A known weight: a number, or a function of points (m, D) with values (m,).
type Weight = float | Callable[[np.ndarray], np.ndarray]

#: Number of quasi-random points at which derivatives are computed, the step relative to the ranges,
#: and by how much the largest one is enlarged.
SAMPLES, STEP, MARGIN = 4096, 1e-5, 1.05


@checked
class Weighted:
    """The objective ``f(x) = sum_j g_j(x) f_j(x)`` (definition 1).

    Parameters
    ----------
    weights : int or sequence of float or callable
        The weights g_j; a whole number J stands for J weights of one. Functions map points (m, D)
        to values (m,).

    Raises
    ------
    InputError
        If there are no weights, or a number isn't finite.
    """

    def __init__(self, weights: int | Sequence[Weight]) -> None:
        given: Any = weights
        if isinstance(weights, int | np.integer):
            check_whole(weights=weights)
            given = [1.0] * int(weights)
        given = [*given] if is_list_like(given) else []
        if not given:
            raise InputError(f"The weights are {weights}. Give one finite number or function each.")
        number_array("weights", [w for w in given if not callable(w)])
        self._weights = given

    @property
    def count(self) -> int:
        """Number of components J."""
        return len(self._weights)

    def weights(self, x: np.ndarray) -> np.ndarray:
        """Return the weights (m, J) at points (m, D).

        Raises
        ------
        InputError
            If a function returns another shape, or values that aren't finite.
        """
        weights = np.empty((len(x), self.count))
        for j, weight in enumerate(self._weights):
            values = filled(weight(x) if callable(weight) else weight)
            if values.shape not in ((), (len(x),)) or not np.isfinite(values).all():
                raise InputError(
                    f"The weight of component {j + 1} has shape {values.shape} or values that "
                    f"aren't finite, at {len(x)} points. Return one finite number for each point."
                )
            weights[:, j] = values
        return weights

    def value(self, x: np.ndarray, components: np.ndarray) -> np.ndarray:
        """Return weighted sums (m,) at points (m, D), given the components (m, J) there."""
        return (self.weights(x) * components).sum(axis=1)

    def moments(
        self, x: np.ndarray, means: np.ndarray, variances: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (m,), given those of independent components (m, J).

        See algorithm 2.
        """
        g = self.weights(x)
        return (g * means).sum(axis=1), (g**2 * variances).sum(axis=1)


@checked
class Nonlinear:
    """The objective ``f(x) = g(f_1(x), ..., f_J(x))`` with bounded derivatives (definition 2).

    Parameters
    ----------
    g : callable
        Function of J arrays (m,), with values (m,).
    bounds : array_like, shape (J,)
        Bounds B_j of the absolute derivatives of g by its arguments. They may be estimated by
        :func:`sampled_bounds`.

    Raises
    ------
    InputError
        If a bound is negative or infinite.
    """

    def __init__(self, g: Callable[..., Any], bounds: npt.ArrayLike) -> None:
        self.g = g
        self.bounds = np.atleast_1d(number_array("bounds", bounds))
        if self.bounds.ndim != 1 or not (self.bounds >= 0).all():
            raise InputError(
                f"The bounds are {self.bounds}. Give one finite number, 0 or more, each."
            )

    @property
    def count(self) -> int:
        """Number of components J."""
        return len(self.bounds)

    def value(self, x: np.ndarray, components: np.ndarray) -> np.ndarray:
        """Return values of g (m,) at points (m, D), given the components (m, J) there.

        Raises
        ------
        InputError
            If g returns another shape, or NaN or infinite values.
        """
        with np.errstate(all="ignore"):
            values = filled(self.g(*components.T))
        if values.shape != (len(components),):
            raise InputError(
                f"g returns shape {values.shape} for {len(components)} points. Return one number "
                "for each point."
            )
        if not np.isfinite(values).all():
            where = components[~np.isfinite(values)][0]
            raise InputError(
                f"g isn't finite at the components {where.tolist()}. Define it for all values that "
                "the components may have."
            )
        return values

    def moments(
        self, x: np.ndarray, means: np.ndarray, variances: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return g of the means, and ``J sum_j B_j^2 sigma_j^2`` (algorithm 4)."""
        return self.value(x, means), self.count * (variances @ self.bounds**2)

    def check(self, components: np.ndarray) -> None:
        """Warn if a derivative of g at observed components (J,) is beyond its bound."""
        steps = STEP * np.maximum(np.abs(components), STEP)
        slopes = np.abs(_slopes(self.g, components[None], steps))[0]
        beyond = np.flatnonzero(slopes > 1.001 * self.bounds + 1e-9)
        if len(beyond):
            j = beyond[0]
            warnings.warn(
                f"The derivative of g by component {j + 1} is {slopes[j]:.4g} at "
                f"{components.tolist()}, beyond its bound {self.bounds[j]:.4g}. The upper "
                "confidence bound is too small; give larger bounds.",
                stacklevel=3,
            )


class Propagated(Nonlinear):
    """A nonlinear objective whose uncertainty is propagated where the components are expected.

    The variance is ``sum_j ((g(mu + sigma_j e_j) - g(mu - sigma_j e_j)) / 2)^2``. It needs no
    bounds, and is often far smaller than that of algorithm 4, which is for the largest derivatives
    anywhere; but theorem 8 doesn't hold for it.

    Parameters
    ----------
    g : callable
        Function of J arrays (m,), with values (m,).
    count : int
        Number of components J.
    """

    def __init__(self, g: Callable[..., Any], count: int) -> None:
        check_whole(count=count)
        super().__init__(g, np.full(count, 0.0))

    def check(self, components: np.ndarray) -> None:
        """Do nothing: there are no bounds."""

    def moments(
        self, x: np.ndarray, means: np.ndarray, variances: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return g of the means, and the propagated variance."""
        variance = np.zeros(len(means))
        for j, sd in enumerate(np.sqrt(variances).T):
            shift = np.zeros_like(means)
            shift[:, j] = sd
            variance += 0.25 * (self.value(x, means + shift) - self.value(x, means - shift)) ** 2
        return self.value(x, means), variance


#: An objective of J components.
type Objective = Weighted | Nonlinear


@checked
def sampled_bounds(
    g: Callable[..., Any], low: npt.ArrayLike, high: npt.ArrayLike, seed: int = 0
) -> np.ndarray:
    """Return the largest differences of a function at random points of a box, with a margin of 5 %.

    Parameters
    ----------
    g : callable
        Function of J arrays (m,), with values (m,).
    low, high : array_like, shape (J,)
        Ranges of the components.
    seed : int

    Returns
    -------
    ndarray, shape (J,)

    Raises
    ------
    InputError
        If the box is empty, or g isn't finite somewhere.
    """
    check_seed(seed=seed)
    low, high = (np.atleast_1d(number_array("ends of the box", ends)) for ends in (low, high))
    if low.shape != high.shape or not (low < high).all():
        raise InputError(f"The box from {low} to {high} is empty. Give larger upper ends.")
    unit = qmc.Sobol(len(low), rng=np.random.default_rng(seed)).random(SAMPLES)
    slopes = _slopes(g, low + unit * (high - low), STEP * (high - low))
    bounds = MARGIN * np.abs(slopes).max(axis=0)
    if not np.isfinite(bounds).all():
        raise InputError(
            f"The derivative of g by component {int(np.argmax(~np.isfinite(bounds))) + 1} isn't "
            "finite somewhere in the box. Give a smaller box, or bounds."
        )
    return bounds


def _slopes(g: Callable[..., Any], points: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return central differences (m, J) of a function."""
    slopes = np.empty(points.shape)
    with np.errstate(all="ignore"):
        for j, step in enumerate(steps):
            ends = [np.asarray(g(*(points + s * np.eye(len(steps))[j]).T)) for s in (step, -step)]
            slopes[:, j] = (ends[0] - ends[1]) / (2 * step)
    return slopes
