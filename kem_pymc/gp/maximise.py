"""Compiled bound-constrained BFGS, for the small optimisation problems of fits.

Coordinates held at a bound are left out of the quadratic model; the others take a projected step
found by backtracking. A fit has 1 to 30 coordinates, and an evaluation takes about 40 microseconds.
General-purpose optimisers have an overhead of several times as much, or of a hundred times as much
where BLAS starts threads for matrices of this size.
"""

import math

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc._system.jit.simd import padded
from kem_pymc.gp.cholesky import cholesky, forward_substitution
from kem_pymc.gp.problem import evaluate, evaluate_all, log_prior

#: The search has converged where no free coordinate's slope is larger than this.
SLOPE = 1e-4

#: It has also converged after two consecutive gains below this share of the objective.
GAIN = 1e-10

#: Gain that is hoped for, as a multiple of what the quadratic model predicts.
HOPE, PATIENCE = 10.0, 4

#: It also ends where the quadratic model predicts at most this gain in nats, twice in a row.
ENOUGH = 1e-6

#: Initial guess of the likelihood's curvature in a coordinate whose prior is normal.
INFORMATION = 2.0

#: A search from another start begins with the curvature at the best optimum so far if that is
#: within this squared distance in standard deviations.
NEAR = 100.0

#: It ends within this squared distance of that optimum if it isn't higher: it would converge to it.
SAME = 0.01

#: Largest change of a coordinate in one step, in addition to its absolute value, so that no log
#: jumps to a plateau.
REACH = 3.0

ITERATIONS = 300


@compiled
def maximise(problem, starts, runs, low, high, expected, least):
    """Follow the best starts to their optima and return the highest.

    Parameters
    ----------
    problem : Problem
    starts : (s, d) float64
        Coordinates to start from, within the bounds.
    runs : int
        Number of starts to follow, those with the largest objective.
    low, high : (d,) float64
        Bounds of the coordinates.
    expected : (d, d) float64
        Positive definite guess of the curvature at the optimum; shape (0, 0) if there is none.
    least : float
        A search ends where it won't reach this height: where even `HOPE` times the gain that the
        quadratic model predicts would be too little.

    Returns
    -------
    values : (d,) float64
        Coordinates of the highest optimum; the first start if no start has a finite objective.
    log_likelihood, log_prior : float
        Terms of the objective at `values`.
    evaluations : int
        Number of evaluations of the objective.
    converged : bool
        Whether the search converged to an optimum.
    curvature : (d, d) float64
        Minus the Hessian at `values`, as far as the search has learned it.
    """
    count, size = starts.shape
    heights, slopes = np.empty(count), np.empty((count, size))
    # Without gradients, starts that aren't followed take a third of the time.
    known = count <= runs
    evaluate_all(problem, starts, heights, slopes if known else slopes[:0])
    evaluations = count
    best = starts[0].copy()
    best_height = -math.inf
    converged = False
    # Of normal priors the curvature is known. The likelihood adds about `INFORMATION` to it, and of
    # the noise the information of independent points.
    fresh = expected.shape[0] == 0 and not problem.prior.precision.min() > 0.0
    guess = np.diag(problem.prior.precision + INFORMATION)
    guess[-1, -1] += 0.5 * problem.y.shape[0]
    if expected.shape[0] > 0:
        guess[:] = expected
    best_curvature = guess.copy()  # curvature at the best optimum
    for s in np.argsort(-heights, kind="mergesort")[:runs]:  # the only stable sort Numba has
        if heights[s] == -math.inf:
            break
        values = starts[s].copy()
        if not known:
            evaluate(problem, values, slopes[s])
            evaluations += 1
        near = best_height > -math.inf and distance(best_curvature, values, best) <= NEAR
        curvature = best_curvature.copy() if near else guess.copy()
        height, used, arrived = _climb(
            problem,
            values,
            heights[s],
            slopes[s],
            low,
            high,
            ENOUGH,
            curvature,
            fresh and not near,
            best,
            best_height,
            least,
        )
        evaluations += used
        if height > best_height:
            best_height = height
            best[:] = values
            best_curvature[:] = curvature
            converged = arrived
    if best_height == -math.inf:
        return best, best_height, 0.0, evaluations, converged, best_curvature
    density = log_prior(problem.prior, best, slopes[0])
    return best, best_height - density, density, evaluations, converged, best_curvature


@compiled
def climb(problem, values, low, high, enough):
    """Move `values` (d,) to a local optimum; return height, evaluations and whether it converged.

    The search also ends where the quadratic model predicts a gain of at most `enough` twice in a
    row, for callers that need only the neighbourhood of an optimum. The objective at the start must
    be finite.
    """
    size = values.shape[0]
    slope = np.empty(size)
    likelihood, density = evaluate(problem, values, slope)
    height, used, arrived = _climb(
        problem,
        values,
        likelihood + density,
        slope,
        low,
        high,
        enough,
        np.empty((size, size)),
        True,
        values,
        -math.inf,
        -math.inf,
    )
    return height, used + 1, arrived


@compiled
def _climb(
    problem, values, height, slope, low, high, enough, curvature, fresh, rival, rival_height, least
):
    """Run `climb` from a point whose height and slope (d,) are given.

    `curvature` (d, d) is an initial guess, ignored if `fresh`. It is updated in place, and so is
    `slope`. The search ends early where it would converge to the optimum `rival` (d,), or not
    reach the height `least`.
    """
    size = values.shape[0]
    evaluations = 0
    if fresh:
        reset(curvature, slope)
    small_gains, small_promises, hopeless = 0, 0, 0
    step, trial, trial_slope = np.empty(size), np.empty(size), np.empty(size)
    for _ in range(ITERATIONS):
        if largest_free_slope(values, slope, low, high) <= SLOPE:
            return height, evaluations, True
        if height <= rival_height and distance(curvature, values, rival) <= SAME:
            return height, evaluations, True
        newton_step(curvature, values, slope, low, high, step)
        gain = 0.5 * (slope * step).sum()
        small_promises = small_promises + 1 if gain <= enough and not fresh else 0
        if small_promises == 2:
            return height, evaluations, True
        hopeless = hopeless + 1 if not fresh and height + HOPE * gain < least else 0
        if hopeless == PATIENCE:
            return height, evaluations, False
        fraction = 1.0
        reached = -math.inf
        accepted = False
        for _ in range(30):
            trial = np.minimum(np.maximum(values + fraction * step, low), high)
            promise = (slope * (trial - values)).sum()
            likelihood, density = evaluate(problem, trial, trial_slope)
            reached = likelihood + density
            evaluations += 1
            if promise > 0.0 and reached >= height + 1e-4 * promise:
                accepted = True
                break
            # Backtrack to the maximum of the parabola through both heights and the slope, if any.
            shrink = 0.25
            if promise > 0.0 and reached > -math.inf:
                shrink = min(max(0.5 * promise / (promise + height - reached), 0.1), 0.5)
            fraction *= shrink
        if not accepted:
            if fresh:  # the remaining gain is below the rounding error
                arrived = largest_free_slope(values, slope, low, high) <= 100 * SLOPE
                return height, evaluations, arrived
            reset(curvature, slope)
            fresh = True
            continue
        small_gains = small_gains + 1 if reached - height <= GAIN * max(1.0, abs(height)) else 0
        update(curvature, trial - values, slope - trial_slope, fresh)
        fresh = False
        values[:] = trial
        slope[:] = trial_slope
        height = reached
        if small_gains == 2:
            return height, evaluations, True
    return height, evaluations, False


@compiled
def distance(curvature, values, rival):
    """Return the squared distance of two points (d,), in sds of the quadratic model."""
    away = values - rival
    return (away * (curvature * away).sum(axis=1)).sum()


@compiled
def reset(curvature, slope):
    """Set `curvature` (d, d) so that the first step changes no coordinate by more than one."""
    curvature[:] = np.eye(slope.shape[0]) * max(1.0, np.abs(slope).max())


@compiled
def held(values, slope, low, high):
    """Return which coordinates (d,) are at a bound beyond which their slope points."""
    return ((values <= low) & (slope <= 0.0)) | ((values >= high) & (slope >= 0.0))


@compiled
def largest_free_slope(values, slope, low, high):
    """Return the largest absolute slope of the coordinates that aren't held at a bound."""
    return np.where(held(values, slope, low, high), 0.0, np.abs(slope)).max()


@compiled
def newton_step(curvature, values, slope, low, high, step):
    """Write the step to the quadratic model's optimum over the free coordinates to `step`."""
    free = np.flatnonzero(~held(values, slope, low, high))
    count = free.shape[0]
    step[:] = 0.0
    u = np.empty((count, padded(count)))
    for i in range(count):
        u[i, :count] = curvature[free[i]][free]
    solution = slope[free]
    if cholesky(u, count, 0) < count:  # rounding alone can do this
        step[free] = solution / max(1.0, np.abs(slope).max())
        return
    forward_substitution(u, solution, count, solution)
    for i in range(count - 1, -1, -1):
        for j in range(i + 1, count):
            solution[i] -= u[i, j] * solution[j]
        solution[i] /= u[i, i]
    excess = (np.abs(solution) / (REACH + np.abs(values[free]))).max()
    step[free] = solution / max(1.0, excess)


@compiled
def update(curvature, moved, bent, fresh):
    """Update the curvature from a move and the drop in slope along it (BFGS, Powell's damping)."""
    along = (moved * bent).sum()
    if fresh and along > 0.0:  # the scale of the first guess is arbitrary
        scale = (bent * bent).sum() / along
        for i in range(moved.shape[0]):
            curvature[i, i] = scale
    product = (curvature * moved).sum(axis=1)
    expected = (moved * product).sum()
    if not expected > 0.0:
        return
    damp = 1.0
    if along < 0.2 * expected:
        damp = 0.8 * expected / (expected - along)
    along = damp * along + (1.0 - damp) * expected
    bent = damp * bent + (1.0 - damp) * product
    curvature += np.outer(bent, bent) / along - np.outer(product, product) / expected
