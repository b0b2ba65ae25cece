"""Compositions with data of one user, and their likelihoods written out with SciPy."""

import math
from itertools import combinations_with_replacement, islice

import numpy as np

from kem_pymc.gp.kernel import FixedKernel
from kem_pymc.gp.likelihood import Data, as_active, prefix_log_likelihood, weighted_gradient
from kem_pymc.kernels.base import base_kernel, base_kernels
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.library import kernels
from kem_pymc.kernels.pool import CandidatePool

NOTHING = np.empty((0, 0)), np.empty(0)  # that users share, and how the noise varies

#: Of the pool LIN0, SE1, CONST, LIN1 x PER0.
HYPERPARAMETERS = {
    "CONST.amplitude": 0.5,
    "LIN0.amplitude": 1.3,
    "LIN0.shift": 0.4,
    "SE1.amplitude": 0.8,
    "SE1.lengthscale": 0.7,
    "LIN1 x PER0.amplitude": 0.6,
    "LIN1 x PER0.LIN1.shift": -0.3,
    "LIN1 x PER0.PER0.lengthscale": 1.1,
    "LIN1 x PER0.PER0.period": 0.9,
}

NAMES = [k.name for k in base_kernels()]
PAIRS = [
    text
    for one, other in combinations_with_replacement(NAMES, 2)
    for text in (f"{one}0 + {other}1", f"{one}0 x {other}0", f"{one}0 x {other}1")
]
LONGER = [
    "CONST",
    "CONST + LIN1",
    "CONST + SE0 + LIN0 x PER1 + RQ2",
    "ARD",
    "LIN0 x PER1 x SE2",
    "SE0 x SE0 x SE0",
    "RQ2 x MATERN321 x MATERN520",
    "LIN0 + LIN0 x LIN0 + PER1 + LIN0 x PER1 x SE2 + ARD",
]


def composition_covariance(composition, hyperparameters, x, z):
    """The covariance (n, m) of inputs (n, D) and (m, D), without noise."""
    return FixedKernel.named(composition, hyperparameters, x.shape[1]).cross(x, z)


class Problem:
    """A composition with hyperparameters, next to others in one pool, and data of one user."""

    def __init__(self, text, points=12, seed=0, dimension=3):
        rng = np.random.default_rng(seed)
        self.composition = Composition.parse(text, dimension)
        # One candidate more on each side: what isn't in must not count, whatever its values.
        outside = [c for c in ("PER2", "RQ0 x RQ1") if Composition.parse(c) - self.composition]
        candidates = [outside[0], *self.composition, *outside[1:]]
        self.pool = CandidatePool(candidates, dimension)
        self.inclusion = self.pool.inclusion(self.composition)
        self.active = as_active(self.inclusion)
        self.places = np.flatnonzero(self.pool.active(self.inclusion))
        self.h = np.full(len(self.pool.hyperparameters), np.nan)
        self.h[self.places] = rng.normal(0, 0.5, len(self.places))
        for place in self.places:  # periods as long as the inputs' range
            if self.pool.hyperparameters[place].kind == "period":
                self.h[place] += math.log(4)
        self.log_noise = rng.normal(-1, 0.2)
        self.x = rng.uniform(-2, 2, (dimension, points))
        self.y = rng.normal(size=points)

    def place(self, name):
        return [h.name for h in self.pool.hyperparameters].index(name)

    @property
    def code(self):
        return kernels(), self.pool.layout, self.active, self.h, self.log_noise

    def kernel_matrix(self):
        """The covariance (n, n) without noise, factor by factor from values by name."""
        n = self.x.shape[1]
        values = self.pool.named(self.h, self.composition)
        total = np.zeros((n, n))
        for candidate in self.composition:
            own = iter([values[h.name] for h in candidate.hyperparameters])
            term = np.full((n, n), next(own))
            for factor in candidate.factors:
                kernel = base_kernel(factor.base)
                h = np.array([*islice(own, len(kernel.hyperparameters))])
                x = self.x[factor.dimension]
                kernels().cross(base_kernels().index(kernel), x, x, h, term)
            total += term
        return total

    def conditionals(self):
        """Log density of each target given those before it, (n,)."""
        k = self.kernel_matrix() + math.exp(self.log_noise) * np.eye(len(self.y))
        prefixes = [normal_log_density(self.y[:n], k) for n in range(1, len(self.y) + 1)]
        return np.diff(prefixes, prepend=0.0)

    def gradient(self, weights, out=None):
        """Weighted log likelihood, its gradient with respect to (active places, log noise)."""
        out = np.zeros(len(self.h) + 1) if out is None else out
        counts = np.zeros(2, dtype=np.int64)
        total = weighted_gradient(*self.code, self.x, self.y, weights, *NOTHING, out, counts)
        return total, out[[*self.places, -1]]

    def moved(self, coordinate, by):
        """The weighted log likelihood's argument moved along one of the gradient's coordinates."""
        other = object.__new__(Problem)
        other.__dict__ |= self.__dict__ | {"h": self.h.copy()}
        if coordinate == len(self.places):
            other.log_noise += by
        else:
            other.h[self.places[coordinate]] += by
        return other

    def prefixes(self, ends, y=None, nested=True, sequential=False):
        """Log likelihoods of this user's datasets, and the numbers of factorisations."""
        ends = np.array([ends])
        y = np.tile(self.y, (ends.shape[1], 1)) if y is None else y
        data = Data(self.x[None], y[None], ends, np.array([ends.shape[1]]), nested, sequential)
        return log_likelihoods(self, data, 0, ends.shape[1])


def normal_log_density(y, k):
    """Log N(y; 0, leading block of k).

    SciPy's takes eigenvectors, which LAPACK's routine for them (syevr) may give with errors of 1e-3
    where eigenvalues are close.
    """
    block = k[: len(y), : len(y)]
    return -0.5 * (y @ np.linalg.solve(block, y) + np.linalg.slogdet(2 * np.pi * block).logabsdet)


def log_likelihoods(problem, data, user, upto):
    out, counts = np.full(data.ends.shape[1], 7.0), np.zeros(2, dtype=np.int64)
    prefix_log_likelihood(*problem.code, data, user, upto, out, counts)
    return out, counts.tolist()
