"""What a fit maximises: the log likelihood of one data set, perhaps with a log prior.

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


#: Height, gradient (d,) and curvature (d, d) of an objective at some coordinates.
type Curvature = tuple[float, np.ndarray, np.ndarray]

#: From so many points on LAPACK is faster than the compiled loops.
LARGE = 600


@dataclass(frozen=True)
class Coordinates:
    """The coordinates of one composition: which hyperparameters they are, and back.

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
        """Where the hyperparameters lie in the engine's vector (H,): int64, (k,)."""
        return np.flatnonzero(self.pool.active(self.inclusion))

    @cached_property
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """The k hyperparameters in the order of the coordinates."""
        return tuple(self.pool.hyperparameters[i] for i in self.places)

    @cached_property
    def positive(self) -> np.ndarray:
        """Which coordinates are logs, (k + 1,) bool: the last, the noise's, is."""
        return np.append(self.pool.layout.positive[self.places], True)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the k + 1 coordinates are, e.g. ``log SE0.lengthscale``; the last is the noise's."""
        logs = (f"log {h.name}" if h.positive else h.name for h in self.hyperparameters)
        return (*logs, "log noise")

    def __len__(self) -> int:
        return len(self.places) + 1

    def expand(self, values: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the engine's vector (H,), zero where nothing is active, and the log noise."""
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
        """Return the coordinates of natural values by name; other names are left out.

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
            If one isn't finite, or not positive where it must be.
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
    """A log density of coordinates: independent normals, or the study's priors, or flat.

    Make one with :func:`flat_prior`, :func:`normal_prior` or :func:`study_prior`.

    Attributes
    ----------
    centre, precision : (k + 1,) float64
        Means and inverse variances of normals. A precision of zero means a flat density of 1.
    entries : (k,) int64
        Entries of the study's table; empty where it isn't used.
    parent : (C,) bool
        Inclusion indicators of the parent composition, on which the noise's prior depends.
    log_density, gradient, noise_log_density, noise_gradient : pointer
        As in :class:`kem_pymc.prior_table.PriorTable`.
    population : (P,) float64
        Natural values of the population parameters, for the pointers.
    from_study : bool
        Whether the pointers are called.
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
    """Return the density 1 for `size` coordinates: the fit is one of maximum likelihood."""
    return normal_prior(np.zeros(size), np.full(size, np.inf))


def normal_prior(centre: np.ndarray, spread: np.ndarray) -> Prior:
    """Return independent normals, e.g. what pilot users' clusters say about a child.

    Parameters
    ----------
    centre, spread : ndarray, shape (k + 1,)
        Means and standard deviations; an infinite spread means a flat density of 1.
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
    """Return the study's priors for a composition below a parent composition.

    Parameters
    ----------
    priors : kem_pymc.prior_table.PriorTable
        Densities of unconstrained coordinates.
    coordinates : Coordinates
    parent : Composition

    Raises
    ------
    InputError
        If the parent isn't made of the pool's candidates.
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
    """Return pointers that stand where the study's priors aren't used.

    They keep one type for all priors, so that the optimiser is compiled once.
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
    """Everything the compiled objective needs but the coordinates; see :class:`Objective`.

    It is about one data set, or about several that share a kernel but aren't correlated: those of
    the users in a cluster.

    Attributes
    ----------
    kernels, layout : Kernels, Layout
    active : (number of candidates,) int64
    places : (k,) int64
        Where the composition's hyperparameters lie among those of the pool.
    x, y : (D, n), (n,) float64
        Points of all data sets, one data set after the other.
    weights : (n,) float64
        How often each point's conditional log density counts, see
        :func:`~kem_pymc.gp.likelihood.weighted_gradient`.
    starts : (number of data sets + 1,) int64
        Data set b holds the points ``starts[b]`` to ``starts[b + 1]``.
    shared : (n, most points of a data set) float64
        Covariances of the mean process at the points of each data set, one below the other; the
        upper triangles are read. (0, 0) where users share nothing.
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
    """Return the log density at `values` (k + 1,); add its gradient to `gradient` (k + 1,)."""
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
    """Write the log densities of log noise variances (m,) to `out` (m,); a flat prior has 0."""
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

    Where either isn't finite, the log likelihood is minus infinity and the gradient zero.
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
    """Write log likelihood plus log prior at points (m, k + 1), and their gradients."""
    for i in range(points.shape[0]):
        likelihood, density = evaluate(problem, points[i], gradients[i])
        heights[i] = likelihood + density


class Objective:
    """The log likelihood of one data set under one composition, plus a log prior.

    Parameters
    ----------
    coordinates : Coordinates
    x : ndarray, shape (n, D)
        Inputs, in the units in which the hyperparameters are.
    y : ndarray, shape (n,)
    prior : Prior, optional
        Flat by default.
    noise_floor : float
        Smallest noise variance of fits, and where the evidence censors the prior. The objective
        itself has values below it, too.
    shared : MeanAtPoints, optional
        What users share, at the same inputs: its mean is taken off the targets, its covariance
        added to that of the composition.
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
        #: By coordinates: the evidence and draws of values need the same one.
        self.curvatures: dict[bytes, Curvature] = {}
        #: The targets (n,), with the shared mean in them.
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
        """n."""
        return len(self.problem.y)

    @property
    def is_large(self) -> bool:
        """Whether LAPACK evaluates the objective: the one place where that is decided."""
        return self.n_points >= LARGE

    def with_prior(self, prior: Prior) -> Self:
        """Return the same likelihood with another prior."""
        objective = copy(self)
        objective.problem = self.problem._replace(prior=prior)
        objective.curvatures = {}
        return objective

    def evaluate(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log likelihood plus log prior (m,) and gradients (m, k + 1) at some points.

        Where either term or a slope isn't finite, the sum is minus infinity, the gradient zero.

        Parameters
        ----------
        points : ndarray, shape (m, k + 1)
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
        """Return the gradient of the sum at coordinates (k + 1,); zeros where it has none."""
        return self.evaluate(np.array(values, dtype=np.float64)[None])[1][0]
