"""Where a bandit may play: given points, or a box with linear constraints."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import LinearConstraint, linprog, minimize
from scipy.stats import qmc

from kem_pymc._system.options import checked
from kem_pymc.data.validation import number_array
from kem_pymc.errors import InputError

#: Scores (m,) of points (m, D).
type Score = Callable[[np.ndarray], np.ndarray]

#: Number of quasi-random points of a box that are scored, and of local searches from the best.
SPREAD, STARTS = 1024, 5

#: Number of iterations of a local search, and its step of finite differences, relative to the box.
ITERATIONS, STEP = 60, 1e-6

#: How far a point may violate a constraint, relative to the box.
SLACK = 1e-9


@checked
class Points:
    """A discrete space.

    Parameters
    ----------
    x : array_like, shape (m, D), or (m,) if D is 1

    Raises
    ------
    InputError
        If there are no points, or a value isn't finite.

    Attributes
    ----------
    points : ndarray, shape (m, D)
    dimension : int
        Number of inputs D.
    width : float
        Largest range of an input.
    """

    def __init__(self, x: npt.ArrayLike) -> None:
        rows = number_array("points", x)
        rows = rows[:, None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or not rows.size:
            raise InputError(f"The points have shape {rows.shape}. Give a row for each point.")
        self.points, self.dimension = rows, rows.shape[1]
        self.width = float(np.ptp(rows, axis=0).max())

    def best(self, score: Score, rng: np.random.Generator) -> np.ndarray:
        """Return the first point (D,) with the largest score."""
        return self.points[int(np.argmax(score(self.points)))]

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Return a random point (D,)."""
        return self.points[rng.integers(len(self.points))]

    def check(self, x: np.ndarray) -> None:
        """Raise an error if it isn't one of the points."""
        if x.shape != (self.dimension,) or not (self.points == x).all(axis=1).any():
            raise InputError(f"{x.tolist()} isn't one of the points of the space.")

    def to_dict(self) -> dict[str, Any]:
        """Return the points as plain data, for JSON."""
        return {"points": self.points.tolist()}


@checked
class Box:
    """A continuous space: a box, of which linear constraints may leave a part.

    Parameters
    ----------
    low, high : array_like, shape (D,)
        Ends of the box.
    constraints : tuple of array_like, shapes (C, D) and (C,), optional
        A and b with A x <= b, such as the costs of actions and a budget.

    Raises
    ------
    InputError
        If the box is empty or infinite, shapes don't match, or no point with an interior meets the
        constraints.

    Attributes
    ----------
    points : None
        The space is continuous.
    dimension : int
        Number of inputs D.
    width : float
        Largest range of an input.
    """

    points = None

    def __init__(
        self,
        low: npt.ArrayLike,
        high: npt.ArrayLike,
        constraints: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    ) -> None:
        ends = (number_array("ends of the box", v) for v in (low, high))
        self.low, self.high = map(np.atleast_1d, ends)
        same = self.low.ndim == 1 and self.low.shape == self.high.shape
        if not (same and (self.low < self.high).all()):
            raise InputError(
                f"The box from {self.low} to {self.high} is empty. Give as many upper ends as "
                "lower ones, each above its lower end."
            )
        self.dimension, self.width = len(self.low), float((self.high - self.low).max())
        given = (np.empty((0, self.dimension)), np.empty(0)) if constraints is None else constraints
        if not isinstance(given, Sequence) or len(given) != 2:
            raise InputError(f"The constraints are {given!r}. Give coefficients and limits.")
        self.a = np.atleast_2d(number_array("constraints", given[0]))
        self.b = np.atleast_1d(number_array("limits of the constraints", given[1]))
        if self.b.ndim != 1 or self.a.shape != (len(self.b), self.dimension):
            raise InputError(
                f"The constraints have {self.a.shape} coefficients and {self.b.shape} limits. Give "
                f"a row of {self.dimension} coefficients and one limit for each."
            )
        self._centre = self._inside()

    def _inside(self) -> np.ndarray:
        """Return the centre of the largest ball (in units of the box) within the space."""
        width = self.high - self.low
        a = np.vstack([self.a * width, np.eye(self.dimension), -np.eye(self.dimension)])
        b = np.concatenate(
            [self.b - self.a @ self.low, np.ones(self.dimension), np.zeros(self.dimension)]
        )
        norms = np.linalg.norm(a, axis=1)
        cost = np.append(np.zeros(self.dimension), -1.0)
        free = [(None, None)] * (self.dimension + 1)
        solution = linprog(cost, A_ub=np.column_stack([a, norms]), b_ub=b, bounds=free)
        if not solution.success or solution.x[-1] <= SLACK:
            raise InputError(
                "No point of the box meets the constraints, or single ones do. Give a larger "
                "budget, or leave out dimensions that can't vary."
            )
        return self.low + width * solution.x[:-1]

    def best(self, score: Score, rng: np.random.Generator) -> np.ndarray:
        """Return the best point of local searches (SLSQP) from the best of many; see `Space`."""
        tried = self._spread(SPREAD, rng)
        heights = score(tried)
        width = self.high - self.low
        limits = [LinearConstraint(self.a, -np.inf, self.b)] if len(self.b) else []
        for start in tried[np.argsort(-heights, kind="stable")[:STARTS]]:
            optimum = minimize(
                lambda x: -float(score(x[None])[0]),
                start,
                method="SLSQP",
                bounds=list(zip(self.low, self.high, strict=True)),
                constraints=limits,
                options={"maxiter": ITERATIONS, "eps": STEP * float(width.min())},
            )
            tried = np.vstack([tried, self._pulled(optimum.x[None])])
        heights = np.append(heights, score(tried[len(heights) :]))
        return tried[int(np.argmax(heights))]

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Return a random point (D,)."""
        return self._spread(1, rng)[0]

    def check(self, x: np.ndarray) -> None:
        """Raise an error if a point isn't in the box or violates a constraint."""
        slack = SLACK * (self.high - self.low)
        if x.shape != self.low.shape or not (
            (x >= self.low - slack).all() and (x <= self.high + slack).all()
        ):
            raise InputError(f"{x.tolist()} isn't in the box.")
        left = self.b - self.a @ x
        if (left < -np.abs(self.a) @ slack - SLACK * np.abs(self.b)).any():
            raise InputError(f"{x.tolist()} violates a constraint by {-left.min():.3g}.")

    def to_dict(self) -> dict[str, Any]:
        """Return ends and constraints as plain data, for JSON."""
        parts = {"low": self.low, "high": self.high, "a": self.a, "b": self.b}
        return {name: value.tolist() for name, value in parts.items()}

    def _spread(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return quasi-random points (count, D)."""
        sequence = qmc.Sobol(self.dimension, rng=rng)
        unit = sequence.random_base2(int(np.ceil(np.log2(max(count, 1)))))[:count]
        return self._pulled(self.low + unit * (self.high - self.low))

    def _pulled(self, x: np.ndarray) -> np.ndarray:
        """Return points moved towards the centre until they meet the constraints."""
        x = np.clip(x, self.low, self.high)
        if not len(self.b):
            return x
        along = x - self._centre
        rise = along @ self.a.T
        room = self.b - self.a @ self._centre
        with np.errstate(divide="ignore"):
            share = np.where(rise > room, room / np.where(rise > 0, rise, 1.0), 1.0).min(axis=1)
        return self._centre + np.clip(share, 0.0, 1.0)[:, None] * along


#: A space: a point is drawn from it by `draw`, and chosen by `best`.
type Space = Points | Box
