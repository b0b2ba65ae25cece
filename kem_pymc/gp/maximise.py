"""A compiled quasi-Newton search with bounds, for the small problems that fits are.

Bound-constrained BFGS: coordinates that a bound holds back are left out of the quadratic model,
the others take a projected step found by backtracking. A fit has 1 to 30 coordinates and costs some
40 microseconds per evaluation, of which general-purpose optimisers take several times as much for
themselves, and a hundred times as much where BLAS starts threads for matrices of this size.
"""

import math

import numpy as np

from kem_pymc.compiled import compiled
from kem_pymc.gp.cholesky import cholesky, forward_substitution
from kem_pymc.gp.objective import evaluate
from kem_pymc.lanes import padded

#: The search has arrived where no free coordinate's slope is larger than this,
SLOPE = 1e-4

#: or where two steps running gained less than this share of the objective.
GAIN = 1e-10

#: or where the quadratic model promises no more than so many nats, twice running.
ENOUGH = 1e-6

#: The first guess of what the likelihood tells of a coordinate whose prior is normal.
TOLD = 2.0

#: A climb from a further start begins with the curvature of the best optimum found where that is
#: as near as this, as a squared distance in standard deviations,
NEAR = 100.0

#: and ends where it is as near as this, and not above it: it would end up there.
SAME = 0.01

#: A step changes no coordinate by more than this plus its size, so that no log leaps to a plateau.
REACH = 3.0

ITERATIONS = 300


@compiled
def maximise(problem, starts, runs, low, high):
    """Follow the best starts to their optima and return the highest.

    Parameters
    ----------
    problem : Problem
    starts : (s, d) float64
        Within the bounds.
    runs : int
        How many starts are followed: those with the largest objective.
    low, high : (d,) float64

    Returns
    -------
    values : (d,) float64
        The first start if the objective is finite nowhere.
    log_likelihood, log_prior : float
        There.
    evaluations : int
    converged : bool
    """
    count, size = starts.shape
    slopes = np.empty((count, size))
    heights = np.empty(count)
    for s in range(count):
        likelihood, density = evaluate(problem, starts[s], slopes[s])
        heights[s] = likelihood + density
    evaluations = count
    best = starts[0].copy()
    best_height = -math.inf
    converged = False
    guess = np.empty((size, size))
    fresh = not first_guess(problem, guess)
    known = guess.copy()  # curvature at the best optimum
    for s in np.argsort(-heights, kind="mergesort")[:runs]:  # the only stable sort Numba has
        if heights[s] == -math.inf:
            break
        values = starts[s].copy()
        near = best_height > -math.inf and distance(known, values, best) <= NEAR
        curvature = known.copy() if near else guess.copy()
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
        )
        evaluations += used
        if height > best_height:
            best_height = height
            best[:] = values
            known[:] = curvature
            converged = arrived
    likelihood, density = evaluate(problem, best, slopes[0])
    return best, likelihood, density, evaluations + 1, converged


@compiled
def first_guess(problem, curvature):
    """Write a curvature to start from to `curvature` (d, d); return whether there is one.

    There is under normal priors: theirs, and that of a likelihood that tells every coordinate
    something, and of the noise what independent points tell.
    """
    size = curvature.shape[0]
    curvature[:] = 0.0
    for i in range(size):
        if not problem.prior.precision[i] > 0.0:
            return False
        curvature[i, i] = problem.prior.precision[i] + TOLD
    curvature[size - 1, size - 1] += 0.5 * problem.y.shape[0]
    return True


@compiled
def climb(problem, values, low, high, enough):
    """Move `values` (d,) to a local optimum; return its height, evaluations and whether it is one.

    The search also ends where the quadratic model promises a gain of `enough` or less, twice
    running: for whoever needs the neighbourhood of an optimum only. The height at the start must
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
    )
    return height, used + 1, arrived


@compiled
def _climb(
    problem, values, height, slope, low, high, enough, curvature, fresh, rival, rival_height
):
    """Do as `climb` from a point whose height and slope (d,) are known.

    `curvature` (d, d) is a first guess unless it is `fresh`, and is replaced by what was learned
    on the way, as is `slope`. The search ends early where it would end up at a rival optimum (d,).
    """
    size = values.shape[0]
    evaluations = 0
    if fresh:
        reset(curvature, slope)
    small_gains, small_promises = 0, 0
    step = np.empty(size)
    trial = np.empty(size)
    trial_slope = np.empty(size)
    for _ in range(ITERATIONS):
        if largest_free_slope(values, slope, low, high) <= SLOPE:
            return height, evaluations, True
        if height <= rival_height and distance(curvature, values, rival) <= SAME:
            return height, evaluations, True
        newton_step(curvature, values, slope, low, high, step)
        gain = 0.0
        for i in range(size):
            gain += 0.5 * slope[i] * step[i]
        small_promises = small_promises + 1 if gain <= enough and not fresh else 0
        if small_promises == 2:
            return height, evaluations, True
        fraction = 1.0
        reached = -math.inf
        accepted = False
        for _ in range(30):
            promise = 0.0
            for i in range(size):
                trial[i] = min(max(values[i] + fraction * step[i], low[i]), high[i])
                promise += slope[i] * (trial[i] - values[i])
            likelihood, density = evaluate(problem, trial, trial_slope)
            reached = likelihood + density
            evaluations += 1
            if promise > 0.0 and reached >= height + 1e-4 * promise:
                accepted = True
                break
            # Go where the parabola through what is known is highest, if it has such a place.
            shrink = 0.25
            if promise > 0.0 and reached > -math.inf:
                shrink = min(max(0.5 * promise / (promise + height - reached), 0.1), 0.5)
            fraction *= shrink
        if not accepted:
            if fresh:  # rounding hides what is left to gain
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
    """Return the squared distance of two points, in standard deviations of the quadratic model."""
    total = 0.0
    for i in range(values.shape[0]):
        for j in range(values.shape[0]):
            total += (values[i] - rival[i]) * curvature[i, j] * (values[j] - rival[j])
    return total


@compiled
def reset(curvature, slope):
    """Start from a curvature that makes the first step one unit long at most."""
    curvature[:] = 0.0
    largest = max(1.0, np.max(np.abs(slope)))
    for i in range(slope.shape[0]):
        curvature[i, i] = largest


@compiled
def held(value, slope, low, high):
    """Return whether a bound holds a coordinate back."""
    return (value <= low and slope <= 0.0) or (value >= high and slope >= 0.0)


@compiled
def largest_free_slope(values, slope, low, high):
    """Return the largest slope of the coordinates that no bound holds back."""
    largest = 0.0
    for i in range(values.shape[0]):
        if not held(values[i], slope[i], low[i], high[i]):
            largest = max(largest, abs(slope[i]))
    return largest


@compiled
def newton_step(curvature, values, slope, low, high, step):
    """Write the step to the quadratic model's optimum over the free coordinates to `step`."""
    size = values.shape[0]
    free = np.empty(size, dtype=np.int64)
    count = 0
    for i in range(size):
        step[i] = 0.0
        if not held(values[i], slope[i], low[i], high[i]):
            free[count] = i
            count += 1
    u = np.empty((count, padded(count)))
    solution = np.empty(count)
    for i in range(count):
        solution[i] = slope[free[i]]
        for j in range(count):
            u[i, j] = curvature[free[i], free[j]]
    if cholesky(u, count, 0) < count:  # rounding alone can do this
        for i in range(count):
            step[free[i]] = slope[free[i]] / max(1.0, np.max(np.abs(slope)))
        return
    forward_substitution(u, solution, count, solution)
    for i in range(count - 1, -1, -1):
        for j in range(i + 1, count):
            solution[i] -= u[i, j] * solution[j]
        solution[i] /= u[i, i]
    excess = 1.0
    for i in range(count):
        excess = max(excess, abs(solution[i]) / (REACH + abs(values[free[i]])))
    for i in range(count):
        step[free[i]] = solution[i] / excess


@compiled
def update(curvature, moved, bent, fresh):
    """Learn curvature from a move and the drop in slope along it (BFGS, damped as Powell's)."""
    size = moved.shape[0]
    along = 0.0
    for i in range(size):
        along += moved[i] * bent[i]
    if fresh and along > 0.0:  # the scale of the first guess is arbitrary
        squared = 0.0
        for i in range(size):
            squared += bent[i] * bent[i]
        for i in range(size):
            curvature[i, i] = squared / along
    product = np.zeros(size)
    expected = 0.0
    for i in range(size):
        for j in range(size):
            product[i] += curvature[i, j] * moved[j]
        expected += moved[i] * product[i]
    if not expected > 0.0:
        return
    damp = 1.0
    if along < 0.2 * expected:
        damp = 0.8 * expected / (expected - along)
    along = damp * along + (1.0 - damp) * expected
    for i in range(size):
        bent_i = damp * bent[i] + (1.0 - damp) * product[i]
        for j in range(size):
            bent_j = damp * bent[j] + (1.0 - damp) * product[j]
            curvature[i, j] += bent_i * bent_j / along - product[i] * product[j] / expected
