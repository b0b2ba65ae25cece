"""The targets' variance, split into parts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kem_pymc.population.hyperparameters import OWN
from kem_pymc.population.likelihood import Scales

if TYPE_CHECKING:
    from kem_pymc.population.model import PopulationModel

#: Name of the part that is noise, learned and known.
NOISE = "noise"

#: Seed of the draws of the shared weights, one for each draw of the hyperparameters.
SEED = 0


def variances(
    model: "PopulationModel", every: Scales, mean: np.ndarray, root: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return draws (S,) of each part's variance over the observed rows, in scaled units.

    Shared terms have the variance of their functions, less what earlier terms have explained: lines
    and contrasts in the order of the model, then smooth functions. It is that of a draw of the
    weights; for lines and contrasts less twice its posterior variance, by which draws exceed the
    estimate, and estimates the truth, on average. So it may be negative. The parts of users' own
    functions have expected variances: of users' means (``"personal level"``), of lines in time
    within users (``"personal line"``) and of the rest within users (``"personal curve"``). Noise
    has the rest: the variance that is learned, and the mean of the known variances of the observed
    rows, if there are any. Those of a family's pseudo-observations aren't variances of latent
    values, and are left out.

    What was subtracted in the direction of the estimate comes second, for lines and contrasts: ends
    of intervals are quantiles of draws without it. The square of a normal estimate m with sd s is
    m^2 - s^2 without bias, but its interval ends at (|m| + 1.96 s)^2, which is a quantile of draws
    as they are.

    Parameters
    ----------
    model : PopulationModel
    every : Scales
        Scales of the draws.
    mean : ndarray, shape (S, P)
        Posterior mean of the weights of the shared columns.
    root : ndarray, shape (S, K, P)
        R, with R'R their posterior covariance.
    """
    rng = np.random.default_rng(SEED)
    cohort = model.cohort
    rows = np.concatenate(cohort.inputs)
    n = len(rows)
    away = rng.normal(size=root.shape[:2])
    weights = mean + (away[:, None, :] @ root)[:, 0]
    columns = model.shared(rows)
    columns = columns - columns.mean(axis=0)
    basis = np.zeros((n, 0))
    out: dict[str, np.ndarray] = {}
    lengthwise: dict[str, np.ndarray] = {}
    terms = list(zip(model.shared.terms, model.shared.spans(), strict=True))[1:]
    for term, span in sorted(terms, key=lambda pair: bool(pair[0].smooth)):
        own = columns[:, span]
        own = own - basis @ (basis.T @ own)
        directions, size, _ = np.linalg.svd(own, full_matrices=False)
        directions = directions[:, size > 1e-8 * np.sqrt(n)]
        basis = np.hstack([basis, directions])
        of_weights = columns.T @ directions
        variance = ((weights @ of_weights) ** 2).sum(axis=-1)
        if not term.smooth:
            across = root @ of_weights
            variance = variance - 2 * (across**2).sum(axis=(-2, -1))
            estimate = (mean @ of_weights)[..., None]
            along = ((across @ estimate) ** 2).sum(axis=(-2, -1))
            square = np.maximum((estimate**2).sum(axis=(-2, -1)), 1e-300)
            lengthwise[term.name] = 2 * along / square / n
        out[term.name] = variance / n
    out |= _personal(model, every.personal @ every.personal.mT)
    known = 0.0 if model.own_scale else np.concatenate(model.known_noise).mean()
    out[NOISE] = (every.noise**2 + known) * (1 - 1 / n)
    return out, lengthwise


def total(parts: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return sums (S,) of parts' variances (S,).

    If effects are negative together, they are the sums of the others.
    """
    sure = sum(v for name, v in parts.items() if name == NOISE or name.startswith(OWN))
    return np.maximum(np.sum(list(parts.values()), axis=0), sure)


def _personal(model: "PopulationModel", covariance: np.ndarray) -> dict[str, np.ndarray]:
    """Return expected variances (S,) of the parts of users' own functions.

    With users' weights of covariance (S, q, q), a part's variance is the trace of it times a matrix
    of the columns: of users' means, of their lines within users, and of what remains.
    """
    cohort, q = model.cohort, covariance.shape[-1]
    if not q:
        return {}
    n = sum(map(len, cohort.targets))
    level, line, within = (np.zeros((q, q)) for _ in range(3))
    for x in cohort.inputs:
        own = model.personal(x)
        sums = own.sum(axis=0)
        level += np.outer(sums, sums) * (1 / len(x) - 1 / n)
        own = own - own.mean(axis=0)
        within += own.T @ own
        if cohort.time is not None:
            time = x[:, cohort.features.index(cohort.time)]
            time = time - time.mean()
            slopes = time @ own
            line += np.outer(slopes, slopes) / ((time @ time) or 1.0)
    parts = {"personal level": level, "personal line": line, "personal curve": within - line}
    return {
        name: np.einsum("sij,ij->s", covariance, matrix) / n
        for name, matrix in parts.items()
        if np.trace(matrix) > 1e-9 * n
    }
