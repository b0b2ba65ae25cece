"""Log likelihood and log prior of coordinates, with gradients, as compiled functions."""

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from kem_pymc._system.jit.decorators import FunctionPointer, compiled, pointer, types
from kem_pymc._system.jit.structs import by_reference
from kem_pymc.gp.likelihood import HALF_LOG_2PI, blocked_gradient, weighted_gradient
from kem_pymc.kernels.library import KernelPointers
from kem_pymc.kernels.pool import PoolLayout


@by_reference
class Prior(NamedTuple):
    """A log prior density of coordinates: independent normals, the study's priors, or flat.

    It is created by :func:`flat_prior`, :func:`normal_prior` or
    :func:`kem_pymc.selection.scorer.study_prior`.

    Attributes
    ----------
    centre, precision : (k + 1,) float64
        Means and inverse variances of the normals. A precision of zero means a flat density of 1.
    entries : (k,) int64
        Entries of the study's table of priors; empty if the table isn't used.
    parent : (C,) bool
        Inclusion indicators of the parent composition, on which the noise's prior depends.
    log_density, gradient, noise_log_density, noise_gradient : pointer
        Compiled functions, as in :class:`kem_pymc.priors.compiled_table.PriorTable`.
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
    kernels, layout : KernelPointers, PoolLayout
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
    known : (n, largest number of points of a data set) float64
        Known covariances at the points of each data set, stacked by rows; the upper triangles are
        read. Shape (0, 0) if there are none.
    factors : (n,) float64
        Factors of the noise variance; shape (0,) if all are one.
    prior : Prior
    blocked : bool
        Whether LAPACK's blocked routines evaluate the likelihood of one data set, in which all
        weights are one.
    """

    kernels: KernelPointers
    layout: PoolLayout
    active: np.ndarray
    places: np.ndarray
    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    starts: np.ndarray
    known: np.ndarray
    factors: np.ndarray
    prior: Prior
    blocked: bool = False


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
    gradient zero. With a gradient of shape (0,) only the values are computed, in less than half of
    the time.
    """
    wanted = gradient.shape[0] > 0
    k = values.shape[0] - 1
    size = problem.layout.positive.shape[0]
    h = np.zeros(size)
    slope = np.zeros(size + 1 if wanted else 0)
    counts = np.zeros(2, dtype=np.int64)
    for i in range(k):
        h[problem.places[i]] = values[i]
    likelihood = 0.0
    if problem.blocked:
        likelihood = blocked_gradient(
            problem.kernels,
            problem.layout,
            problem.active,
            h,
            values[k],
            problem.x,
            problem.y,
            problem.known,
            problem.factors,
            slope,
            counts,
        )
    for b in range(0 if problem.blocked else problem.starts.shape[0] - 1):
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
            problem.known[first:last],
            problem.factors[first:last],
            slope,
            counts,
        )
    if not wanted:
        density = log_prior(problem.prior, values, np.empty(k + 1))
        if not (math.isfinite(likelihood) and math.isfinite(density)):
            return -math.inf, 0.0
        return likelihood, density
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
def differenced(before, after, step):
    """Return minus a Hessian (d, d) by differences of the gradient.

    Parameters
    ----------
    before : (d,) or (d, d) float64
        The gradient, or gradients before a step along each coordinate, one a row.
    after : (d, d) float64
        Gradients after the steps.
    step : float
        Length of the steps.
    """
    curvature = (before - after) / step
    return 0.5 * (curvature + curvature.T)


@compiled
def evaluate_all(problem, points, heights, gradients):
    """Write log likelihood plus log prior at points (m, k + 1), and its gradients, to arrays.

    With an array of gradients of shape (0, k + 1) only the sums are computed.
    """
    for i in range(points.shape[0]):
        gradient = gradients[i] if gradients.shape[0] > 0 else np.empty(0)
        likelihood, density = evaluate(problem, points[i], gradient)
        heights[i] = likelihood + density
