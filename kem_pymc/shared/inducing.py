"""Choose inducing points of a mean process, whose values determine those elsewhere."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree

from kem_pymc.data.categories import CAT
from kem_pymc.kernels.composition import Composition
from kem_pymc.shared.two_level import TwoLevel

#: Points are added until no remaining variance is larger than this share of the noise variance.
TOLERANCE = 1e-4

#: Maximum number of inducing points; maximum and minimum number of places to choose them from.
MOST, PLACES, FEWEST = 300, 3000, 500

#: A place is a mixture of a row and one of this many nearest rows of other users.
NEIGHBOURS = 5

#: Standard deviation of a place's random shift, as a share of each feature's range, so that no
#: place is a user's row.
SHIFT = 1e-3


def with_inducing_points(
    model: TwoLevel, inputs: Sequence[np.ndarray], rng: np.random.Generator
) -> TwoLevel:
    """Return a two-level model with inducing points near the users' inputs.

    They are chosen greedily: the next point is where the largest variance remains (a pivoted
    Cholesky factorisation). A model whose candidates are all linear is returned unchanged.

    Parameters
    ----------
    model : TwoLevel
    inputs : sequence of ndarray, shape (n, D)
        Inputs of every user, in scaled units.
    rng : Generator
        Random number generator for :func:`places_near`.

    Returns
    -------
    TwoLevel
    """
    kernel = model.kernel
    if not len(kernel.rest):
        return model
    places = places_near(inputs, rng, _categories(kernel.composition))
    left = kernel.rest_kernel.variances(places).sum(axis=0)
    factor = np.zeros((0, len(places)))
    chosen: list[int] = []
    while len(chosen) < min(MOST, len(places)):
        pivot = int(np.argmax(left))
        if left[pivot] <= TOLERANCE * model.noise:
            break
        row = kernel.rest_kernel.cross(places[pivot : pivot + 1], places)[0]
        row = (row - factor[:, pivot] @ factor) / np.sqrt(left[pivot])
        factor = np.vstack([factor, row])
        left = np.maximum(left - row**2, 0.0)
        left[pivot] = 0.0
        chosen.append(pivot)
    return replace(model, kernel=replace(kernel, inducing=places[chosen]))


def _categories(composition: Composition) -> list[int]:
    """Return the indices of the features that a composition treats as categories."""
    factors = [factor for candidate in composition for factor in candidate.factors]
    return sorted({factor.dimension for factor in factors if factor.base == CAT})


def places_near(
    inputs: Sequence[np.ndarray], rng: np.random.Generator, categories: Sequence[int] = ()
) -> np.ndarray:
    """Return points (p, D) near the users' inputs, none of which is a user's row.

    Each is a shifted mixture of a row and a neighbouring row of another user. Categories have no
    values between levels, so theirs are those of the first row.
    """
    rows = np.concatenate(inputs)
    user = np.repeat(np.arange(len(inputs)), [len(x) for x in inputs])
    extent = np.ptp(rows, axis=0)
    extent[extent == 0] = 1.0
    picked = np.tile(rng.permutation(len(rows))[:PLACES], 1 + FEWEST // min(len(rows), PLACES))
    near = min(NEIGHBOURS * 4, len(rows))
    _, neighbours = cKDTree(rows / extent).query(rows[picked] / extent, k=near)
    partner = picked.copy()
    for i, row in enumerate(picked):
        others = [j for j in np.atleast_1d(neighbours[i]) if user[j] != user[row]][:NEIGHBOURS]
        if others:
            partner[i] = rng.choice(others)
    share = rng.uniform(0.25, 0.75, (len(picked), 1))
    mixed = share * rows[picked] + (1 - share) * rows[partner]
    mixed += SHIFT * extent * rng.normal(size=mixed.shape)
    mixed[:, categories] = rows[picked][:, categories]
    return mixed
