"""Pilot clusters and users made by hand, for the tests of selection."""

import math

import numpy as np

from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool

POOL = CandidatePool.from_base(["LIN", "PER", "SE"], interactions=True)

#: Natural values of every pilot cluster; inputs are weeks 0 to 20.
VALUES = {
    "LIN0.amplitude": 0.3,
    "LIN0.shift": 4.0,
    "PER0.amplitude": 4.0,
    "PER0.lengthscale": 1.0,
    "PER0.period": 5.0,
    "SE0.amplitude": 9.0,
    "SE0.lengthscale": 4.0,
}


def pilot_cluster(draw, parent, child, count, noise, stretch=1.0):
    """Return a cluster with `VALUES`, times `stretch`."""
    where = Coordinates(POOL, Composition.parse(child))
    values = where.from_named({n: v * stretch for n, v in VALUES.items()}, noise)
    return Cluster(draw, Composition.parse(parent), where.composition, count, tuple(values))


def user(n, seed=0, linear=0.5, periodic=2.0, noise=0.5):
    """Return n points of a line plus a wave of period 5, with noise of this variance."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 20, (n, 1))
    wave = periodic * np.sin(2 * math.pi * x[:, 0] / 5)
    return x, linear * (x[:, 0] - 4) + wave + noise**0.5 * rng.normal(size=n)
