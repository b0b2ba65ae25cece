"""Distances between models: by the functions that kernels explain a priori, and by their parts.

Given hyperparameters, a model M has the prior N(0, S) on noisy values at a few of the inputs. The
squared Hellinger distance of two such priors is

    d^2 = 1 - |S|^(1/4) |S'|^(1/4) / |(S + S') / 2|^(1/2)

and the distance of two models is its expectation over independent draws of both models'
hyperparameters (Malkomes et al. 2016, eqs. 2 and 3). The distance of a model from itself is zero by
definition, although that of two draws isn't: the squared exponential covariance (eq. 4) then is
positive semi-definite, because 1 - E d^2 is an inner product, and the diagonal only adds to it.

The structural distance compares which base kernels two expressions have, and in how many products
each of them occurs: the sum over base kernels of the squared differences of the roots of these
numbers.
"""

import math
from collections import Counter
from functools import cache
from zlib import crc32

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from kem_pymc._system.jit.decorators import compiled, inlined
from kem_pymc._system.jit.simd import (
    LANES,
    add_multiple,
    add_product,
    load,
    multiple,
    padded,
    store,
)
from kem_pymc.gp.covariance import covariance
from kem_pymc.gp.likelihood import as_active
from kem_pymc.kernels.base import base_kernel
from kem_pymc.kernels.composition import Composition, Factor
from kem_pymc.kernels.library import kernels
from kem_pymc.search.evaluation import MEAN, coordinates_of
from kem_pymc.search.grammar import canonical
from kem_pymc.search.hyperpriors import Hyperpriors

#: Number of inputs at which priors are compared, and of draws of hyperparameters.
POINTS, DRAWS = 20, 100

#: Number of pivots whose product is taken before its logarithm.
BLOCK = 4

#: Variance of the noise. With that of the models' priors, which is 1e-4, the distances of most
#: pairs are above 0.95, and predict scores less well.
NOISE = 0.15**2


class Embedding:
    """A model's priors at the inputs, for draws of its hyperparameters.

    Attributes
    ----------
    covariances : ndarray, shape (S / LANES, P, LANES)
        Upper triangles, row by row, of the covariances of S draws, draws last.
    log_determinants : ndarray, shape (S / LANES, LANES)
    roots : dict of str to float
        Root of the number of products in which each base kernel occurs.
    """

    __slots__ = ("covariances", "log_determinants", "roots")

    def __init__(self, expression: Composition, covariances: np.ndarray) -> None:
        self.covariances = covariances
        numbers = Counter(f for candidate in expression for f in {*candidate.factors})
        # Keys are text, because a text's hash is computed only once.
        self.roots = {str(factor): math.sqrt(number) for factor, number in numbers.items()}
        self.log_determinants = np.empty((len(covariances), LANES))
        log_determinants(covariances, covariances, 0, self.log_determinants)


class Distances:
    """Procedure that computes distances between models on one data set.

    Parameters
    ----------
    x : ndarray, shape (n, D)
        Inputs, scaled to [0, 1]. If there are more than `POINTS` different ones, so many are drawn,
        once for all models.
    hyperpriors : Hyperpriors
    rng : numpy.random.Generator
        Generator for the inputs and the quasi-random points.
    draws : int
        Number of draws of hyperparameters, which is rounded up to a multiple of 16.
    """

    def __init__(
        self,
        x: np.ndarray,
        hyperpriors: Hyperpriors,
        rng: np.random.Generator,
        draws: int = DRAWS,
    ) -> None:
        different = np.unique(x, axis=0)
        chosen = rng.choice(len(different), min(POINTS, len(different)), replace=False)
        self.x = np.ascontiguousarray(different[np.sort(chosen)].T)
        self.hyperpriors = hyperpriors
        self.draws = 2 * padded((draws + 1) // 2)
        self._seed = int(rng.integers(2**32))
        self._triangles = cache(self._draw_triangles)
        self._covariances = cache(self._draw_covariances)
        self._amplitudes = cache(self._draw_amplitudes)
        places = np.arange(self.x.shape[1])
        self._diagonal = np.equal.outer(places, places)[np.triu_indices(len(places))]
        self._product = np.empty((self.draws // LANES, len(self._diagonal), LANES))

    def embed(self, expression: Composition) -> Embedding:
        """Return the priors of a model.

        The draws of each base kernel, and of further occurrences of it, are in a random order that
        is the same for all models. The distance of two models pairs different draws.
        """
        level = math.exp(self.hyperpriors.table[f"{MEAN}.amplitude"][0])
        sums = np.full(self._product.shape, level)
        occurrences: Counter[Factor] = Counter()
        for number, candidate in enumerate(expression):
            product: np.ndarray = self._amplitudes(number)
            for factor in candidate.factors:
                covariances = self._covariances(factor, occurrences[factor])
                product = np.multiply(product, covariances, out=self._product)
                occurrences[factor] += not factor.tie
            sums += product
        sums[:, self._diagonal] += NOISE
        return Embedding(expression, sums)

    def between(self, one: Embedding, other: Embedding) -> tuple[float, float]:
        """Return the expected squared Hellinger distance of two different models.

        The second number is their squared structural distance.
        """
        apart = expected_distance(
            one.covariances, one.log_determinants, other.covariances, other.log_determinants
        )
        factors = one.roots.keys() | other.roots.keys()
        structural = sum((one.roots.get(f, 0.0) - other.roots.get(f, 0.0)) ** 2 for f in factors)
        return apart, structural

    def _draw_amplitudes(self, number: int) -> np.ndarray:
        """Return evenly spread draws (S / LANES, 1, LANES) of a product's variance."""
        mean, sd = self.hyperpriors.table["amplitude"]
        order = self._order("amplitude", number)
        return np.exp(mean + sd * ndtri((order + 0.5) / self.draws)).reshape(-1, 1, LANES)

    def _draw_covariances(self, factor: Factor, occurrence: int) -> np.ndarray:
        """Return a base kernel's covariances (S / LANES, P, LANES)."""
        # Factors that share their hyperparameters have the same order.
        name = f"{factor.dimension}@{factor.tie}" if factor.tie else str(factor)
        ordered = self._triangles(factor)[self._order(name, occurrence)]
        groups = ordered.reshape(-1, LANES, ordered.shape[1])
        return np.ascontiguousarray(groups.transpose(0, 2, 1))

    def _order(self, name: str, occurrence: int) -> np.ndarray:
        rng = np.random.default_rng([self._seed, crc32(name.encode()), occurrence])
        return rng.permutation(self.draws)

    def _draw_triangles(self, factor: Factor) -> np.ndarray:
        """Return a base kernel's covariances (S, P) for a Sobol sequence of its hyperparameters."""
        coordinates = coordinates_of(canonical([(factor,)]), len(self.x))
        means, sds = self.hyperpriors.of(coordinates)
        free = [i for i, h in enumerate(coordinates.hyperparameters) if h.kind != "amplitude"]
        h = np.zeros((self.draws, len(coordinates.hyperparameters)))
        if free:
            # Factors that share their hyperparameters have the same draws of them.
            owner = base_kernel(factor.base).tied or str(factor)
            rng = np.random.default_rng([self._seed, crc32(owner.encode())])
            power = math.ceil(math.log2(self.draws))
            uniform = qmc.Sobol(len(free), rng=rng).random_base2(power)[: self.draws]
            h[:, free] = means[free] + sds[free] * ndtri(uniform)
        n = self.x.shape[1]
        out = np.empty((self.draws, n * (n + 1) // 2))
        active = as_active(coordinates.pool.inclusion(canonical([(factor,)])))
        triangles(kernels(), coordinates.pool.layout, active, h, self.x, out)
        return out


@compiled
def triangles(kernels, layout, active, h, x, out):
    """Write the upper triangles of the covariances for draws `h` (S, H) to `out` (S, P)."""
    n = x.shape[1]
    full, scratch = np.empty((n, padded(n))), np.empty((n, padded(n)))
    for draw in range(h.shape[0]):
        covariance(kernels, layout, active, h[draw], x, full, scratch)
        place = 0
        for i in range(n):
            for j in range(i, n):
                out[draw, place] = full[i, j]
                place += 1


@compiled
def log_determinants(one, other, shift, out):
    """Write log |(S + S') / 2| of pairs of covariances (S / LANES, P, LANES) to `out`.

    Group g of one model's draws is paired with group g ^ shift of the other's. `LANES` matrices are
    factored side by side, as U' D U with the rows of D U in `rows`.
    """
    groups, places = one.shape[0], one.shape[1]
    n = int((math.sqrt(8.0 * places + 1.0) - 1.0) / 2.0 + 0.5)
    rows = np.empty((places, LANES))
    multipliers = np.empty((places, LANES))  # rows of -U
    product, reciprocal = np.ones(LANES), np.empty(LANES)
    start = np.empty(n, dtype=np.int64)  # entry (i, j) is at start[i] + j
    for i in range(n):
        start[i] = i * n - i * (i + 1) // 2
    for g in range(groups):
        left, right = one[g], other[g ^ shift]
        out[g] = 0.0
        for k in range(n):
            for j in range(k, n):
                row = _mean(left, right, start[k] + j)
                for r in range(k):
                    factor = load(multipliers, start[r] + k, 0)
                    row = add_product(row, factor, load(rows, start[r] + j, 0))
                store(rows, start[k] + j, 0, row)
            diagonal = start[k] + k
            for s in range(LANES):
                product[s] *= rows[diagonal, s]
                reciprocal[s] = -1.0 / rows[diagonal, s]
            if k % BLOCK == BLOCK - 1 or k == n - 1:  # products of all pivots might overflow
                for s in range(LANES):
                    out[g, s] += math.log(product[s])
                    product[s] = 1.0
            for p in range(diagonal + 1, diagonal + n - k):
                for s in range(LANES):
                    multipliers[p, s] = rows[p, s] * reciprocal[s]


@inlined
def _mean(one, other, place):
    """Return the mean of two rows, as a vector."""
    return multiple(0.5, add_multiple(load(one, place, 0), 1.0, load(other, place, 0)))


@compiled
def expected_distance(one, log_one, other, log_other):
    """Return the expected squared Hellinger distance over paired draws of two models.

    Neighbouring groups of draws are paired, which is symmetric.
    """
    both = np.empty(log_one.shape)
    log_determinants(one, other, 1, both)
    total, count = 0.0, 0
    for g in range(both.shape[0]):
        for s in range(LANES):
            affinity = math.exp(0.25 * (log_one[g, s] + log_other[g ^ 1, s]) - 0.5 * both[g, s])
            if affinity <= 1.0:  # a covariance whose pivots were negative by rounding is left out
                total += 1.0 - affinity
                count += 1
    return total / max(count, 1)
