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

from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.gp.mean_process import SharedKernel
from kem_pymc.kernels.composition import Candidate, Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.shared.inducing import places_near, with_inducing_points
from kem_pymc.shared.two_level import SharedPosterior, TwoLevel

#: Lengthscale of the smooth function, as a share of a feature's range, and its variance, which is
#: so small that the part not determined by the inducing points is negligible.
LENGTHSCALE, AMPLITUDE = 0.5, 1e-6

#: Largest error of the approximation of a given mean or standard deviation, in scaled units.
TOLERANCE = 0.01

#: Relative singular value below which directions of the weights are left out, because they don't
#: affect the function; and the variance that jitter of the weights adds to the function at most.
FELT, JITTER = 1e-7, 1e-6


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

    def posterior(
        self, cohort: Cohort, noise_floor: float, rng: np.random.Generator
    ) -> SharedPosterior:
        """Return the given mean process as a posterior, which is the same for all users.

        Parameters
        ----------
        cohort : Cohort
            Pilot users, in scaled units.
        noise_floor : float
            Smallest noise variance. The posterior's noise variance is the mean squared residual of
            the targets from the mean, if that is larger.
        rng : Generator
            Random number generator that chooses places for the approximation.

        Returns
        -------
        SharedPosterior

        Raises
        ------
        InputError
            If the functions don't return finite numbers of the right shape, or change too quickly
            for inducing points.
        """
        kernel = _interpolating(cohort, rng)
        where = np.concatenate([*cohort.inputs, places_near(cohort.inputs, rng)])
        where = where[rng.permutation(len(where))[: 4 * kernel.size + 100]]
        features = kernel.features(where)
        inverse = np.linalg.pinv(features, rcond=FELT)
        n = len(where)
        mean = _evaluated(self.mean, "mean", (n,), where)
        covariance = _evaluated(self.cov, "covariance", (n, n), where, where)
        weights, spread = inverse @ mean, inverse @ covariance @ inverse.T
        missed = np.abs(features @ weights - mean)
        sds = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", features, spread, features), 0.0))
        missed = np.maximum(missed, np.abs(sds - np.sqrt(covariance.diagonal())))
        if missed.max() > TOLERANCE:
            raise InputError(
                f"The shared mean or covariance changes too quickly: its approximation by inducing "
                f"points has errors of up to {missed.max():.2g} standard deviations of the target. "
                "Give a smoother function."
            )
        spread += np.diag(JITTER / kernel.size / (features**2).max(axis=0))
        precision = np.linalg.inv(spread)
        precision = (precision + precision.T) / 2
        nothing = np.zeros((1, kernel.size)), np.zeros(1)
        left = [
            y - kernel.features(x) @ weights
            for x, y in zip(cohort.inputs, cohort.targets, strict=True)
        ]
        noise = max(float(np.mean(np.concatenate(left) ** 2)), noise_floor)
        model = TwoLevel(kernel, Composition(), {}, noise)
        return SharedPosterior(model, precision, precision @ weights, [nothing] * cohort.n_users)


def _evaluated(
    function: Callable[..., Any] | None, name: str, shape: tuple[int, ...], *points: np.ndarray
) -> np.ndarray:
    """Return what a given function is at points, zeros without one; PyMC's are evaluated."""
    if function is None:
        return np.zeros(shape)
    values = function(*points)
    array = np.asarray(values.eval() if hasattr(values, "eval") else values, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise InputError(
            f"The shared {name} has shape {array.shape} or isn't finite. "
            f"Return finite numbers of shape {shape} for {shape[0]} inputs."
        )
    return array


def _interpolating(cohort: Cohort, rng: np.random.Generator) -> SharedKernel:
    """Return a kernel whose features can represent any smooth function near the users' rows."""
    dimension = cohort.dimension
    lines = " + ".join(["CONST", *(f"LIN{d}" for d in range(dimension))])
    composition = Composition.parse(lines, dimension) + Candidate.ard(dimension)
    default = {"amplitude": 1.0, "shift": 0.5, "lengthscale": LENGTHSCALE}
    values = {
        h.name: default[h.name.rpartition(".")[2]]
        for h in CandidatePool(composition.candidates, dimension).hyperparameters
    }
    values[f"{Candidate.ard(dimension)}.amplitude"] = AMPLITUDE
    none = np.empty((0, dimension))
    kernel = SharedKernel(composition, values, dimension, none)
    # Inducing points are added until they leave a small share of the smooth function's variance.
    model = TwoLevel(kernel, Composition(), {}, AMPLITUDE)
    return with_inducing_points(model, cohort.inputs, rng).kernel
