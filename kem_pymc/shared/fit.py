"""Fit the hyperparameters of a two-level model by their posterior mode.

The marginal likelihood of all rows is computed exactly, from one Cholesky factor of their
covariance: the shared covariance between all rows, plus the personal one within users. Priors are
weak, in units of the data, and nearly flat towards components and features without effect.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy.optimize import minimize

from kem_pymc._system.jit.simd import padded
from kem_pymc._system.resources import one_blas_thread
from kem_pymc.data.categories import CAT
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.kernel import FixedKernel
from kem_pymc.gp.likelihood import add_kernel_gradient
from kem_pymc.gp.mean_process import SharedKernel
from kem_pymc.gp.objective import log_likelihood
from kem_pymc.kernels.base import base_kernel
from kem_pymc.kernels.composition import Candidate, Composition, Hyperparameter
from kem_pymc.kernels.library import kernels
from kem_pymc.shared.two_level import TwoLevel

#: Standard deviations of the normal priors of logs: of amplitudes and the noise, and of others.
AMPLITUDE_SD, LENGTH_SD = 2.0, 1.0

#: The same on the side where a component or a feature has no effect: small amplitudes and long
#: lengthscales. Of many features few may matter, and priors that keep each one near its median
#: would add up to a function of all features.
IRRELEVANT_SD = 8.0

#: Sign of that side by kind. Small amplitudes of differences between groups aren't included: a few
#: groups contain little information on their amplitude, and at a mode near zero the model would
#: conclude with certainty that groups don't differ.
IRRELEVANT = {"amplitude": -1.0, "lengthscale": 1.0}

#: Prior medians: of the noise as a share of the targets' variance, of lengthscales and of periods
#: as shares of a feature's range.
NOISE_SHARE, LENGTH_SHARE, PERIOD_SHARE = 0.1, 0.5, 0.25

#: The search for the mode starts at the prior's median, and again with the logs of lengthscales and
#: periods reduced by this: from long ones alone, fast variation may be fitted as noise.
SHORTER = 2.0

#: Maximum number of rows of all users, and of steps, in the first stage of the search.
FIRST_ROWS, FIRST_STEPS = 400, 200

#: The same in the last stage, which starts from the first one's result. Other users aren't used.
MOST_ROWS, LAST_STEPS = 2000, 15


@one_blas_thread()
def fit_two_level(
    inputs: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    shared: Composition,
    personal: Composition,
    noise_floor: float,
    rng: np.random.Generator,
) -> TwoLevel:
    """Return a two-level model at its posterior mode, without inducing points.

    Shifts of the shared LIN aren't fitted but set to the features' means, because a shared level
    compensates for them. Shifts of the personal LIN are fitted: they determine the correlation of a
    user's level and slope.

    Parameters
    ----------
    inputs, targets : sequence of ndarray, shapes (n, D) and (n,)
        Inputs and targets of every user, in scaled units.
    shared, personal : Composition
        Compositions of the mean process and of each user's own function.
    noise_floor : float
        Smallest noise variance.
    rng : Generator
        Random number generator that draws the users of the first stage if there are more than 400
        rows, and those of the fit if there are more than 2,000.

    Returns
    -------
    TwoLevel
    """
    part = _part(inputs, targets, FIRST_ROWS, rng)
    problem = MarginalLikelihood(*part, shared, personal)
    modes = [problem.maximise(start, noise_floor, FIRST_STEPS) for start in problem.starts]
    values = max(modes, key=lambda values: problem(values)[0])
    if sum(map(len, part[1])) < sum(map(len, targets)):
        part = _part(inputs, targets, MOST_ROWS, rng)
        problem = MarginalLikelihood(*part, shared, personal)
        values = problem.maximise(values, noise_floor, LAST_STEPS)
    return problem.model(values)


def _part(
    inputs: Sequence[np.ndarray], targets: Sequence[np.ndarray], rows: int, rng: np.random.Generator
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return inputs and targets of users drawn at random, with at most `rows` rows in total.

    At least two users are drawn; of a user with too many rows, evenly spaced ones are kept.
    """
    if sum(map(len, targets)) <= rows:
        return list(inputs), list(targets)
    x: list[np.ndarray] = []
    y: list[np.ndarray] = []
    left = rows
    for u in rng.permutation(len(targets)):
        share = min(len(targets[u]), left if x else rows // 2)
        kept = np.linspace(0, len(targets[u]) - 1, share).round().astype(int)
        x.append(inputs[u][kept])
        y.append(targets[u][kept])
        left -= share
        if left <= 0:
            break
    return x, y


class MarginalLikelihood:
    """Log marginal likelihood plus log prior of a two-level model's values, with its gradient.

    The values are the coordinates of the shared kernel's hyperparameters, then those of the
    personal kernel's hyperparameters, then the log of the noise variance.

    Parameters
    ----------
    inputs, targets : sequence of ndarray, shapes (n, D) and (n,)
        Inputs and targets of every user, in scaled units.
    shared, personal : Composition
        Compositions of the mean process and of each user's own function.
    """

    def __init__(
        self,
        inputs: Sequence[np.ndarray],
        targets: Sequence[np.ndarray],
        shared: Composition,
        personal: Composition,
    ) -> None:
        rows = np.concatenate(inputs)
        self.x = np.ascontiguousarray(rows.T, dtype=np.float64)
        self.y = np.concatenate(targets)
        variance = float(np.mean((self.y - self.y.mean()) ** 2)) or 1.0
        #: The spans of rows between which each level has covariances.
        self.spans = [(0, len(self.y))], list(pairwise(np.cumsum([0, *map(len, targets)]).tolist()))
        self.levels = [Coordinates.alone(c, rows.shape[1]) for c in (shared, personal)]
        every = [(h, level) for level in self.levels for h in level.hyperparameters]
        priors = [_prior(h, level.composition, rows, variance) for h, level in every]
        priors.append((np.log(NOISE_SHARE * variance), AMPLITUDE_SD))
        self.prior_mean, self.prior_sd = np.array(priors).T
        self.kinds = (*(_kind(h) for h, _ in every), "noise")
        #: Values that aren't fitted: shifts of the shared kernel.
        self.fixed = np.array([not h.positive and level is self.levels[0] for h, level in every])
        self.fixed = np.append(self.fixed, False).astype(bool)
        self.irrelevant = np.array([IRRELEVANT.get(kind, 0.0) for kind in self.kinds])

    @property
    def starts(self) -> list[np.ndarray]:
        """Starting values (d,): the prior's median, also with shorter lengthscales and periods."""
        lengths = np.array([kind in ("lengthscale", "period") for kind in self.kinds])
        return [self.prior_mean, self.prior_mean - SHORTER * lengths]

    def _split(self, values: np.ndarray) -> list[np.ndarray]:
        """Return the coordinates of each level, the log noise variance included."""
        first = len(self.levels[0]) - 1
        return [np.append(values[:first], values[-1]), values[first:]]

    def _kernels(self, values: np.ndarray) -> list[FixedKernel]:
        return list(map(FixedKernel.of, self.levels, self._split(values)))

    def covariance(self, values: np.ndarray) -> np.ndarray:
        """Return the covariance (n, n) of all rows; only its upper triangle is meaningful."""
        total = np.zeros((len(self.y), len(self.y)))
        for kernel, spans in zip(self._kernels(values), self.spans, strict=True):
            for a, b in spans if len(kernel.active) else ():
                total[a:b, a:b] += kernel.upper(self.x.T[a:b])[:, : b - a]
        total[np.diag_indices(len(total))] += np.exp(values[-1])
        return total

    def __call__(self, values: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log likelihood plus log prior at `values` (d,), and its gradient (d,).

        They are minus infinity and zeros where the covariance isn't positive definite. The gradient
        of values that aren't fitted is zero.
        """
        n = len(self.y)
        adjoint = np.zeros((n, padded(n)))
        likelihood = log_likelihood(self.covariance(values), self.y, adjoint)
        if likelihood is None:
            return -np.inf, np.zeros_like(values)
        away = values - self.prior_mean
        sd = np.where(away * self.irrelevant > 0, IRRELEVANT_SD, self.prior_sd)
        slopes = []
        for level, kernel, spans in zip(
            self.levels, self._kernels(values), self.spans, strict=True
        ):
            out = np.zeros(len(kernel.h) + 1)
            for a, b in spans if len(kernel.active) else ():
                weights = np.zeros((b - a, padded(b - a)))
                weights[:, : b - a] = adjoint[a:b, a:b]
                x, place = np.ascontiguousarray(self.x[:, a:b]), (kernel.layout, kernel.active)
                add_kernel_gradient(kernels(), *place, kernel.h, x, weights, out)
            slopes.append(out[level.places])
        slopes.append([np.trace(adjoint[:, :n]) * np.exp(values[-1])])
        slope = np.where(self.fixed, 0.0, np.concatenate(slopes) - away / sd**2)
        return likelihood - 0.5 * np.sum((away / sd) ** 2), slope

    def maximise(self, start: np.ndarray, noise_floor: float, steps: int) -> np.ndarray:
        """Return the values (d,) of a mode near `start`, with the noise at its floor or above."""

        def negative(values: np.ndarray) -> tuple[float, np.ndarray]:
            height, slope = self(values)
            return (-height, -slope) if np.isfinite(height) else (1e100, slope)

        reach = np.where(self.fixed, 0.0, 6 * self.prior_sd)
        low = self.prior_mean - reach
        low[-1] = np.log(noise_floor)
        high = np.maximum(self.prior_mean + reach, low + ~self.fixed)
        optimum = minimize(
            negative,
            np.clip(start, low, high),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(low, high, strict=True)),
            options={"maxiter": steps, "ftol": 1e-9, "maxls": 30},
        )
        return optimum.x

    def model(self, values: np.ndarray) -> TwoLevel:
        """Return the two-level model with these values, without inducing points."""
        (of_shared, _), (of_personal, noise) = (
            level.named(part) for level, part in zip(self.levels, self._split(values), strict=True)
        )
        shared, personal = (level.composition for level in self.levels)
        dimension = len(self.x)
        kernel = SharedKernel(shared, of_shared, dimension, np.empty((0, dimension)))
        return TwoLevel(kernel, personal, of_personal, noise)


def _kind(hyperparameter: Hyperparameter) -> str:
    """Return a hyperparameter's kind; "difference" for amplitudes of terms with categories."""
    factors = Candidate.parse(hyperparameter.name.partition(".")[0]).factors
    of_groups = any(factor.base == CAT for factor in factors)
    return "difference" if of_groups and hyperparameter.base is None else hyperparameter.kind


def _prior(
    hyperparameter: Hyperparameter, composition: Composition, rows: np.ndarray, variance: float
) -> tuple[float, float]:
    """Return prior mean and sd of a hyperparameter's coordinate: its log, or a shift's value."""
    label, *inner = hyperparameter.name.split(".")
    (candidate,) = (c for c in composition if str(c) == label)
    if hyperparameter.kind == "amplitude":
        unit = 1.0
        for factor in candidate.factors:
            if factor.base == "LIN":
                unit *= float(np.var(rows[:, factor.dimension])) or 1.0
        return float(np.log(variance / unit / len(composition))), AMPLITUDE_SD
    factor = candidate.factors[0]
    if len(inner) > 1:
        text = inner[0].partition("#")[0]
        factor = next(f for f in candidate.factors if str(f) == text)
    column = rows[:, factor.dimension]
    extent = float(np.ptp(column)) or 1.0
    if hyperparameter.kind == "shift":
        return float(column.mean()), 0.5 * extent
    if hyperparameter.kind in base_kernel(factor.base).unitless:
        return 0.0, LENGTH_SD
    if hyperparameter.kind == "period":
        return float(np.log(PERIOD_SHARE * extent)), LENGTH_SD
    if hyperparameter.kind == "lengthscale":
        return float(np.log(LENGTH_SHARE * extent * np.sqrt(len(candidate.factors)))), LENGTH_SD
    return 0.0, LENGTH_SD
