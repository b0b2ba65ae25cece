"""Pilot clusters and users made by hand, for the tests of selection."""

import math

import numpy as np

from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.evidence import laplace
from kem_pymc.gp.fit import Fit
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.problem import normal_prior
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


def names(selection):
    return {str(c.composition) for c in selection.considered}


def row(selection, name):
    return next(c for c in selection.considered if str(c.composition) == name)


def with_clusters(learned, *more, **fields):
    state = {name: getattr(learned, name) for name in learned.__dataclass_fields__}
    return Evolutions(**(state | {"clusters": learned.clusters + more} | fields))


def evidence_at(where, x, y, values, normals):
    """The evidence around a fit under normal priors, computed independently of the selector.

    (tests/gp/test_evidence.py compares it with quadrature.)
    """
    prior = normal_prior(*np.array([(p.mean(), p.std()) for p in normals]).T)
    objective = Objective(where, x, y, prior)
    return laplace(objective, Fit(values, *objective.terms(values), 0, converged=True))[1].value
