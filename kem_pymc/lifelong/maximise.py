"""The largest expected improvement over a search space of numbers and categories."""

from collections.abc import Callable
from typing import Protocol, Self

import numpy as np
from scipy.optimize import minimize

from kem_pymc.gp.acquisition import log_expected_improvement
from kem_pymc.lifelong.space import Space

#: Number of quasi-random points, of points around each of the best ones, and of the best ones.
SPREAD, AROUND, BEST = 1024, 32, 5

#: Standard deviation of points around the best ones, in units of the range.
NEAR = 0.05

#: Number of points from which a local search starts, and of its iterations.
STARTS, ITERATIONS = 5, 50

#: Largest number of combinations of categories that are all tried.
COMBINATIONS = 128

#: Step of finite differences, in units of the range.
STEP = 1e-5


#: Logarithm of the expected improvement at encoded points (m, D).
type Height = Callable[[np.ndarray], np.ndarray]


class Model(Protocol):
    """A model of a task's function, such as :class:`~kem_pymc.gp.posterior.Posterior`."""

    def predict(self, x: np.ndarray, /) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (m,) of the function at encoded points (m, D)."""

    def observe(self, x: np.ndarray, y: float) -> Self:
        """Return the model with one more evaluation of the task, at a point (D,)."""


def maximise(
    model: Model,
    space: Space,
    rows: np.ndarray,
    excluded: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray | None:
    """Return the encoded point (D,) of a space with the largest expected improvement.

    The improvement is on the smallest mean at points that were evaluated: the smallest value may be
    small by chance.

    Quasi-random points, and points around the best ones, are tried first, and the best few of them
    with all combinations of categories, unless these are many. From the best of these, local
    searches change one category, or one whole number by one, at a time, and then move all numbers
    by L-BFGS.

    Parameters
    ----------
    model : Model
    space : Space
    rows : ndarray, shape (n, D)
        Points that were evaluated.
    excluded : ndarray, shape (m, D)
        Points that aren't returned.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray or None
        None if all points that were tried are excluded.
    """
    expected, _ = model.predict(rows)

    def height(points: np.ndarray) -> np.ndarray:
        mean, variance = model.predict(points)
        return log_expected_improvement(mean, np.sqrt(variance), float(expected.min()))

    numeric = space.numeric
    leaders = rows[np.argsort(expected, kind="stable")[:BEST]]
    around = np.repeat(leaders, AROUND, axis=0)
    around[:, numeric] += NEAR * rng.normal(size=(len(around), numeric.sum()))
    tried = np.concatenate([space.sobol(SPREAD, rng), space.nearest(around)])
    heights = height(tried)
    tried, heights = _with_neighbours(
        *_with_categories(tried, heights, space, height), space, height
    )
    order = np.argsort(-heights, kind="stable")
    if numeric.any():
        best = tried[_best(tried, heights)]
        climbed = [_climb(height, start, space.movable(start)) for start in best]
        nearest = space.nearest(np.array(climbed))
        tried = np.concatenate([nearest, tried[order]])
        order = np.argsort(-np.concatenate([height(nearest), heights[order]]), kind="stable")
    gone = {row.tobytes() for row in excluded}
    for i in order:
        if tried[i].tobytes() not in gone:
            return tried[i]
    return None


def _with_categories(
    tried: np.ndarray, heights: np.ndarray, space: Space, height: Height
) -> tuple[np.ndarray, np.ndarray]:
    """Return points and heights, with those of the best points in all categories, if few."""
    combinations = space.combinations(COMBINATIONS)
    if combinations is None:
        return tried, heights
    best, others = tried[_best(tried, heights)], ~space.numeric
    crossed = np.repeat(best, len(combinations), axis=0)
    crossed[:, others] = np.tile(combinations[:, others], (len(best), 1))
    crossed = space.nearest(crossed)
    return np.concatenate([tried, crossed]), np.concatenate([heights, height(crossed)])


def _with_neighbours(
    tried: np.ndarray, heights: np.ndarray, space: Space, height: Height
) -> tuple[np.ndarray, np.ndarray]:
    """Return points and heights, with those of the best points' neighbours.

    Neighbours of these follow as long as one is higher than all before.
    """
    for _ in range(len(space.dimensions)):
        neighbours = space.neighbours(tried[_best(tried, heights)])
        if not len(neighbours):
            break
        beside = height(neighbours)
        better = beside.max() > heights.max()
        tried, heights = np.concatenate([tried, neighbours]), np.concatenate([heights, beside])
        if not better:
            break
    return tried, heights


def _best(tried: np.ndarray, heights: np.ndarray) -> list[int]:
    """Return the places of the highest points, all of them different, at which searches start."""
    places: dict[bytes, int] = {}
    for place in np.argsort(-heights, kind="stable"):
        places.setdefault(tried[place].tobytes(), int(place))
        if len(places) == STARTS:
            break
    return list(places.values())


def _climb(height: Height, start: np.ndarray, numeric: np.ndarray) -> np.ndarray:
    """Return the end of a local search that moves the columns of numbers.

    Gradients are central differences, all of whose points are predicted at once.
    """
    count = int(numeric.sum())
    if not count:
        return start
    steps = STEP * np.concatenate([np.eye(count), -np.eye(count)])

    def downhill(place: np.ndarray) -> tuple[float, np.ndarray]:
        points = np.repeat(start[None], 2 * count + 1, axis=0)
        points[:, numeric] = place
        points[1:, numeric] += steps
        values = height(points)
        slope = (values[1 : count + 1] - values[count + 1 :]) / (2 * STEP)
        return -values[0], -slope

    optimum = minimize(
        downhill,
        start[numeric],
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, 1.0)] * count,
        options={"maxiter": ITERATIONS},
    )
    end = start.copy()
    end[numeric] = np.clip(optimum.x, 0.0, 1.0)
    return end
