"""How the noise's variance depends on one feature, or on the mean: learned from pilot users.

Of rows with the value z of the feature the noise has the variance s^2 f(z), where log f is linear
in the rank of z among the pilot users' rows, or has a value for each level of a category, and the
mean of f over these rows is one. Ranks keep few extreme values from having a large effect. Between
ranks that are kept f is interpolated, and beyond them it is as at the nearest one. (In nlme such
functions are varExp, varPower and varIdent: Pinheiro and Bates 2000, section 5.2.)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize
from scipy.special import ndtri

from kem_pymc.errors import InputError
from kem_pymc.gp.likelihood import HALF_LOG_2PI

#: Name of the mean as if it were a feature.
MEAN = "the mean"

#: Prior sd of the change of the log variance per standard deviation of the ranks, or of a level.
SPREAD = 1.0

#: Gain in nats of the log density of users who are left out, up to which the noise has the same
#: variance everywhere, and probability that the largest gain by chance is significant.
GAIN, CHANCE = 2.0, 0.1

#: Largest number of values of a number between which log f is interpolated.
VALUES = 33

#: Largest number of rows of a user that are used, and share of the largest variance along a
#: direction below which it is left out.
ROWS, FELT = 500, 1e-10

#: Step of differences of gradients, and difference of codes that are the same but for rounding.
STEP, SAME = 1e-4, 1e-6


@dataclass(frozen=True, eq=False)
class VarianceFunction:
    """The factor by which the noise's variance depends on a value.

    Attributes
    ----------
    name : str
        Name of the feature, or `MEAN`.
    values : ndarray, shape (K,)
        Values z, increasing, or the codes of levels, in scaled units.
    log_factors : ndarray, shape (K,)
        log f of these.
    labels : tuple of str
        Names of a category's levels; empty for numbers.
    """

    name: str
    values: np.ndarray
    log_factors: np.ndarray
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shapes = {self.values.shape, self.log_factors.shape, (len(self.labels or self.values),)}
        if len(shapes) > 1 or not len(self.values) or not (np.diff(self.values) > 0).all():
            raise InputError(
                f"The noise's factors depend on {self.name} in a way that isn't one. Give a factor "
                "for each value, and values in increasing order."
            )

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the factors (n,) at values (n,). Of unknown levels the factor is one."""
        if self.labels:
            return np.exp((np.abs(values[:, None] - self.values) < SAME) @ self.log_factors)
        return np.exp(np.interp(values, self.values, self.log_factors))

    def __str__(self) -> str:
        """Return a sentence that compares the noise's standard deviations."""
        least, most = int(self.log_factors.argmin()), int(self.log_factors.argmax())
        times = np.exp((self.log_factors[most] - self.log_factors[least]) / 2)
        if self.labels:
            where = f"for {self.labels[most]} as for {self.labels[least]}"
        else:
            ends = ("largest", "smallest")[:: 1 if most > least else -1]
            where = f"where that is {ends[0]} as where it is {ends[1]}"
        return f"The noise depends on {self.name}: its sd is {times:.2g} times as large {where}."

    def to_dict(self) -> dict[str, Any]:
        """Return the function as plain data that can be written to a file."""
        arrays = {"values": self.values.tolist(), "log_factors": self.log_factors.tolist()}
        return {"name": self.name, "labels": list(self.labels), **arrays}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the function from the data of :meth:`to_dict`.

        Raises
        ------
        InputError
            If there isn't one factor for each value, or values don't increase.
        """
        arrays = np.array(data["values"]), np.array(data["log_factors"])
        return cls(data["name"], *arrays, tuple(data["labels"]))


class Covariate(NamedTuple):
    """A feature, or the mean, on which the noise may depend.

    Attributes
    ----------
    name : str
    values : ndarray, shape (n,)
        Its values in the rows of all users, one user after another.
    labels : tuple of str
        Names of a category's levels.
    """

    name: str
    values: np.ndarray
    labels: tuple[str, ...] = ()

    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the values (K,) that are kept, and columns (K, k) in which log f is linear."""
        values, counts = np.unique(self.values, return_counts=True)
        if self.labels:
            return values, np.linalg.qr(np.column_stack([counts > 0, np.eye(len(values))]))[0][
                :, 1:
            ]
        ranks = np.cumsum(counts) - (counts + 1) / 2
        kept = np.unique(np.searchsorted(ranks, np.linspace(0, ranks[-1], VALUES)))
        mean = counts @ ranks / counts.sum()
        sd = np.sqrt(counts @ (ranks - mean) ** 2 / counts.sum())
        return values[kept], ((ranks[kept] - mean) / (sd or 1.0))[:, None]


class UserRows(NamedTuple):
    """One user's rows, given all other users'.

    Attributes
    ----------
    error : ndarray, shape (n,)
        Targets less their mean.
    root : ndarray, shape (n, k)
        B, where B B' is the covariance of the targets without their noise.
    known : ndarray, shape (n,)
        Known variances of noise.
    """

    error: np.ndarray
    root: np.ndarray
    known: np.ndarray

    @classmethod
    def of(cls, error: np.ndarray, covariance: np.ndarray, known: np.ndarray) -> Self:
        """Return the rows with a covariance (n, n), which may be singular."""
        values, vectors = np.linalg.eigh(covariance)
        felt = values > FELT * max(values[-1], FELT)
        return cls(error, vectors[:, felt] * np.sqrt(values[felt]), known)

    def log_density(self, log_noise: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log density of the targets, and its slopes in log noise variances (n,).

        With D the diagonal matrix of the noise's variances, it is the density of N(0, B B' + D),
        computed by the matrix inversion lemma.
        """
        noise = np.exp(log_noise)
        variances = noise + self.known
        scaled = self.root / np.sqrt(variances)[:, None]
        factor = cho_factor(np.eye(self.root.shape[1]) + scaled.T @ scaled, lower=True)
        white = self.error / np.sqrt(variances)
        dual = (white - scaled @ cho_solve(factor, scaled.T @ white)) / np.sqrt(variances)
        halves = solve_triangular(factor[0], scaled.T, lower=True)
        inverse = (1 - (halves**2).sum(axis=0)) / variances  # the diagonal of that of B B' + D
        log_determinant = np.log(variances).sum() + 2 * np.log(np.diag(factor[0])).sum()
        height = -0.5 * (self.error @ dual + log_determinant) - len(noise) * HALF_LOG_2PI
        return float(height), 0.5 * noise * (dual**2 - inverse)


def choose(rows: Sequence[UserRows], candidates: Iterable[Covariate]) -> VarianceFunction | None:
    """Return the dependence with the largest gain, or None if the noise is the same everywhere.

    A gain is that of the log density of each user's targets given all other users', from whom the
    weights of the columns are learned, too: by one Newton step from those learned from all users.
    It has to be significant, given its standard error over users and the number of candidates
    (Bonferroni).
    """
    ends = np.cumsum([len(own.error) for own in rows])
    _, constant = _learned(rows, np.ones((ends[-1], 1)))
    found, most = None, GAIN
    every = [(one, *one.columns()) for one in candidates]
    tried = [one for one in every if len(one[1]) > 1]
    errors = ndtri(1 - CHANCE / max(len(tried), 1))
    for (name, values, labels), kept, columns in tried:
        places = np.abs(values[:, None] - kept).argmin(axis=1)
        each = columns[places]
        if not labels:
            each = np.interp(values, kept, columns[:, 0])[:, None]
        weights, left_out = _learned(rows, np.column_stack([np.ones(ends[-1]), each]))
        gains = left_out - constant
        total = float(gains.sum())
        if total > max(most, errors * gains.std() * np.sqrt(len(gains))):
            most, log_mean = total, np.log(np.exp(each @ weights[1:]).mean())
            found = VarianceFunction(name, kept, columns @ weights[1:] - log_mean, labels)
    return found


def _learned(rows: Sequence[UserRows], columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return weights (k,) of log noise variances, and log densities (U,) by other users' weights.

    `columns` (n, k) are those of all users' rows, and the first is one.
    """
    size = columns.shape[1]
    designs = np.split(columns, np.cumsum([len(own.error) for own in rows])[:-1])
    precision = np.full(size, SPREAD**-2)
    precision[0] = 0.0

    def each(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return every user's log density (U,) and its gradient (U, K)."""
        parts = zip(rows, designs, strict=True)
        found = [(own.log_density(x @ weights), x) for own, x in parts]
        return np.array([h for (h, _), _ in found]), np.array([x.T @ g for (_, g), x in found])

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        heights, slopes = each(weights)
        penalty = 0.5 * weights @ (precision * weights)
        return penalty - heights.sum(), precision * weights - slopes.sum(axis=0)

    start = np.zeros(size)
    start[0] = np.log(np.mean(np.concatenate([own.error for own in rows]) ** 2) / 4)
    best = minimize(loss, start, jac=True, method="BFGS").x
    before = loss(best)[1]
    curvature = np.array([(loss(best + s)[1] - before) / STEP for s in STEP * np.eye(size)])
    share = (len(rows) - 1) / len(rows)  # of the curvature, from the others
    steps = np.linalg.solve(share * (curvature + curvature.T) / 2, each(best)[1].T).T
    left_out = [
        own.log_density(x @ (best - step))[0]
        for own, x, step in zip(rows, designs, steps, strict=True)
    ]
    return best, np.array(left_out)
