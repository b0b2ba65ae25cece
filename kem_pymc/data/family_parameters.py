"""Parameters of families, estimated from pilot users.

The likelihood is maximised under a model in which every two consecutive targets of a user have the
same latent value, and these values are normal and independent. Longer stretches, such as all of a
user's targets, would take changes over time for the spread of targets around their latent value,
and users' kernels could explain little of it any more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.optimize import minimize
from scipy.special import logsumexp, ndtri

from kem_pymc.data.likelihoods import (
    HALF_LOG_2PI,
    CumulativeProbit,
    Gamma,
    Likelihood,
    StudentT,
    log_mass,
)

#: Number of a user's consecutive targets that are assumed to have the same latent value while
#: parameters are learned, and the largest number of such blocks that is used.
BLOCK, MOST_BLOCKS = 2, 2000

#: Degrees of freedom of Student's t where fewer than this number of targets have others near them.
DEGREES, FEW = 4.0, 30

#: Ranges of what is learned: the gamma shape, the degrees of freedom above 2, and the sd of latent
#: values. Beyond them a distribution is a normal one, or has no variance.
SHAPES, ABOVE_TWO, SPREADS = (0.05, 1e4), (0.1, 50.0), (0.01, 10.0)
LOG_SPREADS = (float(np.log(SPREADS[0])), float(np.log(SPREADS[1])))

#: Mean and standard deviation of latent values.
Latent = tuple[float, float]

#: Nodes and log weights of the quadrature over the latent value of a block, and Newton steps to it.
#: Where users are all or none, densities are skewed: 15 nodes were off by 5 of 147 nats.
_NODES, _WEIGHTS = hermegauss(100)
_LOG_WEIGHTS = np.log(_WEIGHTS) + 0.5 * _NODES**2
_STEPS, _LONGEST, _CLOSE = 50, 2.0, 1e-9


def latent_values(
    likelihood: Likelihood, values: Sequence[np.ndarray], sizes: Sequence[np.ndarray]
) -> Latent:
    """Return mean and sd of latent values, for a likelihood without parameters.

    Parameters
    ----------
    likelihood : Likelihood
    values, sizes : sequence of ndarray, shape (n,) each
        Targets of users, and exposures or trials.
    """
    blocks = Blocks.of(values, sizes)
    z, v = likelihood.pseudo_observations(blocks.y, blocks.sizes)
    centre = float(np.average(z, weights=1 / v))

    def objective(given: np.ndarray) -> float:
        return blocks.log_evidence(likelihood, given[0], np.exp(given[1]))

    mean, log_sd = _maximum(objective, [centre, 0.0], [(centre - 10, centre + 10), LOG_SPREADS])
    return float(mean), float(np.exp(log_sd))


def cut_points(
    values: Sequence[np.ndarray], lowest: float, count: int
) -> tuple[np.ndarray, Latent]:
    """Return the cut points (count,) of levels from `lowest` on, and what latent values are."""
    blocks = Blocks.of(values)
    observed = np.bincount((np.concatenate(values) - lowest).astype(int), minlength=count + 1)
    shares = np.cumsum(observed + 0.5)[:-1] / (observed + 0.5).sum()
    start = np.sqrt(2) * ndtri(shares)  # where the sd of latent values is one

    def points(given: np.ndarray) -> np.ndarray:
        return np.cumsum(np.append(given[0], np.exp(given[1:-1])))

    def objective(given: np.ndarray) -> float:
        cuts, sd = points(given), np.exp(given[-1])
        ends = np.concatenate([[-np.inf], cuts, [np.inf]]) / np.hypot(1, sd)
        added = 0.5 * log_mass(ends[:-1], ends[1:]).sum()
        return blocks.log_evidence(CumulativeProbit(lowest, cuts), 0.0, sd) + added

    widths = np.log(np.diff(start))
    ranges = [(start[0] - 10, start[0] + 10), *((w - 3, w + 3) for w in widths), LOG_SPREADS]
    found = _maximum(objective, [start[0], *widths, 0.0], ranges)
    return points(found), (0.0, float(np.exp(found[-1])))


def gamma_shape(values: Sequence[np.ndarray]) -> tuple[float, Latent]:
    """Return the shape of a gamma distribution, and what latent values are."""
    blocks = Blocks.of(values)
    centre, spread = float(np.log(blocks.y).mean()), float(np.log(blocks.y).std())

    def objective(given: np.ndarray) -> float:
        log_shape, mean, log_sd = given
        return blocks.log_evidence(Gamma(float(np.exp(log_shape))), mean, np.exp(log_sd))

    start = [0.0, centre, np.log(np.clip(spread, *SPREADS))]
    ranges = [tuple(np.log(SHAPES)), (centre - 10, centre + 10), LOG_SPREADS]
    log_shape, mean, log_sd = _maximum(objective, start, ranges)
    return float(np.exp(log_shape)), (float(mean), float(np.exp(log_sd)))


def heavy_tails(values: Sequence[np.ndarray]) -> tuple[float, float]:
    """Return degrees of freedom and scale of Student's t."""
    every = np.concatenate(values)
    unit = float(np.subtract(*np.percentile(every, [75, 25]))) or float(np.std(every)) or 1.0
    centre = float(np.median(every))
    blocks = Blocks.of([(y - centre) / unit for y in values])
    few = len(every) - blocks.count < FEW

    def objective(given: np.ndarray) -> float:
        above_two, scale, sd = np.exp(given[[0, 1, 3]])
        return blocks.log_evidence(StudentT(2 + above_two, scale), given[2], sd)

    known = np.log(DEGREES - 2)
    degrees = (known, known) if few else tuple(np.log(ABOVE_TWO))
    ranges = [degrees, (-7.0, 3.0), (-10.0, 10.0), LOG_SPREADS]
    above_two, scale = np.exp(_maximum(objective, [known, -1.0, 0.0, -0.5], ranges)[:2])
    return 2 + float(above_two), unit * float(scale)


def _maximum(
    objective: Callable[[np.ndarray], float],
    start: Sequence[float],
    ranges: Sequence[tuple[float, ...]],
) -> np.ndarray:
    """Return where a function is largest within ranges."""
    with np.errstate(over="ignore", under="ignore"):
        return minimize(lambda x: -objective(x), start, method="L-BFGS-B", bounds=ranges).x


@dataclass(frozen=True, eq=False)
class Blocks:
    """Consecutive targets of users that have the same latent value.

    Attributes
    ----------
    y, sizes : ndarray, shape (n,)
        Targets, with their exposures or trials, block by block.
    start : ndarray, shape (B,)
        Place of the first target of each block.
    count : int
        Number of blocks of all targets, of which evenly spaced ones are used if they are many.
    """

    y: np.ndarray
    sizes: np.ndarray
    start: np.ndarray
    count: int

    @classmethod
    def of(cls, values: Sequence[np.ndarray], sizes: Sequence[np.ndarray] | None = None) -> Self:
        """Return blocks of users' targets."""
        each = [np.ones_like(y) for y in values] if sizes is None else sizes
        rows = [np.stack(pair) for pair in zip(values, each, strict=True)]
        blocks = [row[:, i : i + BLOCK] for row in rows for i in range(0, row.shape[1], BLOCK)]
        used = np.linspace(0, len(blocks) - 1, min(len(blocks), MOST_BLOCKS)).round().astype(int)
        parts = [blocks[i] for i in used]
        start = np.cumsum([0, *(part.shape[1] for part in parts[:-1])])
        y, size = np.concatenate(parts, axis=1)
        return cls(y, size, start, len(blocks))

    def log_evidence(self, likelihood: Likelihood, mean: float, sd: float) -> float:
        """Return the log likelihood where latent values of blocks are normal, by quadrature."""
        length = np.diff(np.append(self.start, len(self.y)))

        def total(values: np.ndarray) -> np.ndarray:
            return np.add.reduceat(values, self.start, axis=-1)

        def spread(level: np.ndarray) -> np.ndarray:
            return np.repeat(level, length, axis=-1)

        z, v = likelihood.pseudo_observations(self.y, self.sizes)
        precision = sd**-2 + total(1 / v)
        level = (mean * sd**-2 + total(z / v)) / precision
        for _ in range(_STEPS):
            first, weight = likelihood.derivatives(self.y, spread(level), self.sizes)
            precision = sd**-2 + total(weight)
            step = (total(first) - (level - mean) * sd**-2) / precision
            level = level + np.clip(step, -_LONGEST, _LONGEST)
            if np.abs(step).max() < _CLOSE:
                break
        nodes = level + np.multiply.outer(_NODES, 1 / np.sqrt(precision))
        terms = total(likelihood.log_density(self.y, spread(nodes), self.sizes))
        terms -= 0.5 * ((nodes - mean) / sd) ** 2 + np.log(sd) + HALF_LOG_2PI
        terms += _LOG_WEIGHTS[:, None] - 0.5 * np.log(precision)
        return float(logsumexp(terms, axis=0).sum())
