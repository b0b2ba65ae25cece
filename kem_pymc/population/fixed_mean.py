"""A mean process given by PyMC's mean and covariance functions, or by user-defined functions.

It is stored in the same form as a learned mean process: a level, lines and inducing points of a
smooth function, whose weights have the mean and the covariance that fit the given functions at many
places near the pilot users' rows. So files, reports and predictions for new users don't depend on
the study's code.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kem_pymc._system.options import checked
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.validation import filled
from kem_pymc.errors import InputError
from kem_pymc.population.design import Design, designs
from kem_pymc.population.mean_process import MeanProcess, Smooth

#: Lengthscale of the smooth function, in halves of a feature's range, and its variance, which is so
#: small that the part not determined by the inducing points is negligible; and the largest number
#: of inducing points.
LENGTHSCALE, AMPLITUDE, MOST = 1.0, 1e-6, 200

#: Largest number of places near rows, and by how much they are shifted at most, as a share of a
#: feature's range.
PLACES, SHIFT = 1000, 0.05

#: Largest error of the approximation of a given mean or standard deviation, in scaled units.
TOLERANCE = 0.01

#: Relative singular value below which directions of the weights are left out, because they don't
#: affect the function.
FELT = 1e-7


@checked
@dataclass(frozen=True, eq=False)
class FixedMean:
    """A mean process that is given, not learned.

    Parameters
    ----------
    mean : callable, optional
        Function from inputs (n, D) to the mean (n,): a ``pm.gp.mean.Mean`` or a user-defined
        function; zero by default.
    cov : callable, optional
        Function from inputs (n, D) and (m, D) to the covariance (n, m): a ``pm.gp.cov.Covariance``
        or a user-defined function; by default the mean has no uncertainty.

    Notes
    -----
    Inputs and values are in scaled units: features in [0, 1] over the pilot users' data and targets
    of mean 0 and variance 1, unless the priors specify another scaling
    (:attr:`kem_pymc.EvolutionModel.scaling`).
    """

    mean: Callable[..., Any] | None = None
    cov: Callable[..., Any] | None = None

    def process(self, cohort: Cohort, rng: np.random.Generator) -> MeanProcess:
        """Return the given mean process as one with columns and weights.

        Parameters
        ----------
        cohort : Cohort
            Pilot users, in scaled units.
        rng : Generator
            Random number generator that chooses places for the approximation.

        Returns
        -------
        MeanProcess

        Raises
        ------
        InputError
            If the functions don't return finite numbers of the right shape, or change too quickly
            for inducing points.
        """
        near = places_near(cohort, rng)
        design, smooths = _interpolating(cohort, near)
        where = np.concatenate([*cohort.inputs, near])
        where = where[rng.permutation(len(where))[: 4 * design.size + 100]]
        columns = design(where)
        inverse = np.linalg.pinv(columns, rcond=FELT)
        n = len(where)
        mean = _evaluated(self.mean, "mean", (n,), where)
        covariance = _evaluated(self.cov, "covariance", (n, n), where, where)
        weights, spread = inverse @ mean, inverse @ covariance @ inverse.T
        missed = np.abs(columns @ weights - mean)
        sds = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", columns, spread, columns), 0.0))
        missed = np.maximum(missed, np.abs(sds - np.sqrt(covariance.diagonal())))
        if missed.max() > TOLERANCE:
            raise InputError(
                f"The shared mean or covariance changes too quickly: its approximation by inducing "
                f"points has errors of up to {missed.max():.2g} standard deviations of the target. "
                "Give a smoother function."
            )
        return MeanProcess.of_moments(design, smooths, weights, spread)


def _evaluated(
    function: Callable[..., Any] | None, name: str, shape: tuple[int, ...], *points: np.ndarray
) -> np.ndarray:
    """Return what a given function is at points, zeros without one; PyMC's are evaluated."""
    if function is None:
        return np.zeros(shape)
    values = function(*points)
    array = filled(values.eval() if hasattr(values, "eval") else values)
    if array.shape != shape or not np.isfinite(array).all():
        raise InputError(
            f"The shared {name} has shape {array.shape} or isn't finite. "
            f"Return finite numbers of shape {shape} for {shape[0]} inputs."
        )
    return array


def _interpolating(cohort: Cohort, near: np.ndarray) -> tuple[Design, dict[str, Smooth]]:
    """Return columns that can represent any smooth function near places (p, D), and kernels."""
    numbers = ", ".join(name for name in cohort.features if name not in cohort.levels)
    names = [name for level in cohort.levels for name in (level, f"s({numbers}):{level}")]
    if numbers:
        names.append(f"s({numbers})")
    design, _ = designs(cohort, [name for name in names if numbers or "(" not in name], ())
    smooth = [term for term in design.terms if term.smooth]
    scales = np.full(len(numbers.split(", ")), LENGTHSCALE)
    design = design.with_lengthscales({term.name: scales for term in smooth}, near, MOST)
    kernels = {term.name: Smooth(AMPLITUDE, tuple(scales.tolist())) for term in smooth}
    return design, kernels


def places_near(cohort: Cohort, rng: np.random.Generator) -> np.ndarray:
    """Return places (p, D) near the users' rows; categories are those of the rows."""
    rows = np.concatenate(cohort.inputs)
    numbers = [d for d, name in enumerate(cohort.features) if name not in cohort.levels]
    places = rows[rng.integers(len(rows), size=PLACES)]
    shifts = rng.uniform(-SHIFT, SHIFT, (PLACES, len(numbers)))
    places[:, numbers] += shifts * np.ptp(rows[:, numbers], axis=0)
    return places
