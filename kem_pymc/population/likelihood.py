"""The likelihood of the population model: all users' targets, with every linear weight integrated.

With H the columns of what users share and Z those of each user's own part,

    y_u = H_u T w + Z_u L b_u + e_u,    w ~ N(0, I),    b_u ~ N(0, I),    e_u ~ N(0, s^2 I + D_u)

where T is diagonal, L lower triangular, and D_u diagonal, with the known noise of the targets or
zeros. Of a user's n_g rows with equal known noise d_g, let Z_g = Q_g R_g with r_g = min(n_g, q)
orthonormal columns Q_g, W_g = [H_g, y_g] and X_g = Q_g'W_g: rotated rows have the noise s^2 + d_g,
too. R_u and X_u have the r_u rotated rows of all groups, and D_u' their known noise. Given T, L and
s, a user's targets have the covariance A_u = s^2 I + D_u + Z_u L L'Z_u' around what users share.
With C_u C_u' = s^2 I + D_u' + R_u L L'R_u' and V_u = C_u^-1 X_u

    W'A^-1 W = sum_g (W_g'W_g - X_g'X_g) / (s^2 + d_g) + sum_u V_u'V_u,
    log |A_u| = sum_g (n_g - r_g) log(s^2 + d_g) + 2 log |C_u|.

Of a user with known noise r_u may be larger than q. If it is much larger, the rotated rows are a
regression on the user's own columns: with Z and W the rows of R_u L and X_u, divided by the sds of
their noise, and B = (I + Z'Z)^-1 Z'W, V_u = [W - Z B; B] has the same products V_u'V_u, which
errors of B only change by their squares, and |C_u|^2 = |s^2 I + D_u'| |I + Z'Z|.

With B = I + T H'A^-1 H T and h = T H'A^-1 y, w has the posterior N(B^-1 h, B^-1), and

    log p(y) = -(n log 2 pi + sum_u log |A_u| + log |B| + y'A^-1 y - h'B^-1 h) / 2

(Rasmussen and Williams 2006, section 2.7, with the matrix inversion lemma). So the time depends on
the number of users and of columns only, once these products are known; with known noise also on
how many different ones a user has.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc._system.jit.simd import LANES, add_multiple, load, multiple, padded, store
from kem_pymc.gp.cholesky import cholesky

#: Number of rows, as a multiple of that of a user's own columns, above which there is a regression.
MANY = 4

#: Largest number of values of V, or of B, that are held at a time.
AT_A_TIME = 500_000


@compiled
def add_products(out, count, factors, sign, rows, terms, start):
    """Add sign * factors (count, terms) times rows (terms, .) to columns from `start` on of `out`.

    Four rows of `out` at a time, so that arrays need a multiple of four; `start` is one of `LANES`.
    """
    for i in range(0, count, 4):
        for j in range(start, out.shape[1], LANES):
            r0, r1 = load(out, i, j), load(out, i + 1, j)
            r2, r3 = load(out, i + 2, j), load(out, i + 3, j)
            for k in range(terms):
                row = load(rows, k, j)
                r0 = add_multiple(r0, sign * factors[i, k], row)
                r1 = add_multiple(r1, sign * factors[i + 1, k], row)
                r2 = add_multiple(r2, sign * factors[i + 2, k], row)
                r3 = add_multiple(r3, sign * factors[i + 3, k], row)
            store(out, i, j, r0)
            store(out, i + 1, j, r1)
            store(out, i + 2, j, r2)
            store(out, i + 3, j, r3)


@compiled
def regress(own, rows, r, q, square):
    """Replace W in rows [Z, W] by W - Z B, with B = (I + Z'Z)^-1 Z'W, and return log |I + Z'Z| / 2.

    Parameters
    ----------
    own : (q', r') float64
        Z transposed; q' and r' are multiples of `LANES`.
    rows : (r', q' + P') float64
        Z and W, padded with zeros.
    square : (q', q' + P') float64
        Receives B after q' columns.
    """
    start, stop, total = padded(q), rows.shape[1], 0.0
    square[:] = 0.0
    for k in range(q):
        square[k, k] = 1.0
    add_products(square, q, own, 1.0, rows, r, 0)
    if cholesky(square, q, 0) < q:
        return math.nan
    for k in range(q - 1, -1, -1):
        total += math.log(square[k, k])
        for j in range(start, stop, LANES):
            row = load(square, k, j)
            for i in range(k + 1, q):
                row = add_multiple(row, -square[k, i], load(square, i, j))
            store(square, k, j, multiple(1.0 / square[k, k], row))
    add_products(rows, r, rows, -1.0, square, q, start)
    return total


@compiled
def whiten(roots, own, common, known, ranks, noise, white, log_determinant):
    """Write V_u and the log determinant of all users' C_u C_u', for each draw.

    Parameters
    ----------
    roots : (S, q, q) float64
        L, of which few entries aren't zero.
    own : (U, q, r) float64
        R_u transposed, padded with columns of zeros; r is a multiple of `LANES`.
    common : (U, r, P') float64
        X_u, padded with rows and columns of zeros; P' is a multiple of `LANES`.
    known : (U, r) float64
        Diagonals of D_u', padded.
    ranks : (U,) int64
        Numbers of rows r_u.
    noise : (S,) float64
        s.
    white : (S, sum of heights, P + 1) float64
        Receives V_u, one user after another.
    log_determinant : (S,) float64
        Receives 2 sum_u log |C_u|; NaN where a matrix isn't positive definite.
    """
    q, most, width, p = own.shape[1], own.shape[2], common.shape[2], white.shape[2]
    start = padded(q)
    spread = np.zeros((start, most))  # (R_u L)'
    both = np.empty((most, most + width))
    rows, square = np.zeros((most, start + width)), np.empty((start, start + width))
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
            if r > MANY * q:
                for i in range(r):
                    sd = math.sqrt(noise[s] ** 2 + known[u, i])
                    total += math.log(sd)
                    for j in range(q):
                        spread[j, i] /= sd
                        rows[i, j] = spread[j, i]
                    for c in range(0, width, LANES):
                        store(rows, i, start + c, multiple(1.0 / sd, load(theirs, i, c)))
                total += regress(spread, rows, r, q, square)
                white[s, place : place + r] = rows[:r, start : start + p]
                white[s, place + r : place + r + q] = square[:q, start : start + p]
                place += r + q
                continue
            # The factorisation of [C C', X] is [C', V].
            for i in range(r):
                for j in range(i // LANES * LANES, most, LANES):
                    row = multiple(spread[0, i], load(spread, 0, j))
                    for k in range(1, q):
                        row = add_multiple(row, spread[k, i], load(spread, k, j))
                    store(both, i, j, row)
                both[i, i] += noise[s] ** 2 + known[u, i]
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


class DrawnSites(NamedTuple):
    """Targets and their known noise, which differ between draws.

    Attributes
    ----------
    targets, known : ndarray, shape (S, U, r)
        Targets of users' rows and known noise variances, padded, in place of those of
        :class:`Products`, whose rows are apart.
    """

    targets: np.ndarray
    known: np.ndarray

    def at(self, draws: slice, users: Any = slice(None)) -> "DrawnSites":
        """Return those of some draws and users."""
        return DrawnSites(*(values[draws][:, users] for values in self))


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


class Rotation(NamedTuple):
    """A user's rows, those with equal known noise rotated so that few depend on the user's columns.

    Attributes
    ----------
    basis : ndarray, shape (n, r)
        Orthonormal columns Q_u: those of each group of rows are zero in other rows.
    own : ndarray, shape (r, q)
        R_u = Q_u'Z_u.
    known : ndarray, shape (r,)
        Known noise variances of rotated rows.
    groups : list of ndarray, shape (n_g,)
        Rows of groups that have more rows than columns.
    """

    basis: np.ndarray
    own: np.ndarray
    known: np.ndarray
    groups: list[np.ndarray]

    @classmethod
    def of(cls, columns: np.ndarray, noise: np.ndarray, apart: bool = False) -> Self:
        """Return the rotation of columns (n, q) with known noise variances (n,).

        If rows are `apart`, they stay as they are, also those with equal noise.
        """
        if apart:
            return cls(np.eye(len(noise)), columns, noise, [])
        (n, q), (_, sizes) = columns.shape, np.unique(noise, return_counts=True)
        groups = np.split(np.argsort(noise, kind="stable"), np.cumsum(sizes)[:-1])
        ends = np.cumsum(np.minimum(sizes, q))
        basis, own, known = np.zeros((n, ends[-1])), np.zeros((ends[-1], q)), np.zeros(ends[-1])
        for rows, end in zip(groups, ends, strict=True):
            part = slice(end - min(len(rows), q), end)
            alone = len(rows) == 1  # and stays as it is
            turned = (1.0, columns[rows]) if alone else np.linalg.qr(columns[rows])
            basis[rows, part], own[part] = turned
            known[part] = noise[rows[0]]
        return cls(basis, own, known, [rows for rows in groups if len(rows) > q])


@dataclass(frozen=True, eq=False)
class Products:
    """What the likelihood needs of each user's columns and targets.

    A user has k groups of rows with equal known noise that have more rows than columns, or fewer,
    but k is at least one. Arrays are padded with zeros.

    Attributes
    ----------
    own : ndarray, shape (U, r, q)
        R_u, padded with rows of zeros.
    common : ndarray, shape (U, r, P + 1)
        X_u, padded with rows of zeros.
    known : ndarray, shape (U, r)
        Known noise variances of rotated rows.
    rest : ndarray, shape (U, k, P + 1, P + 1)
        W_g'W_g - X_g'X_g.
    rest_known, rest_rows : ndarray, shape (U, k)
        Known noise variances d_g, and numbers of rows n_g - r_g.
    ranks, rows : ndarray, shape (U,)
        Numbers r_u of rows of R_u, and n_u of the user's rows.
    """

    own: np.ndarray
    common: np.ndarray
    known: np.ndarray
    rest: np.ndarray
    rest_known: np.ndarray
    rest_rows: np.ndarray
    ranks: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(
        cls,
        shared: Sequence[np.ndarray],
        personal: Sequence[np.ndarray],
        targets: Sequence[np.ndarray],
        noise: Sequence[np.ndarray],
        apart: bool = False,
    ) -> Self:
        """Return the products of each user's columns (n, P) and (n, q), and targets (n,).

        `noise` are the targets' known noise variances (n,), which may be zero; `apart` is as for
        :class:`Rotation`.
        """
        rotations = [Rotation.of(z, d, apart) for z, d in zip(personal, noise, strict=True)]
        rows = np.array([len(y) for y in targets])
        ranks = np.array([len(rotation.known) for rotation in rotations])
        users, most, q = len(rows), int(ranks.max()), personal[0].shape[1]
        many = max(1, *(len(r.groups) for r in rotations))
        p = shared[0].shape[1] + 1
        own, common = np.zeros((users, most, q)), np.zeros((users, most, p))
        known, rest = np.zeros((users, most)), np.zeros((users, many, p, p))
        rest_known, rest_rows = np.zeros((users, many)), np.zeros((users, many), dtype=np.int64)
        for u, rotation in enumerate(rotations):
            r, both = ranks[u], np.column_stack([shared[u], targets[u]])
            own[u, :r], known[u, :r] = rotation.own, rotation.known
            common[u, :r] = rotation.basis.T @ both
            left = both - rotation.basis @ common[u, :r]
            for g, group in enumerate(rotation.groups):
                beyond = left[group]
                rest[u, g] = beyond.T @ beyond
                rest_known[u, g], rest_rows[u, g] = noise[u][group[0]], len(group) - q
        return cls(own, common, known, rest, rest_known, rest_rows, ranks, rows)

    def take(self, users: Any) -> "Products":
        """Return the products of some users, by an index of arrays."""
        return Products(*(getattr(self, part.name)[users] for part in fields(self)))

    @property
    def height(self) -> int:
        """Number of rows of all V_u: r_u of each user, and q more after a regression."""
        q = self.own.shape[2]
        return int((self.ranks + q * (self.ranks > MANY * q)).sum())

    def padded(self, rows: np.ndarray) -> np.ndarray:
        """Return values (S, n) of all rows by user, (S, U, r), padded; rows have to be apart."""
        out = np.zeros((len(rows), *self.known.shape))
        out[:, np.arange(self.known.shape[1]) < self.rows[:, None]] = rows
        return out

    def white(
        self, scales: Scales, sites: DrawnSites | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return all V_u (S, ., P + 1) below each other, and 2 sum_u log |C_u| (S,)."""
        count = len(scales.noise)
        white = np.empty((count, self.height, self.common.shape[2]))
        log_determinant = np.empty(count)
        (users, most, q), columns = self.own.shape, self.common.shape[2]
        own, common = np.zeros((users, q, padded(most))), np.zeros((users, most, padded(columns)))
        own[:, :, :most], common[:, :, :columns] = self.own.mT, self.common
        roots = np.ascontiguousarray(scales.personal)
        if sites is None:
            whiten(roots, own, common, self.known, self.ranks, scales.noise, white, log_determinant)
            return white, log_determinant
        for s, known in enumerate(sites.known):
            one, common[:, :most, columns - 1] = slice(s, s + 1), sites.targets[s]
            out = scales.noise[one], white[one], log_determinant[one]
            whiten(roots[one], own, common, known, self.ranks, *out)
        return white, log_determinant

    def total(self, scales: Scales, sites: DrawnSites | None = None) -> Total:
        """Return the sums that the likelihood depends on, given scales of S draws."""
        variance = scales.noise[:, None] ** 2
        levels, rows, rest = self.left_over
        constant = self.rows.sum() * np.log(2 * np.pi) + np.log(variance + levels) @ rows
        rest = np.tensordot(variance / (variance + levels), rest, 1) / variance[..., None]
        white, log_determinant = self.white(scales, sites)
        return Total(constant + log_determinant, rest + white.mT @ white)

    @cached_property
    def left_over(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Different d_g (l,), and sums of n_g - r_g (l,) and W_g'W_g - X_g'X_g (l, P+1, P+1)."""
        levels, places = np.unique(self.rest_known, return_inverse=True)
        rows = np.bincount(places.ravel(), self.rest_rows.ravel())
        rest = np.zeros((len(levels), *self.rest.shape[2:]))
        np.add.at(rest, places, self.rest)
        return levels, rows, rest

    def parts(self, count: int) -> Iterator[slice]:
        """Split draws into parts whose arrays fit into the processor's cache, or nearly."""
        columns = self.common.shape[2]
        size = max(1, AT_A_TIME // (columns * max(columns, self.height)))
        return (slice(start, min(start + size, count)) for start in range(0, count, size))
