"""Standard tables of priors: those of the paper, and the defaults."""

from typing import Literal

import numpy as np
import pymc as pm

from kem_pymc._system.options import checked
from kem_pymc.data.families import Family
from kem_pymc.errors import InputError
from kem_pymc.kernels.base import CONST
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.priors.noise import SameNoise, noise_by_size
from kem_pymc.priors.table import Priors
from kem_pymc.priors.unexplained import Unexplained


def _table(
    lengthscale: tuple[float, float], period: tuple[float, float], scaling: Literal["none", "unit"]
) -> Priors:
    return Priors(
        hyperparameters={
            "lengthscale": pm.LogNormal.dist(*lengthscale),
            "period": pm.LogNormal.dist(*period),
            "amplitude": pm.LogNormal.dist(0, 2),
            "mixture": pm.LogNormal.dist(0, 1),
            "shift": pm.Normal.dist(0, 0.1),
        },
        noise=noise_by_size(mu=(2, 1, 0), sigma=(0.5, 1, 2)),
        noise_without_parent=pm.LogNormal.dist(0, 2),
        scaling=scaling,
    )


def synthetic() -> Priors:
    """Return the paper's priors for the synthetic study: inputs in [0, 20], data not scaled."""
    return _table(lengthscale=(0, 2), period=(np.log(5), 0.25), scaling="none")


def paper() -> Priors:
    """Return the paper's priors for real data: features in [0, 1], standardised targets."""
    return _table(lengthscale=(np.log(0.2), 0.5), period=(np.log(0.2), 0.25), scaling="unit")


#: Expected number of candidates that enter below WHITE, in the default priors.
ADDITIONS = 1.0

#: Means and sds of the logs of the noise variance and of amplitudes, in the default priors, for
#: targets whose variance to be explained is one.
NOISE, AMPLITUDE = (-1.5, 1.2), (-0.7, 1.5)

#: Noise floor of the default priors, for targets whose variance within users is one.
FLOOR = 1e-3


@checked
def default(
    pool: CandidatePool, unexplained: Unexplained | None = None, family: Family | None = None
) -> Priors:
    """Return the default priors, for features in [0, 1] and standardised targets.

    The priors of the noise variance and of amplitudes scale with the variance to be explained: that
    of the target, or the part that a shared mean leaves unexplained. The noise has the same prior
    below all parents. (With the priors of the paper, see :func:`paper`, the noise variance has
    median 7.4 below an empty parent, so that noise alone explains a straight line.) On average one
    candidate enters below WHITE (the empty composition), whatever the size of the pool; in a pool
    of one candidate it enters with probability 0.5. The noise variance of a fit is at least 1e-3 of
    what is to be explained within users: with a smaller one, a single point that a curve misses
    would cost more than all other points gain. How far users' levels are apart doesn't matter.

    Single trials and levels say so little of a user that the prior decides whether users are taken
    to be alike. So CONST, a user's own level, then enters with the probability with which
    candidates stay.

    Parameters
    ----------
    pool : CandidatePool
        Candidates of the study.
    unexplained : Unexplained, optional
        Variance that is to be explained, e.g. ``kem.learn_shared(...).unexplained``. By default
        all of the target's, as if it varied as much within users.
    family : Family, optional
        Family of targets that aren't normal.

    Returns
    -------
    Priors

    Raises
    ------
    InputError
        If a variance isn't positive and finite.
    """
    total, within = unexplained = unexplained or Unexplained()
    if not all(0 < variance < np.inf for variance in unexplained):
        raise InputError(f"{unexplained} isn't valid. Give positive, finite variances.")
    noise = pm.LogNormal.dist(NOISE[0] + np.log(total), NOISE[1])
    table = Priors(
        hyperparameters={
            "lengthscale": pm.LogNormal.dist(np.log(0.4), 0.7),
            "period": pm.LogNormal.dist(np.log(0.2), 0.25),
            "amplitude": pm.LogNormal.dist(AMPLITUDE[0] + np.log(total), AMPLITUDE[1]),
            "mixture": pm.LogNormal.dist(0, 1),
            "shift": pm.Normal.dist(0.5, 0.5),
        },
        noise=SameNoise(noise),
        noise_without_parent=noise,
        scaling="unit",
        noise_floor=FLOOR * within,
    )
    table = table.expecting(min(ADDITIONS, 0.5 * len(pool)), pool)
    return table.replace(enter={CONST: table.stay}) if family and family.single else table
