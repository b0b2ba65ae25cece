"""Optimisation of functions that follow each other, by an ask-and-tell interface."""

import math
import operator
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, Literal, overload

import numpy as np
import xarray as xr

from kem_pymc.data.transforms import Transform
from kem_pymc.errors import InputError
from kem_pymc.gp.acquisition import maximise
from kem_pymc.lifelong.datatree import evaluations, networks
from kem_pymc.lifelong.distributions import is_number, plain
from kem_pymc.lifelong.methods import Acquired, Method
from kem_pymc.lifelong.space import Point, Space, SpaceExhausted
from kem_pymc.lifelong.store import Store
from kem_pymc.lifelong.task import Task, same_point

#: Methods by name.
MethodName = Literal[
    "lbo", "random", "sobol", "gp", "multitask_gp", "warm_start_gp", "dngo", "ablr", "ablr_100"
]

Direction = Literal["minimize", "maximize"]

#: Number of random points with which a task begins.
INITIAL = 5

#: Number of random points, one of which is to be new.
DRAWS = 256

#: Largest number of points of a space that are looked through if all of these are known.
POINTS = 4096

#: Magnitude of values from which they are made smaller, and largest magnitude of scaled ones.
HUGE, LARGEST = 1e100, 1e12

#: Difference of the standard normal distribution's quartiles.
QUARTILES = 1.349


class LifelongOptimizer:
    """Optimiser of functions that arrive one after the other, such as scores on growing data sets.

    Points are chosen by expected improvement under a model of the function. With "lbo" the model is
    a sum of networks that earlier tasks share as far as it helps (Zhang et al. 2019).

    Parameters
    ----------
    space : Space or mapping of str to Distribution
        Points that may be tried.
    method : str
        "lbo"; or "random", "sobol" (quasi-random points), "gp" (a Gaussian process of the current
        task), "multitask_gp", "warm_start_gp" (begins with the best points of earlier tasks),
        "dngo" (a network for each task), "ablr" or "ablr_100" (a network with 50 or 100 units that
        all tasks share).
    direction : {"minimize", "maximize"}
    alpha : float
        Expected number of networks that a task uses, for "lbo".
    max_networks : int
        Largest number of networks, for "lbo".
    initial : int
        Number of points with which every task begins, random ones unless others are added.
    seed : int
        The same tasks, values and seed give the same points.
    out : path, optional
        Folder to which points, values and the model are written. If it contains an optimiser of the
        same space and options, that one is continued.

    Raises
    ------
    InputError
        If an option is unknown or out of range, or the folder contains anything else.

    Examples
    --------
    >>> optimizer = LifelongOptimizer({"x": FloatDistribution(-5, 10)})
    >>> optimizer.next_task("2024")
    >>> for _ in range(50):
    ...     point = optimizer.ask()
    ...     optimizer.tell(point, loss(point["x"]))
    >>> optimizer.best
    """

    def __init__(
        self,
        space: Space | Mapping[str, Any],
        *,
        method: MethodName = "lbo",
        direction: Direction = "minimize",
        alpha: float = 2.0,
        max_networks: int = 10,
        initial: int = INITIAL,
        seed: int = 0,
        out: str | PathLike[str] | None = None,
    ) -> None:
        self.space = Space.of(space)
        if direction not in ("minimize", "maximize"):
            raise InputError(f"There is no direction {direction!r}. Use minimize or maximize.")
        initial = whole("initial", initial, at_least=1)
        max_networks = whole("max_networks", max_networks, at_least=1)
        seed = whole("seed", seed, at_least=0)
        if not (is_number(alpha := plain(alpha)) and alpha > 0):
            raise InputError(f"alpha is {alpha!r}. Give a positive number.")
        self.direction, self.initial, self.seed = direction, initial, seed
        self.method_name = method
        self.method = _method(method, self.space.columns, alpha, max_networks)
        self.tasks: list[Task] = []
        self._known: dict[str, tuple[int, Acquired]] = {}
        options = {
            "space": self.space.to_dict(),
            "method": method,
            "direction": direction,
            "alpha": float(alpha),
            "max_networks": max_networks,
            "initial": initial,
            "seed": seed,
        }
        self._store = Store(out, options)
        for event in self._store.events():
            self._apply(event)
        if self.method is not None:
            self._store.restore(self.method)

    # --- Tasks ------------------------------------------------------------------------------------

    def next_task(
        self, name: str | None = None, space: Space | Mapping[str, Any] | None = None
    ) -> None:
        """Begin the next task.

        Parameters
        ----------
        name : str, optional
            Name of the task; by default its number, or the next one that isn't a name yet.
        space : Space or mapping of str to Distribution, optional
            Space of the task, to check that it is the same.

        Raises
        ------
        InputError
            If there is a task of that name, or the space is another one.
        """
        names = {task.name for task in self.tasks}
        if name is None:
            number = len(names) + 1
            while str(number) in names:
                number += 1
            name = str(number)
        name = str(name)
        if space is not None and Space.of(space) != self.space:
            raise InputError(
                f"The space of task {name} isn't that of the optimiser. Give all tasks one space, "
                "or make another optimiser."
            )
        if name in names:
            raise InputError(f"There is a task {name} already. Choose another name.")
        self._record({"task": name})

    @property
    def task(self) -> Task:
        """The current task.

        Raises
        ------
        InputError
            If none has begun.
        """
        if not self.tasks:
            raise InputError("No task has begun. Call next_task first.")
        return self.tasks[-1]

    @property
    def best(self) -> tuple[dict[str, Any], float]:
        """The best point of the current task, and its value.

        Raises
        ------
        InputError
            If there is no value, or all evaluations failed.
        """
        return self.task.best(self._sign)

    def acquired(self) -> Acquired:
        """Return the current task's acquisitions as the model is given them."""
        return self._acquired(self.task)

    # --- Points -----------------------------------------------------------------------------------

    @overload
    def ask(self, n: None = None) -> dict[str, Any]: ...
    @overload
    def ask(self, n: int) -> list[dict[str, Any]]: ...
    def ask(self, n: int | None = None) -> dict[str, Any] | list[dict[str, Any]]:
        """Return the next point to evaluate, or several.

        Points that were asked for and have no value yet are taken into account with the values that
        the model expects there.

        Parameters
        ----------
        n : int, optional
            Number of points, for a list of them.

        Returns
        -------
        dict or list of dict
            The list is shorter if the space has no more points.

        Raises
        ------
        InputError
            If no task has begun, or `n` isn't a number of points.
        SpaceExhausted
            If all points of the space were asked for.
        """
        if n is None:
            return self._ask()
        points: list[dict[str, Any]] = []
        for _ in range(whole("n", n, at_least=1)):
            try:
                points.append(self._ask())
            except SpaceExhausted:
                if not points:
                    raise
        return points

    def tell(self, point: Point, value: float | None) -> None:
        """Record the value of a point that was asked for.

        Parameters
        ----------
        point : mapping
            Numbers may be of another type, such as 4.0 for 4.
        value : float or None
            None, or NaN or infinite, if the evaluation failed. For models it is as bad as the worst
            value of the task, and worse if there is one value only, so that points near it are
            avoided.

        Raises
        ------
        InputError
            If no task has begun, the point isn't in the space, has a value already or wasn't asked
            for in the current task, or the value isn't a number.
        """
        point = self.space.own(point)
        if not self.task.awaits(point):
            raise InputError(f"The point {point} {self._why_not(point)}")
        self._tell(point, value)

    def withdraw(self, point: Point) -> None:
        """Forget that a point was asked for, since it won't be evaluated.

        Parameters
        ----------
        point : mapping

        Raises
        ------
        InputError
            If no task has begun, the point isn't in the space, has a value already or wasn't asked
            for in the current task.
        """
        point = self.space.own(point)
        if not self.task.awaits(point):
            raise InputError(f"The point {point} {self._why_not(point)}")
        self._record({"withdraw": point})

    def _why_not(self, point: dict[str, Any]) -> str:
        """Return why a point isn't one that waits for its value, and what to do."""
        if any(task.awaits(point) for task in self.tasks):
            return (
                f"was asked for in a task that has ended, as {self.task.name} has begun. Tell "
                "values before the next task."
            )
        if same_point(point, self.task.points):
            return f"has a value in task {self.task.name} already. Use add to record another."
        return (
            f"wasn't asked for in task {self.task.name}. Tell points that ask returned, or use add "
            "for others."
        )

    def add(self, point: Point, value: float | None) -> None:
        """Record the value of a point that wasn't asked for.

        Parameters
        ----------
        point : mapping
        value : float or None
            See :meth:`tell`.

        Raises
        ------
        InputError
            If no task has begun, the point isn't in the space, or the value isn't a number.
        """
        _ = self.task
        self._tell(self.space.own(point), value)

    def _tell(self, point: dict[str, Any], value: float | None) -> None:
        try:
            if isinstance(value, str | bytes):  # float would read them
                raise TypeError
            number = math.nan if value is None else float(value)
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"The value of {point} is {value!r}. Give a number, or None if the evaluation "
                "failed."
            ) from None
        self._record({"tell": point, "value": number if math.isfinite(number) else None})

    # --- Choice -----------------------------------------------------------------------------------

    @property
    def _sign(self) -> float:
        return 1.0 if self.direction == "minimize" else -1.0

    def _ask(self) -> dict[str, Any]:
        task = self.task
        rng = np.random.default_rng([self.seed, len(self.tasks), task.asked])
        known = self._store.chosen()
        row = np.array(known) if known is not None else self._choose(task, rng)
        point = self.space.decode(row)[0]
        if known is None and self.method is not None:
            self._store.save_model(self.method.state(), row)
        self._record({"ask": point})
        return dict(point)

    def _choose(self, task: Task, rng: np.random.Generator) -> np.ndarray:
        """Return the encoded point to evaluate next."""
        seen = self.space.encode([*task.points, *task.pending])
        if self.method_name == "sobol":
            sequence = np.random.default_rng([self.seed, len(self.tasks)])
            row = self.space.sobol(task.asked + 1, sequence)[-1]
            tried = any(np.array_equal(row, own) for own in seen)
            return self._new(seen, rng) if tried else row
        current = self._acquired(task)
        began = len(task.points) + len(task.pending) >= self.initial
        if self.method is None or not began or len(current.values) < 2:
            return self._first(task, seen, rng)
        if np.ptp(current.values) == 0:
            return self._new(seen, rng)  # a constant function: nothing is better than chance
        known = [self._acquired(own) for own in self.tasks[:-1] if self._varies(own)]
        surrogate = self.method.fit([*known, current], rng)
        for row in self.space.encode(task.pending):
            expected, _ = surrogate.predict(row[None])
            current = current.plus(row[None], expected)
            surrogate = surrogate.conditioned(current)
        best = float(current.values.min())
        found = maximise(surrogate, self.space, best, *current, rng, seen)
        return self._new(seen, rng) if found is None else found

    def _first(self, task: Task, seen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return a point with which a task begins, for "warm_start_gp" an earlier task's best."""
        if self.method_name == "warm_start_gp":
            known = {row.tobytes() for row in seen}
            for own in reversed(self.tasks[:-1]):
                if own.has_values:
                    point, _ = own.best(self._sign)
                    row = self.space.encode([point])[0]
                    if row.tobytes() not in known:
                        return row
        return self._new(seen, rng)

    def _new(self, seen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return a random point that wasn't tried."""
        known = {row.tobytes() for row in seen}
        for row in self.space.draw(DRAWS, rng):
            if row.tobytes() not in known:
                return row
        # Some points may be rare, as large numbers with a logarithm are.
        every = self.space.every(POINTS)
        rows = self.space.draw(POINTS, rng) if every is None else rng.permutation(every)
        for row in rows:
            if row.tobytes() not in known:
                return row
        raise SpaceExhausted

    def _acquired(self, task: Task) -> Acquired:
        """Return the acquisitions of a task, with values that models suppose to be normal.

        Those of earlier tasks are computed once, since all of them are needed for every point.
        """
        count, known = self._known.get(task.name, (-1, None))
        if known is None or count != len(task.values):
            values = self._sign * np.array(task.values)
            points = task.points
            if task.has_values:
                failed = np.isnan(values)
                if np.ptp(values[~failed]) > 0:
                    values = np.where(failed, np.nanmax(values), values)
                elif failed.any():  # failures are all that can be avoided
                    values = failed.astype(float)
            else:
                points, values = [], values[:0]
            known = Acquired(self.space.encode(points), normalised(values))
            self._known[task.name] = len(task.values), known
        return known

    def to_datatree(self) -> xr.DataTree:
        """Return the run as a DataTree.

        Group ``evaluations`` has a row for every evaluation: the task, the value (NaN if
        the evaluation failed), the best one of the task so far, and the point, as a variable for
        each of its dimensions. With "lbo", group ``networks`` has a row for every training of the
        model: the task, the number of its values, the evidence lower bound, the coefficient of the
        regulariser, the probability that the task uses each network, and the network's weight: the
        standard deviation of its output, where the function's is one. The likeliest network is used
        whatever its probability.
        """
        attrs = {"method": self.method_name, "direction": self.direction, "seed": self.seed}
        groups = {"evaluations": evaluations(self.tasks, self.space, self._sign, attrs)}
        trace = getattr(self.method, "trace", [])
        if trace:
            # Constant functions aren't learned from.
            groups["networks"] = networks(trace, [t.name for t in self.tasks if self._varies(t)])
        return xr.DataTree.from_dict(groups)

    def _varies(self, task: Task) -> bool:
        """Return whether a task has values that differ."""
        values = self._acquired(task).values
        return len(values) > 0 and np.ptp(values) > 0

    def _record(self, event: Mapping[str, Any]) -> None:
        self._store.add(event)
        self._apply(event)

    def _apply(self, event: Mapping[str, Any]) -> None:
        """Bring the state up to date with an event."""
        if "task" in event:
            self.tasks.append(Task(event["task"]))
        elif "ask" in event:
            self.task.pending.append(event["ask"])
            self.task.asked += 1
        elif "withdraw" in event:
            self.task.forget(event["withdraw"])
        else:
            self.task.forget(event["tell"])
            self.task.points.append(event["tell"])
            self.task.values.append(math.nan if event["value"] is None else event["value"])


def whole(name: str, value: Any, *, at_least: int) -> int:
    """Return an option that is a whole number.

    Raises
    ------
    InputError
        If it isn't, or is too small.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name}={value!r} isn't a whole number. Give one.") from None
    if number < at_least:
        raise InputError(f"{name}={number} is too small. Give {at_least} or more.")
    return number


def normalised(values: np.ndarray) -> np.ndarray:
    """Return values (n,) standardised, after a transform of Yeo and Johnson (2000) of them.

    Functions often have a few values that are far worse than all others; a model would fit these.
    Before the transform values have a median of zero, and quartiles as far apart as those of the
    standard normal distribution: moments would be those of the few. The quartiles are those of
    distinct values, since many failures may have one penalty.
    """
    if len(values) < 2:
        return np.zeros(len(values))
    if np.abs(values).max() > HUGE:  # squares would be infinite
        values = values / HUGE**2
    low, median, high = np.quantile(np.unique(values), [0.25, 0.5, 0.75])
    scale = (high - low) / QUARTILES
    if not scale > 0:
        return np.zeros(len(values))
    with np.errstate(over="ignore"):
        scaled = np.clip((values - median) / scale, -LARGEST, LARGEST)
    transformed = Transform.learn("yeo-johnson", scaled).forward(scaled)
    sd = transformed.std()
    return (transformed - transformed.mean()) / sd if sd > 0 else np.zeros(len(values))


def _method(name: str, columns: int, alpha: float, max_networks: int) -> Method | None:
    """Return the method of a name; None if it has no model."""
    from kem_pymc.lifelong.gaussian_process import GaussianProcesses
    from kem_pymc.lifelong.lbo import LBO
    from kem_pymc.lifelong.shared_network import SharedNetwork

    makers: dict[str, Callable[[], Method | None]] = {
        "lbo": lambda: LBO(columns, alpha=alpha, max_networks=max_networks),
        "random": lambda: None,
        "sobol": lambda: None,
        "gp": lambda: GaussianProcesses(several=False),
        "multitask_gp": lambda: GaussianProcesses(several=True),
        "warm_start_gp": lambda: GaussianProcesses(several=False),
        "dngo": lambda: SharedNetwork(columns, 50, several=False),
        "ablr": lambda: SharedNetwork(columns, 50, several=True),
        "ablr_100": lambda: SharedNetwork(columns, 100, several=True),
    }
    if not isinstance(name, str) or name not in makers:
        raise InputError(f"There is no method {name!r}. Use one of {', '.join(makers)}.")
    return makers[name]()
