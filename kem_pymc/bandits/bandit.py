"""Bandits with decomposed feedback: where to play next, by asking and telling."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from importlib.metadata import version
from numbers import Real
from os import PathLike
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr
from pydantic import BaseModel, Field, TypeAdapter
from scipy.special import log_ndtr

from kem_pymc._system.files import STRICT
from kem_pymc._system.folder import RunFolder
from kem_pymc._system.options import check_seed, check_whole, checked
from kem_pymc.bandits.objective import Objective, Weighted
from kem_pymc.bandits.regression import Component, ComposedProcess, DecomposedPosterior
from kem_pymc.bandits.space import Space
from kem_pymc.data.validation import LARGEST, number_array
from kem_pymc.errors import InputError
from kem_pymc.gp.posterior import Process

#: Policies by name.
PolicyName = Literal["d-gpucb", "d-ei", "gp-ucb", "ei", "mpi", "random"]

Direction = Literal["maximize", "minimize"]

#: Files of a bandit: its options, and its events.
SETTINGS, EVENTS = "bandit.json", "events.jsonl"

#: Improvement, in standard deviations of the observed values, that "mpi" makes the most probable.
LEAST_IMPROVEMENT = 0.01


#: A number in a line of the file of events.
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]


class _Event(BaseModel):
    model_config = STRICT


class _Asked(_Event):
    """The point `ask` was asked for."""

    ask: list[Number]


class _Told(_Event):
    """Components and a value, None without an observation, were observed at the point `tell`."""

    tell: list[Number]
    components: list[Number | None]
    value: Number | None


#: What a line of the file of events contains.
EVENT: TypeAdapter[_Asked | _Told] = TypeAdapter(_Asked | _Told)


class Round(NamedTuple):
    """One round.

    Attributes
    ----------
    x : ndarray, shape (D,)
    components : ndarray, shape (J,)
        NaN where a component wasn't observed.
    value : float
        NaN if it wasn't observed.
    """

    x: np.ndarray
    components: np.ndarray
    value: float


@checked
def exploration(
    t: int,
    *,
    points: int | None = None,
    components: int = 1,
    dimension: int = 1,
    width: float = 1.0,
    smoothness: tuple[float, float] = (1.0, 1.0),
    delta: float = 0.05,
) -> float:
    """Return beta_t of theorems 7 and 8, for a finite number of points or a continuous space.

    For m points it is ``2 log(m J t^2 pi^2 / (6 delta))``, with J = 1 for a linear decomposition
    (theorem 7). For a continuous space it is ``2 log(2 J t^2 pi^2 / (3 delta))
    + 2 d log(t^2 d b r sqrt(log(4 d a / delta)))``, whose second logarithm isn't below zero here.

    With the probability 1 - delta or more, all components (J = 1: the objective) are within
    sqrt(beta_t) posterior standard deviations of their means at all points and in all rounds, and
    the regret is below the theorems' bound. This supposes that the components are draws of the
    processes, with their hyperparameters and noise and, for the regret, variances of one at most;
    and in a continuous space that a and b are right. A smaller beta has no such probability: a
    fifth of it, as in the paper's experiments, is sqrt(beta) = 2.0 for 1,000 points and a delta of
    .05 in the first round, when 21 of the points are expected to have values beyond their upper
    bounds.

    Parameters
    ----------
    t : int
        Number of the round, from 1 on.
    points : int, optional
        Number of points m; by default the space is continuous.
    components : int
        J of theorem 8; 1 for theorem 7.
    dimension : int
        Number of inputs d.
    width : float
        Largest width r of the space.
    smoothness : tuple of two floats
        a and b: the probability that a derivative exceeds L is at most ``a exp(-(L / b)^2)``.
    delta : float
        Probability with which the bounds may fail.
    """
    number = 1 if points is None else points
    check_whole(t=t, points=number, components=components, dimension=dimension)
    if not (0 < delta < 1 and width > 0 and all(number > 0 for number in smoothness)):
        raise InputError(
            f"delta is {delta}, width {width} and smoothness {smoothness}. Give a delta between 0 "
            "and 1, and a positive width and two positive numbers."
        )
    if points is not None:
        return 2 * math.log(points * components * t**2 * math.pi**2 / (6 * delta))
    a, b = smoothness
    spread = t**2 * dimension * b * width * math.sqrt(math.log(4 * dimension * a / delta))
    first = 2 * math.log(2 * components * t**2 * math.pi**2 / (3 * delta))
    return first + 2 * dimension * math.log(max(spread, 1.0))


@checked
class Bandit:
    """Decisions in rounds, by D-GPUCB and the policies that it is compared with.

    Every component of the objective has a Gaussian process of its own, which is updated by the
    component's observations (algorithms 3 and 4).

    Parameters
    ----------
    space : Points or Box
        Where to play.
    components : sequence of GaussianProcess, or of sequences of GaussianProcess, length J
        Processes of the components; a sequence in place of one contains draws of it, such as those
        of a posterior.
    objective : Weighted or Composed
    policy : {"d-gpucb", "d-ei", "gp-ucb", "ei", "mpi", "random"}
        "d-gpucb" has the largest upper confidence bound, "d-ei" the largest expected improvement,
        both by the components. "gp-ucb", "ei" (expected improvement) and "mpi" (most probable
        improvement) observe the values of the objective only: their process is that of the weighted
        sum, or `whole`.
    whole : GaussianProcess, optional
        Process of the values, which these policies need if the objective isn't a weighted sum or a
        component has draws. With one, "random" observes the values only, too.
    direction : {"maximize", "minimize"}
    beta : callable, optional
        Returns beta_t for the number of the round; by default that of theorem 7, or of theorem 8
        for a `Composed` objective by the rules "box" and "theorem", see :func:`exploration`.
    delta : float
        Enters the default of beta_t. It is the probability with which the theorems' bounds may fail
        only if `scale` is one.
    scale : float
        Factor of beta_t. That of the paper's experiments, 1/5, has less regret there than one, and
        no guarantee.
    seed : int
    out : path, optional
        Folder to which rounds are written. If it contains a bandit with the same space and options,
        that one is continued.

    Raises
    ------
    InputError
        If an option is unknown or out of range, components and objective don't fit together, or the
        folder contains anything else.

    Examples
    --------
    >>> values = {"SE0.amplitude": 1.0, "SE0.lengthscale": 0.2}
    >>> smooth = GaussianProcess.of("SE0", values, noise=1e-4)
    >>> bandit = Bandit(Points(np.linspace(0, 1, 1000)), [smooth, smooth], Weighted(2))
    >>> for _ in range(100):
    ...     x = bandit.ask()
    ...     bandit.tell(x, [first(x), second(x)])
    """

    def __init__(
        self,
        space: Space,
        components: Sequence[Component],
        objective: Objective,
        policy: PolicyName = "d-gpucb",
        *,
        whole: Process | None = None,
        direction: Direction = "maximize",
        beta: Callable[[int], float] | None = None,
        delta: float = 0.05,
        scale: float = 0.2,
        seed: int = 0,
        out: str | PathLike[str] | None = None,
    ) -> None:
        for name, value, choices in (
            ("policy", policy, get_args(PolicyName)),
            ("direction", direction, get_args(Direction)),
        ):
            if not (isinstance(value, str) and value in choices):
                raise InputError(f"There is no {name} {value!r}. Use one of {', '.join(choices)}.")
        check_seed(seed=seed)
        real = isinstance(delta, Real) and isinstance(scale, Real)
        if not (real and 0 < delta < 1 and 0 < scale <= LARGEST):
            raise InputError(
                f"delta is {delta!r}, and scale {scale!r}. Give a delta between 0 and 1, and a "
                "positive scale."
            )
        self.space, self.objective, self.policy = space, objective, policy
        self.direction, self.delta, self.scale, self.seed = direction, delta, scale, seed
        self._beta = beta
        #: The posterior of what the policy observes: of the components, or of the values alone.
        self.model = DecomposedPosterior(components, objective, space.points)
        if self.model.dimension != space.dimension:
            raise InputError(
                f"The components have {self.model.dimension} inputs, and the space "
                f"{space.dimension}. Give all of them the same."
            )
        self._values_only = policy in ("gp-ucb", "ei", "mpi") or (
            policy == "random" and whole is not None
        )
        if self._values_only:
            process = self._composed(components, whole)
            self.model = DecomposedPosterior([process], Weighted(1), space.points)
        self.rounds: list[Round] = []
        self.pending: list[np.ndarray] = []
        names = ("policy", "direction", "delta", "scale", "seed")
        options = {"space": space.to_dict(), "components": objective.count}
        options |= {name: getattr(self, name) for name in names}
        self._folder = RunFolder(out, "bandit", SETTINGS, options)
        with self._folder.locked():  # another bandit may be writing a line
            self._log = self._folder.log(
                EVENTS, lambda line: self._checked(EVENT.validate_python(line))
            )
        for event in self._log.events:
            self.model, self.rounds, self.pending = self._after(event)

    def _composed(self, components: Sequence[Component], whole: Process | None) -> Process:
        """Return the process of the values of the objective."""
        if whole is not None:
            return whole
        processes = [c for c in components if not isinstance(c, Sequence)]
        if not isinstance(self.objective, Weighted) or len(processes) < len(components):
            raise InputError(
                f"The policy {self.policy} needs a process of the values: the objective isn't a "
                "weighted sum of components with one process each. Give it as whole."
            )
        return ComposedProcess(processes, self.objective)

    # --- Rounds -----------------------------------------------------------------------------------

    def ask(self) -> np.ndarray:
        """Return the point (D,) to play next.

        If the last point that was asked for has no observation yet, it is returned again.
        """
        if not self.pending:
            rng = np.random.default_rng([self.seed, len(self.rounds)])
            x = self._chosen(rng)
            self._record(_Asked(ask=x.tolist()))
        return self.pending[0].copy()

    def tell(
        self, x: npt.ArrayLike, components: npt.ArrayLike | None = None, value: float | None = None
    ) -> None:
        """Record the observations at a point.

        Parameters
        ----------
        x : array_like, shape (D,)
            A point of the space, whether it was asked for or not.
        components : array_like, shape (J,), optional
            Observed components; None, NaN or masked where there is no observation.
        value : float, optional
            Observed value of the objective; by default it is computed from the components, if all
            of them were observed. "d-gpucb" and "d-ei" don't learn from it.

        Raises
        ------
        InputError
            If the point isn't in the space, nothing was observed that the policy learns from,
            shapes don't match, an observation is infinite, or it contradicts an earlier one without
            noise; or if the round can't be written. Then the bandit is as it was.
        """
        x = np.atleast_1d(number_array("coordinates of the point", x))
        given: Any = [None] * self.objective.count if components is None else components
        nothing: Any = None
        shown = np.where(np.ma.getmask(given), nothing, np.asarray(given, object))
        every = [*np.ravel(shown), value]
        missing = [
            y is None or y is pd.NA or (isinstance(y, float | np.floating) and math.isnan(y))
            for y in every
        ]
        filled = [0.0 if gone else y for y, gone in zip(every, missing, strict=True)]
        numbers = number_array("observations", filled)
        if numbers.ndim != 1:
            raise InputError(f"The value at {x.tolist()} is a sequence. Give one number.")
        pairs = zip(numbers.tolist(), missing, strict=True)
        *plain, value = (None if gone else y for y, gone in pairs)
        self.space.check(x)
        self._record(self._checked(_Told(tell=x.tolist(), components=plain, value=value)))

    def posterior(self, x: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return posterior means and variances (m,) of the objective at inputs (m, D)."""
        points = number_array("inputs", x)
        return self.model.predict(points[:, None] if points.ndim == 1 else points)

    @property
    def best(self) -> tuple[np.ndarray, float]:
        """The point among those played with the best posterior mean, and this mean.

        The best observed value isn't that of the objective there: it is the best by luck, too.

        Raises
        ------
        InputError
            If nothing was observed.
        """
        if not self.rounds:
            raise InputError("Nothing was observed yet. Tell an observation first.")
        played = np.unique([own.x for own in self.rounds], axis=0)
        mean, _ = self.model.predict(played)
        place = int(np.argmax(self._sign * mean))
        return played[place], float(mean[place])

    @property
    def values(self) -> np.ndarray:
        """Observed values of the objective (t,); NaN where there was none."""
        return np.array([played.value for played in self.rounds])

    def to_datatree(self) -> xr.DataTree:
        """Return the rounds as a DataTree.

        Group ``rounds`` has the points (round, input), the components (round, component), and the
        values (round).
        """
        x = [played.x for played in self.rounds]
        components = [played.components for played in self.rounds]
        data = {
            "x": (("round", "input"), np.reshape(x, (-1, self.space.dimension))),
            "components": (
                ("round", "component"),
                np.reshape(components, (-1, self.objective.count)),
            ),
            "value": ("round", self.values),
        }
        attrs = {name: getattr(self, name) for name in ("policy", "direction", "seed")}
        attrs |= {
            "inference_library": "kem_pymc",
            "inference_library_version": version("kem-pymc"),
        }
        table = xr.Dataset(data, {"round": np.arange(1, len(self.rounds) + 1)}, attrs)
        return xr.DataTree.from_dict({"rounds": table})

    # --- Choice -----------------------------------------------------------------------------------

    @property
    def _sign(self) -> float:
        return 1.0 if self.direction == "maximize" else -1.0

    def _chosen(self, rng: np.random.Generator) -> np.ndarray:
        """Return the point that the policy chooses."""
        if self.policy == "random":
            return self.space.draw(rng)
        if self.policy in ("ei", "d-ei") and self.rounds:
            # With the luckiest noisy value nothing would improve on it, and points be chosen that
            # are merely uncertain.
            return self.space.best(partial(self._log_improvement, self.best[1]), rng)
        if self.policy == "mpi" and self.rounds:
            # The best posterior mean is too low here: points beside it are always likely to improve
            # on it a little, and local optima are never left.
            observed = self._sign * self.values
            ahead = observed.max() + LEAST_IMPROVEMENT * max(float(observed.std()), 1e-12)
            return self.space.best(partial(self._log_probability, ahead), rng)
        return self.space.best(self._bound, rng)

    def _bound(self, x: np.ndarray) -> np.ndarray:
        """Return upper confidence bounds (m,) at points."""
        moments = self.model.predict_components(x)
        reach = math.sqrt(self.scale * self._exploration(len(self.rounds) + 1))
        return self.model.objective.upper(x, *moments, reach, self._sign)

    def _log_improvement(self, best: float, x: np.ndarray) -> np.ndarray:
        """Return logs of the expected improvement (m,) on a value at points."""
        moments = self.model.predict_components(x)
        return self.model.objective.log_improvement(x, *moments, best, self._sign)

    def _log_probability(self, ahead: float, x: np.ndarray) -> np.ndarray:
        """Return logs of the probability (m,) of more than a value at points."""
        mean, variance = self.model.predict(x)
        return log_ndtr((self._sign * mean - ahead) / np.maximum(np.sqrt(variance), 1e-12))

    def _exploration(self, t: int) -> float:
        """Return beta_t, without the factor."""
        if self._beta is not None:
            return self._beta(t)
        points = self.space.points
        return exploration(
            t,
            points=None if points is None else len(points),
            components=self.model.objective.joint,
            dimension=self.space.dimension,
            width=self.space.width,
            delta=self.delta,
        )

    # --- Events -----------------------------------------------------------------------------------

    def _record(self, event: _Asked | _Told) -> None:
        """Write an event and then apply it, so that every round in memory is in the file."""
        after = self._after(event)
        with self._folder.locked():
            self._log.add([event.model_dump()])
        self.model, self.rounds, self.pending = after

    def _checked(self, event: _Asked | _Told) -> _Asked | _Told:
        """Return an event with the value of the objective, if it follows from the components.

        Raises
        ------
        InputError
            If the event isn't one of this bandit.
        """
        if isinstance(event, _Asked):
            self.space.check(np.array(event.ask))
            return event
        x, observed = np.array(event.tell), np.array(event.components, dtype=float)
        self.space.check(x)
        if len(observed) != self.objective.count:
            raise InputError(
                f"There are {len(observed)} components at {x.tolist()}, and the objective has "
                f"{self.objective.count}. Give one number for each, NaN where it wasn't observed."
            )
        value = event.value
        if value is None and not np.isnan(observed).any():
            values = self.objective.value(x[None], observed[None])
            value = float(number_array("values of the objective", values)[0])
        learned = value is not None if self._values_only else not np.isnan(observed).all()
        if not learned:
            what = "a value" if self._values_only else "components, or use gp-ucb"
            raise InputError(
                f"Nothing was observed at {x.tolist()} that the policy {self.policy} learns from. "
                f"Give {what}."
            )
        return event.model_copy(update={"value": value})

    def _after(
        self, event: _Asked | _Told
    ) -> tuple[DecomposedPosterior, list[Round], list[np.ndarray]]:
        """Return the model, the rounds and the pending points after an event."""
        if isinstance(event, _Asked):
            return self.model, self.rounds, [*self.pending, np.array(event.ask)]
        x, observed = np.array(event.tell), np.array(event.components, dtype=float)
        value = math.nan if event.value is None else event.value
        model = copy(self.model)
        model.observe(x, [value] if self._values_only else observed)
        pending = [asked for asked in self.pending if not np.array_equal(asked, x)]
        return model, [*self.rounds, Round(x, observed, value)], pending
