"""Objectives of a few compositions, and what looks like the priors of a study."""

from types import SimpleNamespace

import numpy as np
from numba.core import types

from kem_pymc._system.jit.decorators import pointer
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.problem import normal_prior
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool

POOL = CandidatePool.from_base(["LIN", "PER", "SE"], dimension=2, interactions=True)
COMPOSITIONS = ["WHITE", "LIN0", "SE0", "LIN0 + PER0", "LIN0 x SE1 + PER1", "ARD"]


def coordinates(text):
    return Coordinates(POOL, Composition.parse(text, 2))


def data(seed, n=20):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 3, (n, 2))
    return x, x[:, 0] + np.sin(4 * x[:, 1]) + 0.4 * rng.normal(size=n)


def objective(text, prior=False, seed=0, n=20):
    where = coordinates(text)
    rng = np.random.default_rng(seed)
    pilot = normal_prior(rng.normal(size=len(where)), rng.uniform(0.3, 1.5, len(where)))
    return Objective(where, *data(seed, n), pilot if prior else None)


def scattered(problem, count, seed=1):
    return np.random.default_rng(seed).normal(size=(count, len(problem.coordinates)))


def gradient(problem, values):
    return problem.evaluate(values[None])[1][0]


def stand_in_priors():
    """Return what looks like the study's compiled priors.

    Coordinate i is Normal(i modulo 3, 1) without its constant, cut off at 3; the log noise is
    Normal(size of the parent, 1).
    """
    values = types.float64[::1]
    entry = types.float64(types.int64, types.float64, values)
    noise = types.float64(types.boolean[::1], types.float64, values)

    def made(body, argument, signature):
        source = f"def f({argument}, v, population):\n    return {body}"
        return pointer(source, "f", signature, {"np": np}, "stand-in")

    return SimpleNamespace(
        log_density=made("-0.5 * (v - e) ** 2 if v < 3.0 else -np.inf", "e", entry),
        gradient=made("e - v", "e", entry),
        noise_log_density=made("-0.5 * (v - p.sum()) ** 2", "p", noise),
        noise_gradient=made("p.sum() - v", "p", noise),
        entry=np.arange(len(POOL.hyperparameters)) % 3,
        population=np.empty(0),
    )
