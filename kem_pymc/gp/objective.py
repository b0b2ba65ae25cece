"""The objective of a fit: the log likelihood of one data set plus an optional log prior.

Both are functions of a composition's *coordinates* (k + 1,): in the pool's order, the logs of its
positive hyperparameters and the values of the others, then the log of the noise variance.
"""

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from kem_pymc.compiled import FunctionPointer, compiled, pointer, types
from kem_pymc.errors import InputError
from kem_pymc.gp.likelihood import HALF_LOG_2PI, as_active, weighted_gradient
from kem_pymc.gp.mean_process import MeanAtPoints
from kem_pymc.kernels.composition import Composition, Hyperparameter
from kem_pymc.kernels.library import Kernels, kernels
from kem_pymc.kernels.pool import CandidatePool, Layout
from kem_pymc.prior_table import NOISE_FLOOR
from kem_pymc.references import by_reference

if TYPE_CHECKING:
    from kem_pymc.prior_table import PriorTable


#: Height, gradient (d,) and curvature (d, d) of an objective at coordinates (d,).
type Curvature = tuple[float, np.ndarray, np.ndarray]

#: Number of points from which on LAPACK is faster than the compiled loops.
LARGE = 600


@dataclass(frozen=True)
class Coordinates:
    """The coordinates of one composition, with conversions from and to hyperparameters.

    Parameters
    ----------
    pool : CandidatePool
    composition : Composition

    Raises
    ------
    InputError
        If the pool lacks one of the composition's candidates.
    """

    pool: CandidatePool
    composition: Composition

    def __post_init__(self) -> None:
        self.inclusion  # noqa: B018  refuses compositions from elsewhere at once

    @cached_property
    def inclusion(self) -> np.ndarray:
        """Inclusion indicators of the candidates, (C,) bool."""
        return self.pool.inclusion(self.composition)

    @cached_property
    def places(self) -> np.ndarray:
        """Indices of the hyperparameters in the pool's vector (H,): int64, (k,)."""
        return np.flatnonzero(self.pool.active(self.inclusion))

    @cached_property
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """The k hyperparameters in the order of the coordinates."""
        return tuple(self.pool.hyperparameters[i] for i in self.places)

    @cached_property
    def positive(self) -> np.ndarray:
        """Which coordinates are logs, (k + 1,) bool; that of the noise, the last, is one."""
        return np.append(self.pool.layout.positive[self.places], True)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the k + 1 coordinates, e.g. ``log SE0.lengthscale``; the last is the noise's."""
        logs = (f"log {h.name}" if h.positive else h.name for h in self.hyperparameters)
        return (*logs, "log noise")

    def __len__(self) -> int:
        return len(self.places) + 1

    def expand(self, values: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the pool's vector (H,), zero where no candidate is active, and the log noise."""
        h = np.zeros(len(self.pool.hyperparameters))
        h[self.places] = values[:-1]
        return h, float(values[-1])

    def named(self, values: np.ndarray) -> tuple[dict[str, float], float]:
        """Return the hyperparameters' natural values by name, and the noise variance."""
        natural = {
            h.name: float(np.exp(v) if h.positive else v)
            for h, v in zip(self.hyperparameters, values[:-1], strict=True)
        }
        return natural, math.exp(values[-1])

    def from_named(self, hyperparameters: Mapping[str, float], noise: float) -> np.ndarray:
        """Return the coordinates of natural values by name; other names are ignored.

        Raises
        ------
        InputError
            If a value is missing or out of range.
        """
        natural = [hyperparameters.get(h.name, math.nan) for h in self.hyperparameters]
        return self.from_natural(np.array(natural), noise)

    def from_natural(self, hyperparameters: np.ndarray, noise: float) -> np.ndarray:
        """Return the coordinates of natural values (k,) and a noise variance.

        Raises
        ------
        InputError
            If a value isn't finite, or isn't positive where it must be.
        """
        natural = np.append(hyperparameters, noise)
        wrong = ~np.isfinite(natural) | (self.positive & (natural <= 0))
        if wrong.any():
            name = [*(h.name for h in self.hyperparameters), "noise"][int(np.argmax(wrong))]
            raise InputError(
                f"{name} of {self.composition} is {natural[np.argmax(wrong)]}. "
                "Give a finite value, positive unless it is a shift."
            )
        natural[self.positive] = np.log(natural[self.positive])
        return natural


@by_reference
class Prior(NamedTuple):
    """A log prior density of coordinates: independent normals, the study's priors, or flat.

    It is created by :func:`flat_prior`, :func:`normal_prior` or :func:`study_prior`.

    Attributes
    ----------
    centre, precision : (k + 1,) float64
        Means and inverse variances of the normals. A precision of zero means a flat density of 1.
    entries : (k,) int64
        Entries of the study's table of priors; empty if the table isn't used.
    parent : (C,) bool
        Inclusion indicators of the parent composition, on which the noise's prior depends.
    log_density, gradient, noise_log_density, noise_gradient : pointer
        Compiled functions, as in :class:`kem_pymc.prior_table.PriorTable`.
    population : (P,) float64
        Natural values of the population parameters, which are arguments of the compiled functions.
    from_study : bool
        Whether the study's table of priors is used.
    """

    centre: np.ndarray
    precision: np.ndarray
    entries: np.ndarray
    parent: np.ndarray
    log_density: FunctionPointer
    gradient: FunctionPointer
    noise_log_density: FunctionPointer
    noise_gradient: FunctionPointer
    population: np.ndarray
    from_study: bool


def flat_prior(size: int) -> Prior:
    """Return a flat prior, of density 1, of `size` coordinates, for fits by maximum likelihood."""
    return normal_prior(np.zeros(size), np.full(size, np.inf))


def normal_prior(centre: np.ndarray, spread: np.ndarray) -> Prior:
    """Return independent normal priors, e.g. for a child composition from pilot users' clusters.

    Parameters
    ----------
    centre, spread : ndarray, shape (k + 1,)
        Means and standard deviations; an infinite spread means a flat density of 1.

    Returns
    -------
    Prior
    """
    entry, noise = _no_study()
    return Prior(
        centre=np.array(centre, dtype=np.float64),
        precision=1 / np.array(spread, dtype=np.float64) ** 2,
        entries=np.empty(0, dtype=np.int64),
        parent=np.empty(0, dtype=np.bool_),
        log_density=entry,
        gradient=entry,
        noise_log_density=noise,
        noise_gradient=noise,
        population=np.empty(0),
        from_study=False,
    )


def study_prior(priors: "PriorTable", coordinates: Coordinates, parent: Composition) -> Prior:
    """Return the study's priors for a composition, given its parent composition.

    Parameters
    ----------
    priors : kem_pymc.prior_table.PriorTable
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


@cache
def _no_study() -> tuple[FunctionPointer, FunctionPointer]:
    """Return placeholder pointers for priors that don't use the study's table.

    With them all priors have the same type, so that the optimiser is compiled only once.
    """
    source = "def nothing(which, v, population):\n    return 0.0"
    values = types.float64[::1]
    entry = types.float64(types.int64, types.float64, values)
    noise = types.float64(types.boolean[::1], types.float64, values)
    return (
        pointer(source, "nothing", entry, {}, "entry"),
        pointer(source, "nothing", noise, {}, "noise"),
    )


@by_reference
class Problem(NamedTuple):
    """Arguments of the compiled objective other than the coordinates; see :class:`Objective`.

    It holds one data set, or several that share a kernel but aren't correlated, such as those of
    the users in a cluster.

    Attributes
    ----------
    kernels, layout : Kernels, Layout
    active : (number of candidates,) int64
        Indices of the composition's candidates in the pool.
    places : (k,) int64
        Indices of the composition's hyperparameters among those of the pool.
    x, y : (D, n), (n,) float64
        Points of all data sets, one data set after the other.
    weights : (n,) float64
        Number of times that each point's conditional log density counts, see
        :func:`~kem_pymc.gp.likelihood.weighted_gradient`.
    starts : (number of data sets + 1,) int64
        Data set b consists of the points ``starts[b]:starts[b + 1]``.
    shared : (n, largest number of points of a data set) float64
        Covariances of the mean process at the points of each data set, stacked by rows; the upper
        triangles are read. Shape (0, 0) if there is no mean process.
    prior : Prior
    """

    kernels: Kernels
    layout: Layout
    active: np.ndarray
    places: np.ndarray
    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    starts: np.ndarray
    shared: np.ndarray
    prior: Prior


@compiled
def log_prior(prior, values, gradient):
    """Return the log prior at `values` (k + 1,); add its gradient to `gradient` (k + 1,)."""
    k = values.shape[0] - 1
    total = 0.0
    for i in range(k + 1):
        if prior.precision[i] > 0.0:
            distance = values[i] - prior.centre[i]
            total -= 0.5 * prior.precision[i] * distance * distance + HALF_LOG_2PI
            total += 0.5 * math.log(prior.precision[i])
            gradient[i] -= prior.precision[i] * distance
    if prior.from_study:
        population = prior.population
        for i in range(k):
            total += prior.log_density(prior.entries[i], values[i], population)
            gradient[i] += prior.gradient(prior.entries[i], values[i], population)
        total += prior.noise_log_density(prior.parent, values[k], population)
        gradient[k] += prior.noise_gradient(prior.parent, values[k], population)
    return total


@compiled
def noise_log_prior(prior, log_noises, out):
    """Write the log prior of log noise variances (m,) to `out` (m,): zeros for a flat prior."""
    k = prior.centre.shape[0] - 1
    for i in range(log_noises.shape[0]):
        out[i] = 0.0
        if prior.precision[k] > 0.0:
            distance = log_noises[i] - prior.centre[k]
            out[i] -= 0.5 * prior.precision[k] * distance * distance + HALF_LOG_2PI
            out[i] += 0.5 * math.log(prior.precision[k])
        if prior.from_study:
            out[i] += prior.noise_log_density(prior.parent, log_noises[i], prior.population)


@compiled
def evaluate(problem, values, gradient):
    """Return log likelihood and log prior at `values`; write the sum's gradient to `gradient`.

    Where either of them or the gradient isn't finite, the log likelihood is minus infinity and the
    gradient zero.
    """
    k = values.shape[0] - 1
    size = problem.layout.positive.shape[0]
    h = np.zeros(size)
    slope = np.zeros(size + 1)
    counts = np.zeros(2, dtype=np.int64)
    for i in range(k):
        h[problem.places[i]] = values[i]
    likelihood = 0.0
    for b in range(problem.starts.shape[0] - 1):
        first, last = problem.starts[b], problem.starts[b + 1]
        likelihood += weighted_gradient(
            problem.kernels,
            problem.layout,
            problem.active,
            h,
            values[k],
            problem.x[:, first:last],
            problem.y[first:last],
            problem.weights[first:last],
            problem.shared[first:last],
            slope,
            counts,
        )
    for i in range(k):
        gradient[i] = slope[problem.places[i]]
    gradient[k] = slope[size]
    density = log_prior(problem.prior, values, gradient)
    finite = math.isfinite(likelihood) and math.isfinite(density)
    for i in range(k + 1):
        finite = finite and math.isfinite(gradient[i])
    if not finite:
        gradient[:] = 0.0
        return -math.inf, 0.0
    return likelihood, density


@compiled
def evaluate_all(problem, points, heights, gradients):
    """Write log likelihood plus log prior at points (m, k + 1), and its gradients, to arrays."""
    for i in range(points.shape[0]):
        likelihood, density = evaluate(problem, points[i], gradients[i])
        heights[i] = likelihood + density


class Objective:
    """The log likelihood of one data set under one composition, plus a log prior.

    Parameters
    ----------
    coordinates : Coordinates
    x : ndarray, shape (n, D)
        Inputs, in the units of the hyperparameters.
    y : ndarray, shape (n,)
        Targets.
    prior : Prior, optional
        Prior of the coordinates; flat by default.
    noise_floor : float
        Smallest noise variance of fits, at which the evidence censors the prior. The objective
        itself is defined below it, too.
    shared : MeanAtPoints, optional
        Mean function shared by all users, at the same inputs: its mean is subtracted from the
        targets, and its covariance added to that of the composition.
    """

    def __init__(
        self,
        coordinates: Coordinates,
        x: np.ndarray,
        y: np.ndarray,
        prior: Prior | None = None,
        noise_floor: float = NOISE_FLOOR,
        shared: MeanAtPoints | None = None,
    ) -> None:
        self.coordinates = coordinates
        self.noise_floor = noise_floor
        self.shared = shared
        #: Cache by coordinates: the evidence and draws of values need the same curvature.
        self.curvatures: dict[bytes, Curvature] = {}
        #: The targets (n,), before the shared mean is subtracted.
        self.targets = y = np.array(y, dtype=np.float64)
        self.problem = Problem(
            kernels=kernels(),
            layout=coordinates.pool.layout,
            active=as_active(coordinates.inclusion),
            places=coordinates.places,
            x=np.array(np.transpose(x), dtype=np.float64, order="C"),
            y=y if shared is None else y - shared.mean,
            weights=np.ones(len(y)),
            starts=np.array([0, len(y)]),
            shared=np.empty((0, 0)) if shared is None else shared.covariance,
            prior=flat_prior(len(coordinates)) if prior is None else prior,
        )

    @property
    def n_points(self) -> int:
        """Number of points n."""
        return len(self.problem.y)

    @property
    def is_large(self) -> bool:
        """Whether LAPACK evaluates the objective, not compiled loops; decided only here."""
        return self.n_points >= LARGE

    def with_prior(self, prior: Prior) -> Self:
        """Return the same likelihood with another prior."""
        objective = copy(self)
        objective.problem = self.problem._replace(prior=prior)
        objective.curvatures = {}
        return objective

    def evaluate(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log likelihood plus log prior (m,) and its gradients (m, k + 1) at given points.

        Where either term or a slope isn't finite, the sum is minus infinity and the gradient zero.

        Parameters
        ----------
        points : ndarray, shape (m, k + 1)
            Coordinates, one point per row.

        Returns
        -------
        heights : ndarray, shape (m,)
        gradients : ndarray, shape (m, k + 1)
        """
        heights, gradients = np.empty(len(points)), np.empty(points.shape)
        if self.is_large:
            from kem_pymc.gp.large import evaluate_large

            for i, values in enumerate(points):
                likelihood, density, gradients[i] = evaluate_large(self.problem, values)
                heights[i] = likelihood + density
        else:
            evaluate_all(self.problem, np.ascontiguousarray(points), heights, gradients)
        return heights, gradients

    def terms(self, values: np.ndarray) -> tuple[float, float]:
        """Return log likelihood and log prior at coordinates (k + 1,)."""
        values, gradient = np.array(values, dtype=np.float64), np.empty(len(values))
        if self.is_large:
            from kem_pymc.gp.large import evaluate_large

            return evaluate_large(self.problem, values)[:2]
        return evaluate(self.problem, values, gradient)

    def gradient(self, values: np.ndarray) -> np.ndarray:
        """Return the gradient of the sum at coordinates (k + 1,); zeros where it isn't finite."""
        return self.evaluate(np.array(values, dtype=np.float64)[None])[1][0]
