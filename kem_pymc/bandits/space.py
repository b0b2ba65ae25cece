"""Where a bandit may play: given points, or a box with linear constraints and whole numbers."""

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import null_space
from scipy.optimize import Bounds, LinearConstraint, linprog, milp, minimize
from scipy.stats import qmc

from kem_pymc._system.options import check_whole, checked
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

#: Largest number of points of a box of whole numbers that are all scored.
ALL = 20_000

#: Largest change of a whole number in a step of a local search, of two of them at most.
LEAP = 3


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
    """A box, of which linear constraints may leave a part, and whose numbers may have to be whole.

    A category with L levels is L whole numbers from 0 to 1, of which the sum is one.

    Parameters
    ----------
    low, high : array_like, shape (D,)
        Ends of the box.
    constraints : tuple of array_like, shapes (C, D) and (C,), optional
        A and b with A x <= b, such as the costs of actions and a budget.
    equalities : tuple of array_like, shapes (E, D) and (E,), optional
        A and b with A x = b, such as a budget that is spent exactly.
    whole : sequence of int
        Places of the dimensions, counted from 0, that are whole numbers. A constraint that is an
        equality has either only these or none of them.

    Raises
    ------
    InputError
        If the box is empty or infinite, shapes don't match, an equality has whole and other
        numbers, or no point meets the constraints, or (but for equalities) none with an interior.

    Attributes
    ----------
    points : ndarray of shape (m, D) or None
        All points, if all numbers are whole and there are at most 20,000 points.
    dimension : int
        Number of inputs D.
    width : float
        Largest range of an input.
    """

    def __init__(
        self,
        low: npt.ArrayLike,
        high: npt.ArrayLike,
        constraints: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        *,
        equalities: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        whole: Sequence[int] = (),
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
        self.a, self.b = self._rows("constraints", constraints)
        self.c, self.d = self._rows("equalities", equalities)
        for place in whole:
            check_whole(0, self.dimension - 1, whole=place)
        self.whole = np.isin(np.arange(self.dimension), np.array(whole, dtype=int))
        inner = np.ceil(self.low), np.floor(self.high)
        self.low, self.high = (
            np.where(self.whole, *v) for v in zip(inner, (self.low, self.high), strict=True)
        )
        mixed = (self.c[:, self.whole] != 0).any(axis=1) & (self.c[:, ~self.whole] != 0).any(axis=1)
        if mixed.any() or not (self.low < self.high).all():
            raise InputError(
                "An equality has whole and other numbers, or a whole number has one value only. "
                "Give equalities of either kind, and leave out what can't vary."
            )
        #: Directions (D, n) in which the equalities let points move.
        self._free = null_space(self.c) if len(self.d) else np.eye(self.dimension)
        self._centre = self._inside()
        self._nearest(self._centre)
        self.points = self._every() if self.whole.all() else None
        self._steps = self._moves()

    def _rows(self, name: str, given: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the coefficients (C, D) and limits (C,) of constraints."""
        given = (np.empty((0, self.dimension)), np.empty(0)) if given is None else given
        if not isinstance(given, Sequence) or len(given) != 2:
            raise InputError(f"The {name} are {given!r}. Give coefficients and limits.")
        a = np.atleast_2d(number_array(name, given[0]))
        b = np.atleast_1d(number_array(f"limits of the {name}", given[1]))
        if b.ndim != 1 or a.shape != (len(b), self.dimension):
            raise InputError(
                f"The {name} have {a.shape} coefficients and {b.shape} limits. Give "
                f"a row of {self.dimension} coefficients and one limit for each."
            )
        return a, b

    def _inside(self) -> np.ndarray:
        """Return the centre of the largest ball (in units of the box) within the space."""
        width = self.high - self.low
        a = np.vstack([self.a * width, np.eye(self.dimension), -np.eye(self.dimension)])
        b = np.concatenate(
            [self.b - self.a @ self.low, np.ones(self.dimension), np.zeros(self.dimension)]
        )
        c = self.c * width
        # Of a ball within the equalities; what they fix has no length there.
        norms = np.linalg.norm(a @ null_space(c) if len(c) else a, axis=1)
        cost = np.append(np.zeros(self.dimension), -1.0)
        free = [(None, None)] * self.dimension + [(None, 1.0 if len(c) else None)]
        solution = linprog(
            cost,
            A_ub=np.column_stack([a, norms]),
            b_ub=b,
            A_eq=np.column_stack([c, np.zeros(len(c))]) if len(c) else None,
            b_eq=self.d - self.c @ self.low if len(c) else None,
            bounds=free,
        )
        if not solution.success or solution.x[-1] <= SLACK:
            raise InputError(
                "No point of the box meets the constraints, or single ones do. Give a larger "
                "budget, or leave out dimensions that can't vary."
            )
        return self.low + width * solution.x[:-1]

    def _nearest(self, x: np.ndarray) -> np.ndarray:
        """Return the point whose absolute differences from x (D,) have the smallest sum.

        For one budget it is the rounding by largest remainders.

        Raises
        ------
        InputError
            If no point has whole numbers where it should.
        """
        if not self.whole.any():
            return x
        # Variables are what is added to the floor, the first unit apart, and what is taken from it:
        # in the constraints there are only whole numbers then, with which HiGHS has no trouble.
        eye, base = np.eye(self.dimension), np.where(self.whole, np.floor(x), x)
        changes = np.hstack([eye, eye, -eye])
        ones = np.ones(self.dimension)
        rows = np.vstack([eye, self.a, self.c])
        least = np.concatenate([self.low, np.full(len(self.b), -np.inf), self.d]) - rows @ base
        most = np.concatenate([self.high, self.b, self.d]) - rows @ base
        found = milp(
            np.concatenate([ones - 2 * (x - base), ones, ones]),
            integrality=np.tile(self.whole, 3),
            bounds=Bounds(0.0, np.concatenate([ones, np.full(2 * self.dimension, np.inf)])),
            constraints=LinearConstraint(rows @ changes, least, most),
            options={"presolve": False},
        )
        if found.x is None:
            raise InputError(
                "No point with whole numbers meets the constraints. Give other limits, or numbers "
                "that needn't be whole."
            )
        nearest = base + changes @ found.x
        return np.where(self.whole, np.round(nearest), nearest)

    def _every(self) -> np.ndarray | None:
        """Return all points (m, D) of whole numbers; None if there are too many."""
        rows, limits = np.vstack([self.a, self.c, -self.c]), np.hstack([self.b, self.d, -self.d])
        limits = limits + SLACK * (1 + np.abs(limits))
        least = np.minimum(rows * self.low, rows * self.high)
        found = np.empty((1, 0))
        for j in range(self.dimension):
            values = np.arange(self.low[j], self.high[j] + 1)
            if len(found) * len(values) > ALL * 100:
                return None
            found = np.column_stack(
                [np.repeat(found, len(values), axis=0), np.tile(values, len(found))]
            )
            # What the other numbers add at least.
            used = found @ rows[:, : j + 1].T + least[:, j + 1 :].sum(axis=1)
            found = found[(used <= limits).all(axis=1)]
        return found if len(found) <= ALL else None

    def _moves(self) -> np.ndarray:
        """Return changes (n, D) of one or two whole numbers that keep the equalities."""
        places = np.flatnonzero(self.whole)
        leaps = [step for step in range(-LEAP, LEAP + 1) if step]
        changes = [{j: step} for j in places for step in leaps]
        changes += [
            {i: one, j: other}
            for i, j in combinations(places, 2)
            for one, other in product(leaps, leaps)
        ]
        moves = np.zeros((len(changes), self.dimension))
        for row, change in zip(moves, changes, strict=True):
            row[list(change)] = list(change.values())
        return moves[(np.abs(moves @ self.c.T) <= SLACK).all(axis=1)]

    def best(self, score: Score, rng: np.random.Generator) -> np.ndarray:
        """Return the point (D,) with the largest score that is found.

        All points are scored, if there are few. Otherwise local searches (SLSQP) begin at the best
        of many points. Whole numbers are rounded after them, and changed by steps as long as the
        score rises; then other numbers are searched for again.
        """
        if self.points is not None:
            return self.points[int(np.argmax(score(self.points)))]
        tried = self._spread(SPREAD, rng)
        starts = tried[np.argsort(-score(tried), kind="stable")[:STARTS]]
        found = [self._climbed(score, start, self.low, self.high) for start in starts]
        if not self.whole.any():
            tried = np.vstack([tried, found])
            return tried[int(np.argmax(score(tried)))]
        tried = np.array([self._stepped(score, self._nearest(x)) for x in [*found, *starts]])
        return tried[int(np.argmax(score(tried)))]

    def _climbed(
        self, score: Score, start: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> np.ndarray:
        """Return the end (D,) of a local search between ends (D,)."""
        width = self.high - self.low
        limits = [LinearConstraint(self.a, -np.inf, self.b)] if len(self.b) else []
        limits += [LinearConstraint(self.c, self.d, self.d)] if len(self.d) else []
        optimum = minimize(
            lambda x: -float(score(x[None])[0]),
            start,
            method="SLSQP",
            bounds=list(zip(low, high, strict=True)),
            constraints=limits,
            options={"maxiter": ITERATIONS, "eps": STEP * float(width.min())},
        )
        # Towards a point whose whole numbers are the same, if they are held.
        centre = self._centre if low is self.low else start
        return self._pulled(optimum.x[None], centre)[0]

    def _stepped(self, score: Score, x: np.ndarray) -> np.ndarray:
        """Return a point (D,) that no step of whole numbers, nor a search of others, improves."""
        height = float(score(x[None])[0])
        for _ in range(ITERATIONS):
            near = x + self._steps
            near = near[self._meets(near)]
            if not self.whole.all():
                held = (np.where(self.whole, x, ends) for ends in (self.low, self.high))
                near = np.vstack([near, np.where(self.whole, x, self._climbed(score, x, *held))])
            heights = score(near) if len(near) else np.array([-np.inf])
            if not heights.max() > height + SLACK * abs(height):
                break
            x, height = near[int(np.argmax(heights))], float(heights.max())
        return x

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Return a random point (D,)."""
        if self.points is not None:
            return self.points[rng.integers(len(self.points))]
        return self._nearest(self._spread(1, rng)[0])

    def check(self, x: np.ndarray) -> None:
        """Raise an error if a point isn't in the box or violates a constraint."""
        slack = SLACK * (self.high - self.low)
        if x.shape != self.low.shape or not (
            (x >= self.low - slack).all() and (x <= self.high + slack).all()
        ):
            raise InputError(f"{x.tolist()} isn't in the box.")
        if (x != np.round(x))[self.whole].any():
            raise InputError(f"{x.tolist()} has a fraction where it should have a whole number.")
        if not self._meets(x[None])[0]:
            over = np.append(self.a @ x - self.b, np.abs(self.c @ x - self.d)).max()
            raise InputError(f"{x.tolist()} violates a constraint by {over:.3g}.")

    def _meets(self, x: np.ndarray) -> np.ndarray:
        """Return whether points (m, D) are in the box and meet the constraints, (m,) bool."""
        slack = SLACK * (self.high - self.low)
        inside = ((x >= self.low - slack) & (x <= self.high + slack)).all(axis=1)
        over = x @ self.a.T - self.b <= np.abs(self.a) @ slack + SLACK * np.abs(self.b)
        apart = np.abs(x @ self.c.T - self.d) <= np.abs(self.c) @ slack + SLACK * np.abs(self.d)
        return inside & over.all(axis=1) & apart.all(axis=1)

    def to_dict(self) -> dict[str, Any]:
        """Return ends and constraints as plain data, for JSON."""
        parts = {"low": self.low, "high": self.high, "a": self.a, "b": self.b}
        parts |= {"c": self.c, "d": self.d} if len(self.d) else {}
        parts |= {"whole": self.whole} if self.whole.any() else {}
        return {name: value.tolist() for name, value in parts.items()}

    def _spread(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return quasi-random points (count, D), whose whole numbers have fractions."""
        sequence = qmc.Sobol(self.dimension, rng=rng)
        unit = sequence.random_base2(int(np.ceil(np.log2(max(count, 1)))))[:count]
        return self._pulled(self.low + unit * (self.high - self.low), self._centre)

    def _pulled(self, x: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """Return points moved towards the centre until they meet the constraints."""
        x = np.clip(x, self.low, self.high)
        if not len(self.b) and not len(self.d):
            return x
        along, rows, limits = x - centre, self.a, self.b
        if len(self.d):  # which points that meet them may leave the box for
            along, eye = along @ self._free @ self._free.T, np.eye(self.dimension)
            rows = np.vstack([rows, eye, -eye])
            limits = np.concatenate([limits, self.high, -self.low])
        rise = along @ rows.T
        room = limits - rows @ centre
        with np.errstate(divide="ignore"):
            share = np.where(rise > room, room / np.where(rise > 0, rise, 1.0), 1.0).min(axis=1)
        return centre + np.clip(share, 0.0, 1.0)[:, None] * along


#: A space: a point is drawn from it by `draw`, and chosen by `best`.
type Space = Points | Box
