"""Bandits with decomposed feedback: where to play next, by asking and telling."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from importlib.metadata import version
from numbers import Real
from os import PathLike
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr
from scipy.special import log_ndtr

from kem_pymc._system.display import plural
from kem_pymc._system.folder import RunFolder
from kem_pymc._system.options import check_seed, check_whole, checked, shown
from kem_pymc.bandits.confidence import exploration
from kem_pymc.bandits.events import EVENT, Asked, Dropped, Event, Observed, Round
from kem_pymc.bandits.objective import Objective, Weighted
from kem_pymc.bandits.regression import Component, ComposedProcess, DecomposedPosterior
from kem_pymc.bandits.space import Space
from kem_pymc.data.validation import LARGEST, number_array
from kem_pymc.errors import InputError
from kem_pymc.gp.posterior import Process
from kem_pymc.gp.process import GaussianProcess

#: Policies by name.
PolicyName = Literal["d-gpucb", "d-ei", "gp-ucb", "ei", "mpi", "random"]

Direction = Literal["maximize", "minimize"]

#: Files of a bandit: its options, and its events.
SETTINGS, EVENTS = "bandit.json", "events.jsonl"

#: Improvement, in standard deviations of the observed values, that "mpi" makes the most probable.
LEAST_IMPROVEMENT = 0.01


class _State(NamedTuple):
    """What events lead to: the posterior, rounds, pending inputs (C + D,), and how many asked."""

    model: DecomposedPosterior
    rounds: list[Round]
    pending: list[np.ndarray]
    asked: int


@checked
class Bandit:
    """Decisions in rounds, by D-GPUCB and the policies that it is compared with.

    Every component of the objective has a Gaussian process of its own, which is updated by the
    component's observations (algorithms 3 and 4).

    With contexts, a context is seen before each choice, and the policy chooses among the points of
    the space in that context (Krause and Ong 2011). :func:`exploration` counts the points of the
    space: the union bound of a round is over the points in the context that is seen, whatever
    decides which context that is, if it isn't what the components are elsewhere.

    Parameters
    ----------
    space : Points or Box
        Where to play.
    components : sequence of GaussianProcess, or of sequences of GaussianProcess, length J
        Processes of the components; a sequence in place of one contains draws of it, such as those
        of a posterior. Their inputs are the columns of the context, if there are any, and then
        those of the space.
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
    contexts : int
        Number of columns C of the context.
    refit : int, optional
        After every so many rounds each component is replaced by draws from the posterior of its
        hyperparameters, given all rounds, see :meth:`GaussianProcess.redrawn`; by default they stay
        as they are. With 1,000 observations or more of a component its posterior mode is used.
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
        contexts: int = 0,
        refit: int | None = None,
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
        check_whole(0, contexts=contexts)
        self.space, self.objective, self.policy = space, objective, policy
        self.direction, self.delta, self.scale, self.seed = direction, delta, scale, seed
        self.contexts, self.refit = contexts, refit
        self._beta = beta
        dimension = DecomposedPosterior(components, objective).dimension
        if dimension != contexts + space.dimension:
            raise InputError(
                f"The components have {plural(dimension, 'input')}, and the space "
                f"{space.dimension}, after {plural(contexts, 'column')} of contexts. Give all of "
                "them the same."
            )
        self._values_only = policy in ("gp-ucb", "ei", "mpi") or (
            policy == "random" and whole is not None
        )
        if self._values_only:
            components, objective = [self._composed(components, whole)], Weighted(1)
        # Of contexts that aren't known yet no moments can be kept up to date.
        watched = None if contexts else space.points
        model = DecomposedPosterior(components, objective, watched)
        #: The process of each column of what is observed, before it is refitted.
        self._given = [[draw.process for draw in draws] for draws in model.posteriors]
        if refit is not None:
            check_whole(refit=refit)
            self._check_refit()
        self._state = _State(model, [], [], 0)
        names = ("policy", "direction", "delta", "scale", "seed", "refit")
        options = {"space": space.to_dict(), "components": self.objective.count}
        options |= {name: getattr(self, name) for name in names} | {"contexts": contexts or None}
        self._folder = RunFolder(out, "bandit", SETTINGS, options)
        with self._folder.locked():  # another bandit may be writing a line
            self._log = self._folder.log(EVENTS, self._replayed)

    @property
    def model(self) -> DecomposedPosterior:
        """The posterior of what the policy observes: of the components, or of the values alone."""
        return self._state.model

    @property
    def rounds(self) -> list[Round]:
        """The rounds, in the order in which they were first recorded."""
        return self._state.rounds

    @property
    def pending(self) -> list[np.ndarray]:
        """Inputs (C + D,), contexts first, that were asked for and have no observation yet."""
        return self._state.pending

    def _check_refit(self) -> None:
        """Check that there is one process with noise of each column of what is observed."""
        for draws in self._given:
            if len(draws) > 1 or not (isinstance(draws[0], GaussianProcess) and draws[0].noise > 0):
                raise InputError(
                    "Hyperparameters can be refitted of single Gaussian processes with noise. Give "
                    "one for each component, and a whole for policies that observe values only."
                )

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

    def ask(self, context: npt.ArrayLike | None = None, count: int | None = None) -> np.ndarray:
        """Return the point (D,) to play next, or several to be played at once.

        Points that were asked for in the same context and have no observation yet are returned
        again. While points are pending, the next is chosen as if they had been observed at the
        posterior means of the components: only variances fall (GP-BUCB, Desautels et al. 2014;
        for expected improvement the "kriging believer" of Ginsbourger et al. 2010).

        Parameters
        ----------
        context : array_like, shape (C,), optional
            What is seen before the choice, of a bandit with contexts.
        count : int, optional
            Number of points; by default one, without a further dimension.

        Returns
        -------
        ndarray, shape (D,) or (count, D)

        Raises
        ------
        InputError
            If there is a context and shouldn't be, or the other way round, or its length or a
            value is wrong; if `beta` returns anything else than a number of zero or more; or if the
            points can't be written.
        """
        seen = self._context(context)
        check_whole(count=1 if count is None else count)
        split = self.contexts
        again = [own[split:] for own in self.pending if np.array_equal(own[:split], seen)]
        events: list[Event] = []
        state = self._state
        while len(again) < (count or 1):
            x = self._chosen(state, seen)
            again.append(x)
            events.append(Asked(ask=x.tolist(), context=seen.tolist()))
            state = self._after(state, events[-1])
        self._record(events, state)
        return again[0].copy() if count is None else np.array(again[:count])

    def drop(self, x: npt.ArrayLike, context: npt.ArrayLike | None = None) -> None:
        """Record that a point that was asked for isn't played, so that it is pending no longer.

        Parameters
        ----------
        x : array_like, shape (D,)
        context : array_like, shape (C,), optional

        Raises
        ------
        InputError
            If it isn't pending in this context, or can't be written.
        """
        x = np.atleast_1d(number_array("coordinates of the point", x))
        event = Dropped(drop=x.tolist(), context=self._context(context).tolist())
        self._record([event], self._after(self._state, event))

    def tell(
        self,
        x: npt.ArrayLike,
        components: npt.ArrayLike | None = None,
        value: float | None = None,
        *,
        context: npt.ArrayLike | None = None,
        number: int | None = None,
    ) -> int:
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
        context : array_like, shape (C,), optional
            The context in which it was played.
        number : int, optional
            Number of an earlier round, counted from 1, whose observations these replace:
            components that are known only now, or corrections. The posterior is then that of
            these observations. By default it is a new round.

        Returns
        -------
        int
            The number of the round.

        Raises
        ------
        InputError
            If the point isn't in the space, there is no such round, the context is missing or
            wrong, nothing was observed that the policy learns from, shapes don't match, an
            observation is infinite, or it contradicts another one without noise; or if the round
            can't be written. Then the bandit is as it was.
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
        seen = self._context(context).tolist()
        if number is not None:
            check_whole(number=number)
            number = int(number)
        event = self._checked(
            Observed(tell=x.tolist(), components=plain, value=value, context=seen, number=number)
        )
        self._record([event], self._after(self._state, event))
        return number or len(self.rounds)

    def posterior(
        self, x: npt.ArrayLike, context: npt.ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return posterior means and variances (m,) of the objective at points (m, D)."""
        points = number_array("inputs", x)
        points = points[:, None] if points.ndim == 1 else points
        return self.model.predict(_joined(self._context(context), points))

    @property
    def best(self) -> tuple[np.ndarray, float]:
        """The point among those played with the best posterior mean, and this mean.

        The best observed value isn't that of the objective there: it is the best by luck, too.

        Raises
        ------
        InputError
            If nothing was observed, or the bandit has contexts, see :meth:`best_in`.
        """
        if not self.rounds:
            raise InputError("Nothing was observed yet. Tell an observation first.")
        if self.contexts:
            raise InputError("The best point depends on the context. Use best_in(context).")
        return self._best_of(self.model, [own.inputs for own in self.rounds])

    def best_in(self, context: npt.ArrayLike) -> tuple[np.ndarray, float]:
        """Return the point (D,) of the space with the best posterior mean in a context, and this.

        In a `Box` it is searched for as points are that are asked for.

        Parameters
        ----------
        context : array_like, shape (C,)
        """
        return self._best_in(self.model, self._context(context))

    def _best_in(self, model: DecomposedPosterior, seen: np.ndarray) -> tuple[np.ndarray, float]:
        rng = np.random.default_rng(self.seed)
        x = self.space.best(
            lambda points: self._sign * model.predict(_joined(seen, points))[0], rng
        )
        return x, float(model.predict(_joined(seen, x[None]))[0][0])

    def _best_of(
        self, model: DecomposedPosterior, inputs: list[np.ndarray]
    ) -> tuple[np.ndarray, float]:
        played = np.unique(inputs, axis=0)
        mean, _ = model.predict(played)
        place = int(np.argmax(self._sign * mean))
        return played[place], float(mean[place])

    @property
    def values(self) -> np.ndarray:
        """Observed values of the objective (t,); NaN where there was none."""
        return np.array([played.value for played in self.rounds])

    def to_datatree(self) -> xr.DataTree:
        """Return the rounds as a DataTree.

        Group ``rounds`` has the points (round, input), the components (round, component), the
        values (round), and the contexts (round, column), if there are any.
        """
        x = [played.x for played in self.rounds]
        components = [played.components for played in self.rounds]
        data: dict[str, Any] = {
            "x": (("round", "input"), np.reshape(x, (-1, self.space.dimension))),
            "components": (
                ("round", "component"),
                np.reshape(components, (-1, self.objective.count)),
            ),
            "value": ("round", self.values),
        }
        if self.contexts:
            contexts = np.reshape([own.context for own in self.rounds], (-1, self.contexts))
            data["context"] = (("round", "column"), contexts)
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

    def _chosen(self, state: _State, seen: np.ndarray) -> np.ndarray:
        """Return the point that the policy chooses in a context (C,)."""
        rng = np.random.default_rng([self.seed, state.asked])
        if self.policy == "random":
            return self.space.draw(rng)
        model = state.model
        if state.pending:
            model = copy(model)
            for inputs in state.pending:
                model.expect(inputs)
        t = len(state.rounds) + len(state.pending)
        score = partial(self._bound, model, t + 1)
        if self.policy in ("ei", "d-ei") and t:
            # With the luckiest noisy value nothing would improve on it, and points be chosen that
            # are merely uncertain.
            best = self._incumbent(model, state, seen)
            score = partial(self._log_improvement, model, best)
        if self.policy == "mpi" and state.rounds:
            # The best posterior mean is too low here: points beside it are always likely to improve
            # on it a little, and local optima are never left.
            observed = self._sign * np.array([own.value for own in state.rounds])
            highest = float(observed.max())
            if self.contexts:  # other contexts have other values
                highest = self._sign * self._incumbent(model, state, seen)
            ahead = highest + LEAST_IMPROVEMENT * max(float(observed.std()), 1e-12)
            score = partial(self._log_probability, model, ahead)
        if not self.contexts:  # of which points are known, with moments that are kept
            return self.space.best(score, rng)
        return self.space.best(lambda x: score(_joined(seen, x)), rng)

    def _incumbent(self, model: DecomposedPosterior, state: _State, seen: np.ndarray) -> float:
        """Return the mean on which a point should improve: the best one played, or in a context."""
        if self.contexts:
            return self._best_in(model, seen)[1]
        return self._best_of(model, [*(own.inputs for own in state.rounds), *state.pending])[1]

    def _bound(self, model: DecomposedPosterior, t: int, x: np.ndarray) -> np.ndarray:
        """Return upper confidence bounds (m,) at inputs in round t."""
        moments = model.predict_components(x)
        reach = math.sqrt(self.scale * self._exploration(t))
        return model.objective.upper(x, *moments, reach, self._sign)

    def _log_improvement(
        self, model: DecomposedPosterior, best: float, x: np.ndarray
    ) -> np.ndarray:
        """Return logs of the expected improvement (m,) on a value at inputs."""
        moments = model.predict_components(x)
        return model.objective.log_improvement(x, *moments, best, self._sign)

    def _log_probability(
        self, model: DecomposedPosterior, ahead: float, x: np.ndarray
    ) -> np.ndarray:
        """Return logs of the probability (m,) of more than a value at inputs."""
        mean, variance = model.predict(x)
        return log_ndtr((self._sign * mean - ahead) / np.maximum(np.sqrt(variance), 1e-12))

    def _exploration(self, t: int) -> float:
        """Return beta_t, without the factor."""
        if self._beta is not None:
            beta = self._beta(t)
            if not (isinstance(beta, Real) and 0 <= beta <= LARGEST):
                raise InputError(
                    f"beta is {shown(beta)} in round {t}. Return a finite number of zero or more."
                )
            return float(beta)
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

    def _record(self, events: list[Event], after: _State) -> None:
        """Write events and then apply them, so that every round in memory is in the file."""
        with self._folder.locked():
            self._log.add([event.model_dump(exclude_defaults=True) for event in events])
        self._state = after

    def _replayed(self, line: Any) -> Event:
        """Return the event of a line of the file, after applying it."""
        event = self._checked(EVENT.validate_python(line))
        self._state = self._after(self._state, event)
        return event

    def _context(self, context: npt.ArrayLike | None) -> np.ndarray:
        """Return the columns (C,) of a context, none without contexts."""
        if context is None and self.contexts:
            raise InputError(
                f"The bandit has contexts of shape ({self.contexts},), and none is given. Give one."
            )
        seen = np.atleast_1d(
            number_array("columns of the context", [] if context is None else context)
        )
        if seen.shape != (self.contexts,):
            raise InputError(
                f"The context has shape {seen.shape}, and those of the bandit ({self.contexts},). "
                "Give one number for each column, and no context if there are none."
            )
        return seen

    def _checked(self, event: Event) -> Event:
        """Return an event with the value of the objective, if it follows from the components.

        Raises
        ------
        InputError
            If the event isn't one of this bandit.
        """
        seen = self._context(event.context)
        if isinstance(event, Dropped):
            return event
        if isinstance(event, Asked):
            self.space.check(np.array(event.ask))
            return event
        x, observed = np.array(event.tell), np.array(event.components, dtype=float)
        self.space.check(x)
        if len(observed) != self.objective.count:
            raise InputError(
                f"The number of components at {x.tolist()} is {len(observed)}, and that of the "
                f"objective {self.objective.count}. Give one number for each, NaN where it wasn't "
                "observed."
            )
        value = event.value
        if value is None and not np.isnan(observed).any():
            values = self.objective.value(_joined(seen, x[None]), observed[None])
            value = float(number_array("values of the objective", values)[0])
        learned = value is not None if self._values_only else not np.isnan(observed).all()
        if not learned:
            what = "a value" if self._values_only else "components, or use gp-ucb"
            raise InputError(
                f"Nothing was observed at {x.tolist()} that the policy {self.policy} learns from. "
                f"Give {what}."
            )
        return event.model_copy(update={"value": value})

    def _after(self, state: _State, event: Event) -> _State:
        """Return the state after an event.

        Raises
        ------
        InputError
            If a point is dropped that isn't pending, or a round replaced that isn't there, or an
            observation contradicts others without noise.
        """
        if isinstance(event, Asked):
            inputs = np.array([*event.context, *event.ask])
            return state._replace(pending=[*state.pending, inputs], asked=state.asked + 1)
        point = event.drop if isinstance(event, Dropped) else event.tell
        inputs = np.array([*event.context, *point])
        places = [i for i, own in enumerate(state.pending) if np.array_equal(own, inputs)]
        pending = [own for i, own in enumerate(state.pending) if i not in places[:1]]
        if isinstance(event, Dropped):
            if not places:
                raise InputError(f"{point} isn't pending in this context. Drop what was asked for.")
            return state._replace(pending=pending)
        value = math.nan if event.value is None else event.value
        own = Round(
            np.array(point), np.array(event.components, float), value, np.array(event.context)
        )
        if event.number is None:
            rounds = [*state.rounds, own]
            model = self._learned(state, rounds, len(state.rounds))
            return _State(model, rounds, pending, state.asked)
        if event.number > len(state.rounds):
            raise InputError(
                f"The number of rounds is {len(state.rounds)}, and there is no round "
                f"{event.number}. Give the number of one, which tell has returned."
            )
        rounds = [*state.rounds]
        rounds[event.number - 1] = own
        return state._replace(model=self._learned(state, rounds, event.number - 1), rounds=rounds)

    def _learned(self, state: _State, rounds: list[Round], place: int) -> DecomposedPosterior:
        """Return the posterior given rounds, of which one is new or has changed.

        It follows from the rounds alone: those before the last refit decide of hyperparameters.
        """
        own = rounds[place]
        before = state.rounds[place] if place < len(state.rounds) else None
        seen, known = self._observed(own), np.full(len(self._given), np.nan)
        moved = False
        if before is not None:
            known, moved = self._observed(before), not np.array_equal(before.inputs, own.inputs)
        changed = ~((seen == known) | (np.isnan(seen) & np.isnan(known))) | moved
        fitted = 0 if self.refit is None else len(rounds) // self.refit * self.refit
        due = before is None and 0 < fitted == len(rounds)
        redrawn = (changed & (place < fitted)) | due
        added = changed & np.isnan(known) & ~redrawn
        model = copy(state.model)
        if added.any():
            model.observe(own.inputs, np.where(added, seen, np.nan))
        again = np.flatnonzero((changed | redrawn) & ~added).tolist()
        if not again:
            return model
        x = np.array([each.inputs for each in rounds])
        table = np.array([self._observed(each) for each in rounds])
        for j in again:
            y, processes = table[:, j], [draw.process for draw in model.posteriors[j]]
            there = np.flatnonzero(~np.isnan(y[:fitted]))
            if redrawn[j]:
                (process,) = processes = self._given[j]
                assert isinstance(process, GaussianProcess)
                if len(there):
                    processes = [*process.redrawn(x[there], y[there])]
            model.relearn(j, processes, x, y)
        return model

    def _observed(self, own: Round) -> np.ndarray:
        """Return what the policy learns from in a round: the components (J,), or the value."""
        return np.array([own.value]) if self._values_only else own.components


def _joined(seen: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return inputs (m, C + D) of points (m, D) in a context (C,)."""
    if not len(seen):
        return points
    return np.column_stack([np.tile(seen, (len(points), 1)), points])
