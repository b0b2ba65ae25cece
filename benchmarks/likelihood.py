"""Time all-prefix log likelihoods and their gradients, relative to a lower bound.

The lower bound ("floor") is the time of operations that no implementation can avoid: the
exponentials of the covariances' entries on and below the diagonal (NumPy, vectorised; one for every
factor of every component that has one), and LAPACK's `potrf` and `trtrs`. It uses one thread and is
timed in the same run. The time of a gradient is compared with that of a value.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numba
import numpy as np
from measure import Row, at_most, in_turns
from scipy.linalg.lapack import dpotrf, dtrtrs

import kem_pymc as kem
from kem_pymc.gp.likelihood import Data, as_active, prefix_log_likelihood, weighted_gradient
from kem_pymc.kernels.library import kernels

#: Number of users, number of points, and composition.
SIZES = (
    (10, 30, "PER0 + SE0"),
    (10, 50, "LIN0 + PER0 + SE0"),
    (100, 100, "LIN0 + PER0 + SE0 + LIN0 x PER0"),
    (1, 400, "LIN0 + PER0 + SE0 + LIN0 x PER0"),
)

STEPS = 6


@numba.njit
def all_prefixes(kernels, layout, active, h, log_noise, data, out, counts):
    for user in range(data.n_steps.shape[0]):
        upto = data.n_steps[user]
        prefix_log_likelihood(
            kernels, layout, active, h, log_noise, data, user, upto, out[user], counts
        )


@numba.njit
def all_gradients(kernels, layout, active, h, log_noise, data, weights, out, counts):
    total = 0.0
    for user in range(data.n_steps.shape[0]):
        last = data.n_steps[user] - 1
        n = data.ends[user, last]
        total += weighted_gradient(
            kernels,
            layout,
            active,
            h,
            log_noise,
            data.x[user, :, :n],
            data.y[user, last, :n],
            weights[:n],
            np.empty((0, 0)),
            np.empty(0),
            out,
            counts,
        )
    return total


def one_size(users: int, points: int, text: str) -> list[Row]:
    """Measure likelihood and gradient at one size."""
    rng = np.random.default_rng(0)
    pool = kem.CandidatePool(text.split(" + "), dimension=1)
    ends = np.linspace(points / STEPS, points, STEPS).round().astype(np.int64)
    x = np.sort(rng.uniform(0, 50, (users, 1, points)), axis=-1)
    y = np.repeat(rng.normal(size=(users, 1, points)), STEPS, axis=1)
    data = Data(x, y, np.tile(ends, (users, 1)), np.full(users, STEPS), nested=True)
    active = as_active(np.ones(len(pool), dtype=bool))
    h = np.where(pool.layout.positive, rng.normal(0, 0.3, len(pool.hyperparameters)), 1.0)
    out, counts = np.empty((users, STEPS)), np.zeros(2, dtype=np.int64)
    weights = np.searchsorted(ends, np.arange(points), side="right")
    weights = (STEPS - weights).astype(np.float64)
    slopes = np.zeros(len(h) + 1)
    code = kernels()

    candidates = pool.candidates
    exponentials = sum(f.base != "LIN" for c in candidates for f in c.factors)
    arguments = rng.uniform(-3, 0, exponentials * points * (points + 1) // 2)
    results = np.empty_like(arguments)
    matrix = np.asfortranarray(np.cov(rng.normal(size=(points, 3 * points))) + np.eye(points))
    targets = rng.normal(size=(points, 1))

    def floor() -> None:
        for _ in range(users):
            np.exp(arguments, out=results)
            factor, _ = dpotrf(matrix, lower=1, clean=0)
            dtrtrs(factor, targets, lower=1)

    def value() -> None:
        all_prefixes(code, pool.layout, active, h, -1.0, data, out, counts)

    def gradient() -> None:
        all_gradients(code, pool.layout, active, h, -1.0, data, weights, slopes, counts)

    least, own, sloped = in_turns(floor, value, gradient)
    size = f"{users} users x {points} points x {len(pool)} components"
    limit = 1.3 if points >= 400 else 2.0
    return [
        at_most(
            f"time of likelihood / floor, {size} ({own / users * 1e6:.3g} us)", own / least, limit
        ),
        at_most(f"time of gradient / likelihood, {size}", sloped / own, 4.0),
    ]


def rows() -> list[Row]:
    """Measure likelihood and gradient at every size."""
    return [row for size in SIZES for row in one_size(*size)]
