"""Shares of the targets' variance by feature and by component, for both parts of the model."""

from collections.abc import Callable

import numpy as np

from kem_pymc.data.cohort import Cohort
from kem_pymc.kernels.composition import Candidate
from kem_pymc.shared.two_level import SharedPosterior

#: Maximum number of rows to permute, and the number of permutations to average over.
MOST_ROWS, PERMUTATIONS = 200, 5


def relevance_by_feature(
    posterior: SharedPosterior, cohort: Cohort, total: float, rng: np.random.Generator
) -> dict[str, tuple[float, ...]]:
    """Return each feature's share of the variance in both parts of a two-level model.

    It is the total effect of a feature (Jansen's estimator; Saltelli et al. 2010): half of the mean
    squared change of a function when the feature's values are permuted over the cohort's rows, with
    the other features held fixed. The shared function is the mean process' posterior mean. For
    users' own functions it is the expectation over the prior at the fitted values, with k the
    personal covariance and x' the row x with the feature's value replaced,

        mean of (k(x, x) + k(x', x') - 2 k(x, x')) / 2.

    Interactions of features count for each of them, so the shares of a part may add up to more than
    the share of the part; a level belongs to no feature.

    Parameters
    ----------
    posterior : SharedPosterior
    cohort : Cohort
        Pilot users, in scaled units.
    total : float
        Variance of which the effects are shares, in scaled units.
    rng : Generator
        Random number generator that chooses rows and permutations.

    Returns
    -------
    dict of str to tuple of float (D,)
        Shares by part: ``"shared"`` and ``"personal"``.
    """
    rows = np.concatenate(cohort.inputs)
    rows = rows[rng.permutation(len(rows))[:MOST_ROWS]]
    orders = [rng.permutation(len(rows)) for _ in range(PERMUTATIONS)]
    process, kernel = posterior.process, posterior.model.personal_kernel

    def shared(x: np.ndarray, z: np.ndarray) -> float:
        return float(np.mean((process.mean(x) - process.mean(z)) ** 2)) / 2

    def personal(x: np.ndarray, z: np.ndarray) -> float:
        variances = [kernel.variances(points).sum(axis=0) for points in (x, z)]
        return float(np.mean(sum(variances) - 2 * kernel.cross(x, z).diagonal())) / 2

    return {
        "shared": _effects(shared, rows, orders, total),
        "personal": _effects(personal, rows, orders, total),
    }


def relevance_by_component(
    posterior: SharedPosterior, rows: np.ndarray, total: float
) -> dict[str, dict[Candidate, float]]:
    """Return each component's share of the variance in both parts of a two-level model.

    For the shared function it is the variance over rows of the component's posterior mean; for
    users' own functions it is the mean over rows of its prior variance at the fitted values.

    Parameters
    ----------
    posterior : SharedPosterior
    rows : ndarray, shape (n, D)
        Inputs of all users, in scaled units.
    total : float
        Variance of which the components have shares, in scaled units.

    Returns
    -------
    dict of str to dict of Candidate to float
        Shares by part: ``"shared"`` and ``"personal"``.
    """
    process, model = posterior.process, posterior.model
    variances = model.personal_kernel.variances(rows).mean(axis=1)
    return {
        "shared": {
            c: float(np.var(process.mean(rows, c))) / total for c in process.kernel.composition
        },
        "personal": {c: v / total for c, v in zip(model.personal, variances.tolist(), strict=True)},
    }


def _effects(
    effect: Callable[[np.ndarray, np.ndarray], float],
    rows: np.ndarray,
    orders: list[np.ndarray],
    total: float,
) -> tuple[float, ...]:
    """Return the mean over permutations of an effect, by feature, as shares of the total."""
    shares = []
    for d in range(rows.shape[1]):
        effects = []
        for order in orders:
            permuted = rows.copy()
            permuted[:, d] = rows[order, d]
            effects.append(effect(rows, permuted))
        # For a feature without effect, differences of equal numbers may round below zero.
        shares.append(max(float(np.mean(effects)), 0.0) / total)
    return tuple(shares)
