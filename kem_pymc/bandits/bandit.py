"""Bandits with decomposed feedback: where to play next, by asking and telling."""

import math
from collections.abc import Callable, Sequence
from importlib.metadata import version
from os import PathLike
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy.special import log_ndtr

from kem_pymc._system.folder import RunFolder
from kem_pymc.bandits.objective import Nonlinear, Weighted
from kem_pymc.bandits.regression import Component, ComposedProcess, DecomposedPosterior
from kem_pymc.bandits.space import Space
from kem_pymc.data.validation import filled, number_array
from kem_pymc.errors import InputError
from kem_pymc.gp.acquisition import log_expected_improvement
from kem_pymc.gp.posterior import Process

#: Policies by name.
PolicyName = Literal["d-gpucb", "gp-ucb", "ei", "mpi", "random"]

Direction = Literal["maximize", "minimize"]

#: Files of a bandit: its options, and its events.
SETTINGS, EVENTS = "bandit.json", "events.jsonl"

#: Improvement, in standard deviations of the observed values, that "mpi" makes the most probable.
LEAST_IMPROVEMENT = 0.01


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
        Probability with which the bound on the regret may fail.
    """
    if points is not None:
        return 2 * math.log(points * components * t**2 * math.pi**2 / (6 * delta))
    a, b = smoothness
    spread = t**2 * dimension * b * width * math.sqrt(math.log(4 * dimension * a / delta))
    first = 2 * math.log(2 * components * t**2 * math.pi**2 / (3 * delta))
    return first + 2 * dimension * math.log(max(spread, 1.0))


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
    objective : Weighted or Nonlinear
    policy : {"d-gpucb", "gp-ucb", "ei", "mpi", "random"}
        "d-gpucb" has the largest upper confidence bound. "gp-ucb", "ei" (expected improvement) and
        "mpi" (most probable improvement) observe the values of the objective only: their process is
        that of the weighted sum, or `whole`.
    whole : GaussianProcess, optional
        Process of the values, which these policies need if the objective isn't a weighted sum or a
        component has draws.
    direction : {"maximize", "minimize"}
    beta : callable, optional
        Returns beta_t for the number of the round; by default that of theorems 7 and 8, see
        :func:`exploration`.
    delta : float
        Probability with which the bound on the regret may fail.
    scale : float
        Factor of beta_t, 1/5 in the paper.
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
        objective: Weighted | Nonlinear,
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
            if value not in choices:
                raise InputError(f"There is no {name} {value!r}. Use one of {', '.join(choices)}.")
        if not (0 < delta < 1 and scale > 0 and math.isfinite(scale) and seed >= 0):
            raise InputError(
                f"delta is {delta}, scale {scale}, and the seed {seed}. Give a delta between 0 and "
                "1, a positive scale, and a seed of 0 or more."
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
        self._values_only = policy in ("gp-ucb", "ei", "mpi")
        if self._values_only:
            process = self._composed(components, whole)
            self.model = DecomposedPosterior([process], Weighted(1), space.points)
        self.rounds: list[Round] = []
        self.pending: list[np.ndarray] = []
        names = ("policy", "direction", "delta", "scale", "seed")
        options = {"space": space.to_dict(), "components": objective.count}
        options |= {name: getattr(self, name) for name in names}
        self._folder = RunFolder(out, "bandit", SETTINGS, options)
        self._log = self._folder.log(EVENTS, _event)
        for event in self._log.events:
            self._apply(event)

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
            self._record({"ask": x.tolist()})
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
            of them were observed. "d-gpucb" doesn't learn from it.

        Warns
        -----
        UserWarning
            If a derivative of a nonlinear objective is beyond its bound.

        Raises
        ------
        InputError
            If the point isn't in the space, nothing was observed that the policy learns from,
            shapes don't match, an observation is infinite, or it contradicts an earlier one without
            noise.
        """
        x = np.atleast_1d(number_array("coordinates of the point", x))
        self.space.check(x)
        count = self.objective.count
        try:
            observed = np.ravel(filled([math.nan] * count if components is None else components))
        except (TypeError, ValueError) as error:
            raise InputError(f"The components aren't numbers: {error}. Give numbers.") from None
        if len(observed) != count:
            raise InputError(
                f"There are {len(observed)} components at {x.tolist()}, and the objective has "
                f"{count}. Give one number for each, NaN where it wasn't observed."
            )
        if np.isinf(observed).any() or (value is not None and not math.isfinite(value)):
            raise InputError(
                f"An observation at {x.tolist()} isn't finite. Give NaN or None for it."
            )
        if value is None and not np.isnan(observed).any():
            value = float(self.objective.value(x[None], observed[None])[0])
        if value is None and np.isnan(observed).all():
            raise InputError(f"Nothing was observed at {x.tolist()}. Give components or a value.")
        if self.policy == "d-gpucb" and np.isnan(observed).all():
            raise InputError(
                "The policy d-gpucb learns from components only. Give those that were observed, or "
                "use gp-ucb, which learns from values."
            )
        if isinstance(self.objective, Nonlinear) and not np.isnan(observed).any():
            self.objective.check(observed)
        plain = [None if math.isnan(y) else float(y) for y in observed]
        self._record({"tell": x.tolist(), "components": plain, "value": value})

    def posterior(self, x: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return posterior means and variances (m,) of the objective at inputs (m, D).

        For a nonlinear objective the variance is the bound of algorithm 4.
        """
        points = number_array("inputs", x)
        return self.model.predict(points[:, None] if points.ndim == 1 else points)

    @property
    def best(self) -> tuple[np.ndarray, float]:
        """The point with the best observed value, and this value.

        Raises
        ------
        InputError
            If no value was observed.
        """
        values = self._sign * self.values
        if not np.isfinite(values).any():
            raise InputError("No value was observed yet. Tell one first.")
        place = int(np.nanargmax(values))
        return self.rounds[place].x, self.rounds[place].value

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
        return self.space.best(self._score, rng)

    def _score(self, x: np.ndarray) -> np.ndarray:
        """Return the scores (m,) of points, which the policy makes as large as possible."""
        at_points = x is self.space.points
        mean, variance = self.model.at_points if at_points else self.model.predict(x)
        mean, sd = self._sign * mean, np.sqrt(variance)
        if self.policy in ("d-gpucb", "gp-ucb"):
            return mean + math.sqrt(self.scale * self._exploration(len(self.rounds) + 1)) * sd
        observed = self._sign * self.values
        observed = observed[np.isfinite(observed)]
        if not len(observed):
            return sd
        if self.policy == "ei":
            return log_expected_improvement(-mean, sd, -float(observed.max()))
        ahead = observed.max() + LEAST_IMPROVEMENT * max(float(observed.std()), 1e-12)
        return log_ndtr((mean - ahead) / np.maximum(sd, 1e-12))

    def _exploration(self, t: int) -> float:
        """Return beta_t, without the factor."""
        if self._beta is not None:
            return self._beta(t)
        points = self.space.points
        general = isinstance(self.objective, Nonlinear) and self.policy == "d-gpucb"
        return exploration(
            t,
            points=None if points is None else len(points),
            components=self.objective.count if general else 1,
            dimension=self.space.dimension,
            width=self.space.width,
            delta=self.delta,
        )

    # --- Events -----------------------------------------------------------------------------------

    def _record(self, event: dict[str, Any]) -> None:
        """Apply an event, and write it if it could be applied."""
        self._apply(event)
        with self._folder.locked():
            self._log.add([event])

    def _apply(self, event: dict[str, Any]) -> None:
        """Bring the state up to date with an event."""
        if "ask" in event:
            self.pending.append(np.array(event["ask"]))
            return
        x = np.array(event["tell"])
        observed = [math.nan if y is None else y for y in event["components"]]
        value = math.nan if event["value"] is None else event["value"]
        self.model.observe(x, [value] if self._values_only else observed)
        self.pending = [asked for asked in self.pending if not np.array_equal(asked, x)]
        self.rounds.append(Round(x, np.array(observed), value))


def _event(data: dict[str, Any]) -> dict[str, Any]:
    """Return what a line of the log contains, if it is a point or observations."""
    if not ("ask" in data or {"tell", "components", "value"} <= set(data)):
        raise ValueError("unknown event")
    return data
