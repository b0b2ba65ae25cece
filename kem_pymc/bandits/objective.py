"""Objectives of bandits: known functions of unknown components (definitions 1 and 2)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from pandas.api.types import is_list_like
from scipy.special import ndtr, ndtri
from scipy.stats import chi, qmc

from kem_pymc._system.options import check_choice, check_whole, checked
from kem_pymc.data.validation import filled, number_array
from kem_pymc.errors import InputError
from kem_pymc.gp.acquisition import log_expected_improvement

#: A known weight: a number, or a function of points (m, D) with values (m,).
type Weight = float | Callable[[np.ndarray], np.ndarray]

#: Means and variances, of objectives (m,) or of components (m, J).
type Moments = tuple[np.ndarray, np.ndarray]

#: Rules for the upper confidence bound of a `Composed` objective.
RuleName = Literal["quantile", "box", "theorem"]

#: Number of draws of the components, and largest number of values of g that are computed at once.
DRAWS, AT_ONCE = 512, 2**16

#: How far draws reach beyond the sphere on which the tail of a linear function begins.
BEYOND = 2.0

#: Weight of the improvement of a normal distribution beside that of draws, of which none may be.
FAINT = 1e-20


class _Objective(ABC):
    """What policies ask of an objective, given the moments (m, J) of its independent components.

    `sign` is 1 to maximise the objective, and -1 to minimise it.
    """

    #: Number of variables at a point of which the upper confidence bound takes care (theorem 8).
    joint: int = 1

    @abstractmethod
    def moments(self, x: np.ndarray, means: np.ndarray, variances: np.ndarray) -> Moments:
        """Return means and variances (m,) at points (m, D)."""

    def upper(
        self, x: np.ndarray, means: np.ndarray, variances: np.ndarray, reach: float, sign: float
    ) -> np.ndarray:
        """Return upper confidence bounds (m,), `reach` standard deviations above the means."""
        mean, variance = self.moments(x, means, variances)
        return sign * mean + reach * np.sqrt(variance)

    def log_improvement(
        self, x: np.ndarray, means: np.ndarray, variances: np.ndarray, best: float, sign: float
    ) -> np.ndarray:
        """Return logs of the expected improvement (m,) on a value."""
        mean, variance = self.moments(x, means, variances)
        return log_expected_improvement(-sign * mean, np.sqrt(variance), -sign * best)


@checked
class Weighted(_Objective):
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

    def moments(self, x: np.ndarray, means: np.ndarray, variances: np.ndarray) -> Moments:
        """Return means and variances (m,) at points (m, D) (algorithm 2)."""
        g = self.weights(x)
        return (g * means).sum(axis=1), (g**2 * variances).sum(axis=1)


@checked
class Composed(_Objective):
    """The objective ``f(x) = g(f_1(x), ..., f_J(x))`` (definition 2), where g may jump.

    Its mean, variance and expected improvement are those of g of independent normal components with
    their posterior moments. They, and the bounds, are computed with 512 quasi-random draws, which
    all points and rounds share.

    Parameters
    ----------
    g : callable
        Function of J arrays (m,), with values (m,). It has to be finite for all values that the
        components may have, also unlikely ones.
    count : int
        Number of components J.
    rule : {"quantile", "box", "theorem"}
        What the upper confidence bound is, where beta is beta_t with its factor.

        "quantile" is the quantile of g of the components at probability ``Phi(sqrt(beta))``. For a
        linear g it is ``mean + sqrt(beta) sd``, up to the error of the draws.

        "box" is the largest value of g at 512 points and the corners of the box of all components
        within ``sqrt(beta)`` standard deviations of their means. While theorem 8's components are
        in there, the objective is below the largest value in the box.

        "theorem" is the bound of algorithm 4, ``g(means) + sqrt(beta J sum_j B_j^2 sigma_j^2)``,
        nowhere below that of "box". A function that jumps has no bounds B_j.
    bounds : array_like, shape (J,), optional
        Bounds B_j of the absolute derivatives of g by its arguments, for "theorem".
    correlation : array_like, shape (J, J), optional
        Correlation matrix of the components' errors, which are independent by default; see
        :func:`kem_pymc.bandits.error_correlation`. The box and the theorem don't need it.

    Raises
    ------
    InputError
        If there is no such rule, or "theorem" has no bounds or another rule has some, or one is
        negative or infinite, or the correlation isn't a positive definite matrix with ones on its
        diagonal.
    """

    def __init__(
        self,
        g: Callable[..., Any],
        count: int,
        rule: RuleName = "quantile",
        bounds: npt.ArrayLike | None = None,
        correlation: npt.ArrayLike | None = None,
    ) -> None:
        check_whole(count=count)
        check_choice(get_args(RuleName), rule=rule)
        self.g, self.count, self.rule = g, int(count), rule
        self.bounds = number_array("bounds", [] if bounds is None else bounds)
        self.joint = 1 if rule == "quantile" else self.count
        needed = self.count if rule == "theorem" else 0
        if self.bounds.shape != (needed,) or not (self.bounds >= 0).all():
            raise InputError(
                f"The bounds of derivatives are {self.bounds}, and there are {count} components. "
                "Give one number, 0 or more, for each with the rule theorem, and else none."
            )

        given = np.eye(self.count) if correlation is None else correlation
        matrix = number_array("correlations", given)
        #: Cholesky factor (J, J) of the correlation of errors.
        self._root = _root(matrix, self.count)

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

    def moments(self, x: np.ndarray, means: np.ndarray, variances: np.ndarray) -> Moments:
        """Return means and variances (m,) at points (m, D)."""
        values = self._values(x, means, variances, self._drawn)
        parts = [(drawn.mean(axis=0), drawn.var(axis=0)) for drawn in values]
        mean, variance = map(np.concatenate, zip(*parts, strict=True))
        return mean, variance

    def upper(
        self, x: np.ndarray, means: np.ndarray, variances: np.ndarray, reach: float, sign: float
    ) -> np.ndarray:
        """Return upper confidence bounds (m,) by the rule, with sqrt(beta) as `reach`."""
        if self.rule == "theorem":
            spread = np.sqrt(self.count * variances @ self.bounds**2)
            return sign * self.value(x, means) + reach * spread
        if self.rule == "box":
            values = self._values(x, means, variances, reach * _cube(self.count))
            return np.concatenate([(sign * drawn).max(axis=0) for drawn in values])
        draws, weights = _tail(self.count, reach)
        tops = []
        for drawn in self._values(x, means, variances, draws @ self._root.T):
            falling = np.argsort(-sign * drawn, axis=0)
            above = np.cumsum(weights[falling], axis=0) > ndtr(-reach)
            place = np.take_along_axis(falling, above.argmax(axis=0)[None], axis=0)
            tops.append(sign * np.take_along_axis(drawn, place, axis=0)[0])
        return np.concatenate(tops)

    def log_improvement(
        self, x: np.ndarray, means: np.ndarray, variances: np.ndarray, best: float, sign: float
    ) -> np.ndarray:
        """Return logs of the expected improvement (m,) on a value."""
        logs = []
        for drawn in self._values(x, means, variances, self._drawn):
            gain = np.maximum(sign * (drawn - best), 0.0).mean(axis=0)
            # Points of which no draw improves are compared by normal distributions.
            mean, sd = sign * drawn.mean(axis=0), drawn.std(axis=0)
            faint = log_expected_improvement(-mean, sd, -sign * best) + np.log(FAINT)
            with np.errstate(divide="ignore"):
                logs.append(np.logaddexp(np.log(gain), faint))
        return np.concatenate(logs)

    @property
    def _drawn(self) -> np.ndarray:
        """Draws (n, J) of standardised errors."""
        return _normal(self.count) @ self._root.T

    def _values(
        self, x: np.ndarray, means: np.ndarray, variances: np.ndarray, draws: np.ndarray
    ) -> Iterator[np.ndarray]:
        """Yield values of g (n, some) of standardised draws (n, J), at a few points at a time."""
        size = max(1, AT_ONCE // len(draws))
        for first in range(0, max(len(means), 1), size):
            few = slice(first, first + size)
            sds = np.sqrt(variances[few])
            # Component by component, so that g computes with arrays without gaps.
            shifted = means[few].T[:, None] + draws.T[:, :, None] * sds.T[:, None]
            yield self.value(x, shifted.reshape(self.count, -1).T).reshape(len(draws), -1)


def _root(correlation: np.ndarray, count: int) -> np.ndarray:
    """Return the Cholesky factor (J, J) of a correlation matrix."""
    ones = correlation.shape == (count, count) and np.allclose(np.diag(correlation), 1.0)
    if ones and np.allclose(correlation, correlation.T):
        try:
            return np.linalg.cholesky(correlation)
        except np.linalg.LinAlgError:
            pass
    raise InputError(
        f"The correlations {correlation.tolist()} aren't a positive definite matrix of {count} "
        "rows and columns with ones on its diagonal. Give one."
    )


@lru_cache(maxsize=16)
def _uniform(count: int) -> np.ndarray:
    """Return quasi-random numbers (n, J + 1) between 0 and 1."""
    unit = qmc.Sobol(count + 1, rng=np.random.default_rng(0)).random(DRAWS)
    return np.clip(unit, 1e-12, 1 - 1e-12)


def _normal(count: int) -> np.ndarray:
    """Return draws (n, J) of standard normal variables."""
    return ndtri(_uniform(count)[:, :count])


@lru_cache(maxsize=16)
def _cube(count: int) -> np.ndarray:
    """Return points (n, J) of the cube from -1 to 1, with the centre, and its corners."""
    inside = 2 * _uniform(count)[:, :count] - 1
    return np.vstack([np.zeros(count), inside, np.unique(np.sign(inside), axis=0)])


@lru_cache(maxsize=16)
def _tail(count: int, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Return draws (n, J) of standard normal variables, and weights (n,) whose sum is one.

    Draws have distances from zero that are as often far as near, up to beyond where a linear
    function is `reach` standard deviations from its mean. Of 512 draws themselves 1 or none would
    be above the quantiles of upper confidence bounds.
    """
    normal = _normal(count)
    distance = (np.hypot(reach, np.sqrt(count)) + BEYOND) * _uniform(count)[:, count]
    weights = chi(count).pdf(distance)
    draws = normal * (distance / np.linalg.norm(normal, axis=1))[:, None]
    return draws, weights / weights.sum()


#: An objective of J components.
type Objective = Weighted | Composed
