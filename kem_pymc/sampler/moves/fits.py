"""Laplace approximations to the posterior of a cluster's values, with a cache.

A deterministic search finds a mode of the cluster's conditional posterior, and the curvature there,
from the members, the composition and the parent composition alone. A fit that has been made before
can therefore be taken from the cache, and draws don't depend on whether it was. Population
parameters of the priors have their reference values in fits, because a fit is a proposal and may
not depend on anything that changes.
"""

import math

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc._system.jit.simd import padded
from kem_pymc._system.jit.structs import reference
from kem_pymc.gp.cholesky import cholesky
from kem_pymc.gp.covariance import covariance
from kem_pymc.gp.likelihood import first_point
from kem_pymc.gp.maximise import climb
from kem_pymc.gp.problem import Prior, Problem, differenced, evaluate
from kem_pymc.sampler.fit_cache import LARGEST, MEMORY
from kem_pymc.sampler.state import hyperparameter_places, same_row

#: Degrees of freedom of the Student t proposal, so that its tails are heavier than those of the
#: posterior that it approximates.
DEGREES = 5.0

#: A search ends when the gain in log density that it expects is at most `ENOUGH`. It keeps
#: coordinates within plus or minus `FAR`.
ENOUGH, FAR = 0.1, 25.0

#: Step of the finite differences of the gradient that give the curvature.
STEP = 1e-3

#: Starting points of searches, one a row: the number of scales added to the priors' medians, and
#: the log of the noise's share of the targets' variance. Searches start from the best `RUNS`.
LEVELS = np.array([[0.0, -3.0], [0.0, -1.0], [1.5, -3.0], [1.5, -1.0], [-1.5, -3.0]])
RUNS = 2

#: Number of points over which a candidate's variance is averaged.
SAMPLE = 8

#: Curvature that is added for every coordinate, in units of its prior's scale. It is multiplied by
#: ten until the curvature is positive definite.
RIDGE = 0.05


@compiled
def problem_of(model, members, included, parent):
    """Return the log likelihood and prior of `members` (N,) under a composition, as a Problem."""
    layout = model.layout
    active = np.flatnonzero(included)
    places = hyperparameter_places(layout, included)
    size = places.shape[0]
    x, y, weights, starts, known, factors = _data(model, members)
    priors = model.priors
    prior = Prior(
        np.zeros(size + 1),
        np.zeros(size + 1),
        priors.entry[places],
        parent.copy(),
        priors.log_density,
        priors.gradient,
        priors.noise_log_density,
        priors.noise_gradient,
        priors.reference,
        True,
    )
    return Problem(
        model.kernels, layout, active, places, x, y, weights, starts, known, factors, prior, False
    )


@compiled
def _data(model, members):
    """Return points, targets, weights, starts, known covariances and noise's factors of members.

    Where datasets are prefixes of one another, all members of a user are combined into one data
    set, in which each point is weighted by the number of members that have it in their likelihood.
    All weights are multiplied by the likelihood power.
    """
    data = model.data
    last = np.full(model.first_dataset.shape[0], -1)  # last member of every user
    for d in np.flatnonzero(members):
        last[model.user[d]] = d
    whole = np.zeros(members.shape[0], dtype=np.bool_)  # members that become data sets
    points = 0
    for d in np.flatnonzero(members):
        whole[d] = model.power > 0.0 and (not data.nested or d == last[model.user[d]])
        points += whole[d] * data.ends[model.user[d], model.time_step[d]]
    x = np.empty((data.x.shape[1], points))
    y = np.empty(points)
    weights = np.empty(points)
    starts = np.zeros(np.sum(whole) + 1, dtype=np.int64)
    any_known = data.known.shape[0] > 0
    known = np.empty((points, data.known.shape[1]) if any_known else (0, 0))
    factors = np.empty(points if data.factors.shape[0] > 0 else 0)
    for b, d in enumerate(np.flatnonzero(whole)):
        user, time_step, start = model.user[d], model.time_step[d], starts[b]
        n = data.ends[user, time_step]
        x[:, start : start + n] = data.x[user, :, :n]
        y[start : start + n] = data.y[user, time_step, :n]
        if any_known:
            known[start : start + n] = data.known[user, :n]
        if data.factors.shape[0] > 0:
            factors[start : start + n] = data.factors[user, :n]
        weights[start : start + n] = 0.0 if data.nested else model.power
        if data.nested:
            for earlier in range(model.first_dataset[user], d + 1):
                if members[earlier]:
                    begin = first_point(data, user, model.time_step[earlier])
                    end = data.ends[user, model.time_step[earlier]]
                    weights[start + begin : start + end] += model.power
        starts[b + 1] = start + n
    return x, y, weights, starts, known, factors


@compiled
def log_unit_variance(model, problem, candidate):
    """Return the log of a candidate's mean variance at unit amplitude and prior medians."""
    n = min(problem.y.shape[0], SAMPLE)
    covariances, scratch = np.empty((n, n)), np.empty((n, n))
    only = np.array([candidate])
    theta = model.priors.centre.copy()
    theta[model.layout.hyper_start[candidate]] = 0.0
    x = np.ascontiguousarray(problem.x[:, :n])
    covariance(model.kernels, model.layout, only, theta, x, covariances, scratch)
    total = 1e-6
    for i in range(n):
        total += covariances[i, i] / n
    return math.log(total)


@compiled
def starting_points(model, problem):
    """Return the starting points (s, d) of searches, see `LEVELS`.

    In all of them amplitudes and noise are scaled to the variance of the targets.
    """
    layout, places = model.layout, problem.places
    points = np.empty((LEVELS.shape[0], places.shape[0] + 1))
    variance = math.log(1e-3 + np.mean(problem.y * problem.y)) if problem.y.shape[0] > 0 else 0.0
    size = problem.active.shape[0]
    for s in range(points.shape[0]):
        points[s, :-1] = model.priors.centre[places] + LEVELS[s, 0] * model.priors.scale[places]
        points[s, -1] = variance + LEVELS[s, 1]
    k = 0
    for c in problem.active:
        if problem.y.shape[0] > 0:
            points[:, k] = variance - math.log(size) - log_unit_variance(model, problem, c)
        k += layout.hyper_start[c + 1] - layout.hyper_start[c]
    return points


@compiled
def approximate(model, problem, counts):
    """Return the Laplace approximation to a problem, and add factorisations to ``counts[0]``.

    Returns
    -------
    centre : (d,) float64
        The mode.
    factor : (d, d) float64
        Upper triangle U with curvature U'U.
    best : float
        Log density at the mode.
    """
    problem = reference(problem)
    points = starting_points(model, problem)
    n, d = points.shape
    gradient = np.empty(d)
    heights = np.empty(n)
    for s in range(n):
        likelihood, density = evaluate(problem, points[s], gradient)
        heights[s] = likelihood + density
    evaluations = n + 1 + d
    low, high = np.full(d, -FAR), np.full(d, FAR)
    centre = points[0].copy()
    best = -math.inf
    for s in np.argsort(-heights, kind="mergesort")[:RUNS]:
        if heights[s] == -math.inf:
            break
        values = points[s].copy()
        height, used, _ = climb(problem, values, low, high, ENOUGH)
        evaluations += used
        if height > best:
            best = height
            centre[:] = values
    evaluate(problem, centre, gradient)
    gradients = np.empty((d, d))
    for i in range(d):
        shifted = centre.copy()
        shifted[i] += STEP
        evaluate(problem, shifted, gradients[i])
    curvature = differenced(gradient, gradients, STEP)
    counts[0] += evaluations * (problem.starts.shape[0] - 1)
    factor = np.empty((d, padded(d)))
    ridge = RIDGE
    while True:
        for i in range(d):
            for j in range(d):
                factor[i, j] = curvature[i, j]
            scale = model.priors.scale[problem.places[i]] if i < d - 1 else 1.0
            factor[i, i] += ridge / (scale * scale)
        if cholesky(factor, d, 0) == d:
            return centre, np.ascontiguousarray(factor[:, :d]), best
        ridge *= 10.0


@compiled
def place_of(key):
    """Return the index in the cache of the fit with a key (bool)."""
    digest = 1469598103934665603
    for bit in key:
        digest = (digest ^ int(bit)) * 1099511628211
    return (digest ^ (digest >> 32)) & (MEMORY - 1)


@compiled
def fit_cluster(model, state, cluster, included, parent):
    """Return the Laplace approximation for members under a composition, from a cache if small.

    Returns
    -------
    places : (k,) int64
        Indices of the hyperparameters among those of the pool.
    centre : (k + 1,) float64
        The mode; the log noise is last.
    factor : (k + 1, k + 1) float64
        Upper triangle U with curvature U'U.
    """
    members = state.assignment == cluster
    problem = problem_of(model, members, included, parent)
    d = problem.places.shape[0] + 1
    if d > LARGEST:
        centre, factor, _ = approximate(model, problem, state.factorisations)
        return problem.places, centre, factor
    fits = model.fits
    key = np.concatenate((members, included, parent))
    place = place_of(key)
    high, low = digest_of(problem)
    same_data = fits.data[place, 0] == high and fits.data[place, 1] == low
    if same_data and same_row(fits.key[place], key):
        return problem.places, fits.centre[place, :d].copy(), fits.factor[place, :d, :d].copy()
    centre, factor, _ = approximate(model, problem, state.factorisations)
    fits.key[place] = key
    fits.data[place, 0], fits.data[place, 1] = high, low
    fits.centre[place, :d] = centre
    fits.factor[place, :d, :d] = factor
    return problem.places, centre, factor


@compiled
def digest_of(problem):
    """Return a digest of targets and weights as two numbers of 32 bits."""
    digest = np.uint64(14695981039346656037)
    for values in (problem.y, problem.weights):
        for word in values.view(np.uint64):
            # Multiplication moves differences to higher bits, the shift to lower ones.
            digest = (digest ^ word) * np.uint64(1099511628211)
            digest ^= digest >> np.uint64(32)
    return float(digest >> np.uint64(32)), float(digest & np.uint64(0xFFFFFFFF))


@compiled
def draw_values(centre, factor, rng):
    """Draw values (d,) from the Student t distribution around a Laplace approximation."""
    d = centre.shape[0]
    stretch = math.sqrt(DEGREES / rng.chisquare(DEGREES))
    values = np.empty(d)
    for i in range(d):
        values[i] = stretch * rng.normal()
    for i in range(d - 1, -1, -1):
        for j in range(i + 1, d):
            values[i] -= factor[i, j] * values[j]
        values[i] /= factor[i, i]
    return values + centre


@compiled
def log_density(centre, factor, values):
    """Return the log density at `values` (d,) of the distribution that `draw_values` draws from."""
    d = centre.shape[0]
    total = math.lgamma(0.5 * (DEGREES + d)) - math.lgamma(0.5 * DEGREES)
    total -= 0.5 * d * math.log(DEGREES * math.pi)
    square = 0.0
    for i in range(d):
        z = 0.0
        for j in range(i, d):
            z += factor[i, j] * (values[j] - centre[j])
        square += z * z
        total += math.log(factor[i, i])
    return total - 0.5 * (DEGREES + d) * math.log1p(square / DEGREES)
