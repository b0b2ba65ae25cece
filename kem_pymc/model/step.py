"""The PyMC step method of evolution models, which applies the compiled sweep to a point."""

from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

import numpy as np
from pymc.model import modelcontext
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import BlockedStep, Competence
from pymc.util import get_value_vars_from_user_vars
from pytensor.graph.traversal import ancestors

from kem_pymc._system.executors import Executor
from kem_pymc.errors import InputError
from kem_pymc.model.engine import UNSET, Engine
from kem_pymc.model.variables import (
    ConcentrationVariable,
    HyperparametersVariable,
    NoiseVariable,
    PopulationVariable,
    StructureVariable,
    TargetsVariable,
)
from kem_pymc.sampler.moves.sweep import (
    Schedule,
    compile_move,
    start,
    sweep,
    uncompiled_moves,
)
from kem_pymc.sampler.state import MOVES, State

OURS = (
    ConcentrationVariable,
    PopulationVariable,
    StructureVariable,
    HyperparametersVariable,
    NoiseVariable,
)
NAMES = ("structure", "hyperparameters", "noise")


def point_names(engine: Engine) -> tuple[str, ...]:
    """Return the names of a model's sampled variables, in the order of the engine's arrays."""
    return (*NAMES, *engine.learned)


class EvolutionStep(BlockedStep):
    """PyMC step method that makes one sweep over all variables of an evolution model.

    A sweep updates assignments, compositions, hyperparameters and noise of all datasets and, if
    they are learned, alpha and population parameters.

    ``pm.sample`` assigns the step to every :class:`kem_pymc.EvolutionModel` automatically. Nothing
    adapts: tuning draws are burn-in. A step depends on the point and the random generator alone.

    Parameters
    ----------
    vars : list of variables
        Variables of the model (or their value variables).
    schedule : Schedule, optional
        Moves of a sweep; by default those of the model.
    model, rng, initial_point, compile_kwargs, blocked
        Arguments that PyMC passes.

    Raises
    ------
    InputError
        If a variable that a sweep changes is fixed in the model, or if another variable or a
        potential depends on one.
    """

    name = "evolution"
    default_blocked = True
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        "log_density": (np.float64, []),
        "n_clusters": (np.int64, []),
        "factorisations": (np.int64, []),
        "failed_factorisations": (np.int64, []),
        **{f"acceptance_{move}": (np.float64, []) for move in MOVES},
    }

    def __init__(
        self,
        vars: Any = None,
        *,
        schedule: Schedule | None = None,
        model: Any = None,
        rng: Any = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict | None = None,
        blocked: bool = True,
    ) -> None:
        model = modelcontext(model)
        given = model.value_vars if vars is None else vars
        self.vars = get_value_vars_from_user_vars(given, model)
        self.engine: Engine = next(
            rv.owner.op.engine for rv in model.free_RVs if isinstance(rv.owner.op, OURS)
        )
        fixed = set(point_names(self.engine)) - {rv.name for rv in model.free_RVs}
        if fixed:
            raise InputError(
                f"{', '.join(sorted(fixed))} is fixed in this model, but a sweep changes it. "
                "Observe the targets only; give a fixed concentration as a number, and fix "
                "population parameters with priors.at."
            )
        _check_nothing_below(model)
        self.schedule = schedule or self.engine.schedule
        self.start_point = initial_point or model.initial_point()
        self.y = _observed_targets(model)
        self.rng = np.random.default_rng(rng)

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict]]:
        """Make one sweep from a point; return the new point and the sampler statistics.

        Raises
        ------
        InputError
            If the point has probability zero.
        """
        names = point_names(self.engine)
        learned = (point[name] for name in names[len(NAMES) :])
        model = self.engine.at(self.engine.with_targets(self.y), *learned)
        if self._is_default(point):
            state = start(model, self.schedule, self.rng)
        else:
            state = self.engine.load(model, *(point[n] for n in NAMES), schedule=self.schedule)
            if not np.isfinite(state.log_density[0]):
                raise InputError(
                    "The point to continue from has probability zero. "
                    "Give initial values within the supports of the priors."
                )
        for counts in (state.factorisations, state.proposed, state.accepted):
            counts[:] = 0
        sweep(model, state, self.schedule, self.rng)
        arrays = self.engine.dump(state, model)
        return {**point, **dict(zip(names, arrays, strict=True))}, [_statistics(state)]

    def _is_default(self, point: dict[str, np.ndarray]) -> bool:
        """Return whether a point is the default one, in place of which the step makes a start.

        Raises
        ------
        InputError
            If only the structure or the noise were given.
        """
        if not (point["hyperparameters"] == UNSET).all():
            return False
        default = dict(zip(NAMES, self.engine.simplest(), strict=True))
        for name in ("structure", "noise"):
            if not np.array_equal(point[name], default[name], equal_nan=True):
                raise InputError(
                    f"Initial values were given for {name}, but not for hyperparameters. "
                    f"Give values for all of {', '.join(NAMES)}, or for none."
                )
        return True

    def compile(self, executor: Executor) -> None:
        """Compile all functions that a draw calls, on workers; the step isn't changed."""
        model, rng = self.engine.at(self.engine.with_targets(self.y)), np.random.default_rng(0)
        start(model, self.schedule, rng)  # compiles the functions that all moves share
        moves = uncompiled_moves(model, self.schedule)
        if executor.cores > 1 and len(moves) > 1:
            for _ in executor.map_unordered(partial(_compile_move, self), moves):
                pass
        generator, self.rng = self.rng, rng
        self.step(self.start_point)
        self.rng = generator

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:  # noqa: ARG004
        """Return IDEAL for the variables of an evolution model, INCOMPATIBLE for all others."""
        owner = getattr(var, "owner", None)
        ours = owner is not None and isinstance(owner.op, OURS)
        return Competence.IDEAL if ours else Competence.INCOMPATIBLE


def _compile_move(step: EvolutionStep, name: str) -> None:
    model = step.engine.at(step.engine.with_targets(step.y))
    # This process also compiles moves that are missing in the cache, so it raises any error.
    with suppress(Exception):
        compile_move(model, step.schedule, name)


def _check_nothing_below(model: Any) -> None:
    """Check that no other variable depends on those that a sweep changes, as it would be ignored.

    Raises
    ------
    InputError
        If a variable or a potential does.
    """
    ours = {rv for rv in model.free_RVs if isinstance(rv.owner.op, OURS)}
    others = [rv for rv in model.basic_RVs if not isinstance(rv.owner.op, (*OURS, TargetsVariable))]
    for other in (*others, *model.potentials):
        above = ours & set(ancestors([other]))
        if above:
            raise InputError(
                f"{other.name} depends on {min(rv.name for rv in above)}, but a sweep would "
                "ignore this. Put information about a parameter into its prior instead."
            )


def _observed_targets(model: Any) -> np.ndarray:
    """Return the observed targets (U, T, n), also of a model made by ``pm.observe``."""
    observed = next(rv for rv in model.observed_RVs if isinstance(rv.owner.op, TargetsVariable))
    return np.asarray(model.rvs_to_values[observed].eval(), dtype=np.float64)


def _statistics(state: State) -> dict[str, Any]:
    rates = state.accepted / np.maximum(state.proposed, 1)
    return {
        "log_density": float(state.log_density[0]),
        "n_clusters": int(state.sizes[0]),
        "factorisations": int(state.factorisations[0]),
        "failed_factorisations": int(state.factorisations[1]),
        **{
            f"acceptance_{move}": float(rate) if n else np.nan
            for move, rate, n in zip(MOVES, rates, state.proposed, strict=True)
        },
    }


if EvolutionStep not in STEP_METHODS:
    STEP_METHODS.append(EvolutionStep)
