"""The likelihood of the population model: all users' targets, with every linear weight integrated.

With H the columns of what users share and Z those of each user's own part,

    y_u = H_u T w + Z_u L b_u + e_u,    w ~ N(0, I),    b_u ~ N(0, I),    e_u ~ N(0, s^2 I)

where T is diagonal and L lower triangular. Let Z_u = Q_u R_u with orthonormal columns Q_u, W_u =
[H_u, y_u], X_u = Q_u'W_u, and C_u C_u' = s^2 I + R_u L L'R_u' of size r_u. Given T, L and s, a
user's targets have the covariance A_u = s^2 I + Z_u L L'Z_u' around what users share, and with V_u
= C_u^-1 X_u

    W'A^-1 W = sum_u (W_u'W_u - X_u'X_u) / s^2 + V_u'V_u,
    log |A_u| = (n_u - r_u) log s^2 + 2 log |C_u|.

With B = I + T H'A^-1 H T and h = T H'A^-1 y, w has the posterior N(B^-1 h, B^-1), and

    log p(y) = -(n log 2 pi + sum_u log |A_u| + log |B| + y'A^-1 y - h'B^-1 h) / 2

(Rasmussen and Williams 2006, section 2.7, with the matrix inversion lemma). So the time depends on
the number of users and of columns only, once these products are known.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc._system.jit.simd import LANES, add_multiple, load, multiple, padded, store
from kem_pymc.gp.cholesky import cholesky

#: Largest number of values of V, or of B, that are held at a time.
AT_A_TIME = 500_000


@compiled
def whiten(roots, own, common, ranks, noise, white, log_determinant):
    """Write V_u and the log determinant of all users' C_u C_u', for each draw.

    Parameters
    ----------
    roots : (S, q, q) float64
        L, of which few entries aren't zero.
    own : (U, q, r) float64
        R_u transposed, padded with columns of zeros; r is a multiple of `LANES`.
    common : (U, r, P') float64
        X_u, padded with rows and columns of zeros; P' is a multiple of `LANES`.
    ranks : (U,) int64
        Numbers of rows r_u.
    noise : (S,) float64
        s.
    white : (S, sum of r_u, P + 1) float64
        Receives V_u, one user after another.
    log_determinant : (S,) float64
        Receives 2 sum_u log |C_u|; NaN where a matrix isn't positive definite.
    """
    q, most, width, p = own.shape[1], own.shape[2], common.shape[2], white.shape[2]
    spread = np.empty((q, most))  # (R_u L)'
    both = np.empty((most, most + width))
    for s in range(roots.shape[0]):
        total, place = 0.0, 0
        for u in range(own.shape[0]):
            r, mine, theirs = ranks[u], own[u], common[u]
            spread[:] = 0.0
            for j in range(q):
                for k in range(j, q):
                    times = roots[s, k, j]
                    if times != 0.0:
                        for i in range(0, r, LANES):
                            row = add_multiple(load(spread, j, i), times, load(mine, k, i))
                            store(spread, j, i, row)
            # The factorisation of [C C', X] is [C', V].
            for i in range(r):
                for j in range(i // LANES * LANES, most, LANES):
                    row = multiple(spread[0, i], load(spread, 0, j))
                    for k in range(1, q):
                        row = add_multiple(row, spread[k, i], load(spread, k, j))
                    store(both, i, j, row)
                both[i, i] += noise[s] ** 2
                for c in range(0, width, LANES):
                    store(both, i, most + c, load(theirs, i, c))
            if cholesky(both, r, 0) < r:
                total = math.nan
            for i in range(r):
                total += math.log(both[i, i])
                for c in range(p):
                    white[s, place + i, c] = both[i, most + c]
            place += r
        log_determinant[s] = 2 * total


class Scales(NamedTuple):
    """The model's scales, for S draws or for one.

    Attributes
    ----------
    shared : ndarray, shape (S, P)
        T, prior sds of the shared columns' weights.
    personal : ndarray, shape (S, q, q)
        L, lower triangular root of the covariance of a user's weights.
    noise : ndarray, shape (S,)
        Standard deviation s of the noise.
    """

    shared: Any
    personal: Any
    noise: Any

    def at(self, draws: slice) -> "Scales":
        """Return the scales of some draws."""
        return Scales(*(values[draws] for values in self))


class Given(NamedTuple):
    """The posterior given scales.

    Attributes
    ----------
    log_likelihood : ndarray, shape (S,)
    factor : ndarray, shape (S, P, P)
        Lower Cholesky factor of B, the posterior precision of w.
    white : ndarray, shape (S, P)
        Factor^-1 h, so that w has the mean factor'^-1 white.
    """

    log_likelihood: Any
    factor: Any
    white: Any


class Arrays:
    """Operations on NumPy's arrays that PyTensor has under other names."""

    arange = staticmethod(np.arange)
    concatenate = staticmethod(np.concatenate)
    diagonal = staticmethod(np.diagonal)
    exp = staticmethod(np.exp)
    eye = staticmethod(np.eye)
    log = staticmethod(np.log)
    cholesky = staticmethod(np.linalg.cholesky)


class Total(NamedTuple):
    """Sums over users that the likelihood given scales depends on.

    Attributes
    ----------
    log_determinant : ndarray, shape (S,)
        n log 2 pi + sum_u log |A_u|.
    products : ndarray, shape (S, P + 1, P + 1)
        W'A^-1 W.
    """

    log_determinant: Any
    products: Any

    def at(self, draws: slice) -> "Total":
        """Return the sums of some draws."""
        return Total(*(values[draws] for values in self))

    def without(self, other: "Total") -> "Total":
        """Return the sums over the users who aren't in another total."""
        return Total(self.log_determinant - other.log_determinant, self.products - other.products)

    def given(self, scales: Scales, arrays: Any = Arrays) -> Given:
        """Return log likelihood and posterior of the shared weights.

        `arrays` are the operations of NumPy, or of PyTensor for the scales of one draw.
        """
        both = arrays.concatenate([scales.shared, 0 * scales.shared[..., :1] + 1], axis=-1)
        size = both.shape[-1]
        prior = arrays.eye(size) * (arrays.arange(size) < size - 1)
        # The last row of the factor of [B, h; h', y'A^-1 y] is h, whitened.
        factor = arrays.cholesky(both[..., :, None] * self.products * both[..., None, :] + prior)
        diagonal = arrays.diagonal(factor, axis1=-2, axis2=-1)
        of_shared = 2 * arrays.log(diagonal[..., :-1]).sum(axis=-1)
        log_likelihood = -(self.log_determinant + of_shared + diagonal[..., -1] ** 2) / 2
        return Given(log_likelihood, factor[..., :-1, :-1], factor[..., -1, :-1])


@dataclass(frozen=True, eq=False)
class Products:
    """What the likelihood needs of each user's columns and targets.

    Attributes
    ----------
    own : ndarray, shape (U, r, q)
        R_u, padded with rows of zeros.
    common : ndarray, shape (U, r, P + 1)
        X_u, padded with rows of zeros.
    rest : ndarray, shape (U, P + 1, P + 1)
        W_u'W_u - X_u'X_u.
    ranks, rows : ndarray, shape (U,)
        Numbers r_u of rows of R_u, and n_u of the user's rows.
    """

    own: np.ndarray
    common: np.ndarray
    rest: np.ndarray
    ranks: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(
        cls,
        shared: Sequence[np.ndarray],
        personal: Sequence[np.ndarray],
        targets: Sequence[np.ndarray],
    ) -> Self:
        """Return the products of each user's columns (n, P) and (n, q), and targets (n,)."""
        rows = np.array([len(y) for y in targets])
        ranks = np.minimum(rows, personal[0].shape[1])
        most, q, p = int(ranks.max()), personal[0].shape[1], shared[0].shape[1] + 1
        own, common = np.zeros((len(rows), most, q)), np.zeros((len(rows), most, p))
        rest = np.zeros((len(rows), p, p))
        for u, (h, z, y) in enumerate(zip(shared, personal, targets, strict=True)):
            basis, own[u, : ranks[u]] = np.linalg.qr(z)
            both = np.column_stack([h, y])
            common[u, : ranks[u]] = basis.T @ both
            left = both - basis @ common[u, : ranks[u]]
            rest[u] = left.T @ left
        return cls(own, common, rest, ranks, rows)

    def take(self, users: Any) -> "Products":
        """Return the products of some users, by an index of arrays."""
        every = self.own, self.common, self.rest, self.ranks, self.rows
        return Products(*(values[users] for values in every))

    def white(self, scales: Scales) -> tuple[np.ndarray, np.ndarray]:
        """Return all V_u (S, sum of r_u, P + 1) below each other, and 2 sum_u log |C_u| (S,)."""
        count = len(scales.noise)
        white = np.empty((count, int(self.ranks.sum()), self.common.shape[2]))
        log_determinant = np.empty(count)
        (users, most, q), columns = self.own.shape, self.common.shape[2]
        own, common = np.zeros((users, q, padded(most))), np.zeros((users, most, padded(columns)))
        own[:, :, :most], common[:, :, :columns] = self.own.mT, self.common
        roots = np.ascontiguousarray(scales.personal)
        whiten(roots, own, common, self.ranks, scales.noise, white, log_determinant)
        return white, log_determinant

    def total(self, scales: Scales) -> Total:
        """Return the sums that the likelihood depends on, given scales of S draws."""
        variance = scales.noise**2
        constant = self.rows.sum() * np.log(2 * np.pi)
        constant = constant + (self.rows - self.ranks).sum() * np.log(variance)
        white, log_determinant = self.white(scales)
        products = self.rest.sum(axis=0) / variance[:, None, None] + white.mT @ white
        return Total(constant + log_determinant, products)

    def parts(self, count: int) -> Iterator[slice]:
        """Split draws into parts whose arrays fit into the processor's cache, or nearly."""
        columns = self.common.shape[2]
        size = max(1, AT_A_TIME // (columns * max(columns, int(self.ranks.sum()))))
        return (slice(start, min(start + size, count)) for start in range(0, count, size))
