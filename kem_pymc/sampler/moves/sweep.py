"""Make a sweep of the sampler: all moves in turn, for either target, as a schedule specifies.

Under `cut`, processes are updated by levels, in order of the time step of their first member. After
each level the parents of later time steps are updated, so that a process makes its moves after the
processes that determine its first members. The moves in between correct for the influence that a
former member had on its process, and for the influence that a new member hasn't had yet.
"""

import math
from typing import NamedTuple

import numba
import numpy as np
from numba.np.random.random_methods import random_interval

from kem_pymc._system.jit.cache import is_cached
from kem_pymc._system.jit.decorators import compiled
from kem_pymc.sampler.joint_density import log_joint
from kem_pymc.sampler.moves.composition import Odds
from kem_pymc.sampler.moves.concentration import redraw_concentration
from kem_pymc.sampler.moves.extension import extend_or_contract
from kem_pymc.sampler.moves.local import local_step
from kem_pymc.sampler.moves.path import redraw_path
from kem_pymc.sampler.moves.population import redraw_population
from kem_pymc.sampler.moves.refit import refit_composition
from kem_pymc.sampler.moves.seating import assign_all, gibbs_reassign, update_parents
from kem_pymc.sampler.moves.split_merge import split_or_merge
from kem_pymc.sampler.state import CompiledModel, State, empty_state, pick


class Schedule(NamedTuple):
    """Moves of a sweep: the number of proposals of each, and their settings.

    Attributes
    ----------
    joint : bool
        Whether the sweep is for the `joint` target; otherwise it is for `cut`.
    seating : int
        Number of passes of cluster assignment over all datasets within their processes (cut).
    n_mh : int
        Number of Metropolis-Hastings steps per cluster.
    odds : Odds
        Probabilities that such a step changes the composition; otherwise it is a random walk.
    walk : float
        Standard deviation of a random walk of all coordinates at once. If 0, every step moves one
        coordinate or all of them, at a random scale.
    extensions : int
        Number of proposals to add or remove a factor of a candidate, each for a random cluster.
    refits : int
        Number of proposals of a composition with fitted values, each for the cluster of a random
        dataset. Short datasets are more probable.
    auxiliaries : int
        Number of auxiliary clusters of a cluster assignment (cut).
    split_merge : int
        Number of proposals to split or merge clusters.
    particles : int
        Number of particles of a path update (joint).
    check : bool
        Whether to compare the running log density with one from scratch after every move.
    """

    joint: bool
    seating: int
    n_mh: int
    odds: Odds
    walk: float
    extensions: int
    refits: int
    auxiliaries: int
    split_merge: int
    particles: int
    check: bool


#: The paper's schedule (10.2.4, 10.3.3), with its random walk for inputs that aren't scaled; for
#: inputs scaled to [0, 1] the paper uses a standard deviation of 0.05.
PAPER = Schedule(
    joint=False,
    seating=10,
    n_mh=100,
    odds=Odds(add=0.2, remove=0.4, swap=0.0, edge=0.5),
    walk=0.1,
    extensions=0,
    refits=0,
    auxiliaries=3,
    split_merge=0,
    particles=0,
    check=False,
)

#: The default for `cut`: fewer proposals of the same moves, and swaps, refits, splits and merges.
CUT = PAPER._replace(
    seating=2,
    n_mh=20,
    odds=Odds(add=0.2, remove=0.2, swap=0.1, edge=0.5),
    walk=0.0,
    refits=10,
    split_merge=10,
)

#: The default for `joint`: a path update of every user, and steps on components of clusters. Swaps
#: don't pay, because extensions propose similar changes.
JOINT = CUT._replace(
    joint=True,
    seating=0,
    n_mh=10,
    odds=Odds(add=0.25, remove=0.25, swap=0.0, edge=0.55),
    extensions=30,
    refits=0,
    split_merge=30,
    particles=8,
)


#: Level that stands for all processes.
EVERYWHERE = -1


def spare_room(model: CompiledModel, schedule: Schedule) -> tuple[int, int]:
    """Return the numbers of spare clusters and processes that moves of a schedule need at most."""
    n_steps = int(model.data.ends.shape[1])
    if not schedule.joint:
        # Processes without members stay open until the parents of all time steps are updated.
        return schedule.auxiliaries + 24, len(model.user)
    dps = 1 + schedule.particles * n_steps
    return dps * n_steps + 24, dps + n_steps + 2


def uncompiled_moves(model: CompiledModel, schedule: Schedule) -> list[str]:
    """Return the names of the functions of a sweep that aren't in the cache, the largest first."""
    calls = {
        _change_clusters: True,
        _change_paths: schedule.joint,
        _refit: schedule.refits > 0,
        _gibbs_reassign: schedule.seating > 0,
        _extend: schedule.extensions > 0,
        _update_parents: not schedule.joint,
    }
    signature = _signature(model, schedule)
    return [f.__name__ for f, called in calls.items() if called and not is_cached(f, signature)]


def compile_move(model: CompiledModel, schedule: Schedule, name: str) -> None:
    """Compile one of the functions that :func:`uncompiled_moves` names."""
    globals()[name].entry.compile(_signature(model, schedule))


def _signature(model: CompiledModel, schedule: Schedule) -> tuple:
    """Return the types of the arguments of the functions that make moves."""
    arguments = model, empty_state(model, 0, 0), schedule, EVERYWHERE, np.random.default_rng(0)
    return tuple(numba.typeof(argument) for argument in arguments)


def sweep(model: CompiledModel, state: State, schedule: Schedule, rng: np.random.Generator) -> None:
    """Make one sweep, changing the state and the model's population parameters in place.

    Under `cut`, moves within every process leave its mixture posterior invariant given its
    members; the parents of later time steps are updated after every level. Under `joint`, every
    move leaves the joint density invariant.

    Raises
    ------
    RuntimeError
        If `schedule.check` is set and the running log density differs from the exact one.
    """
    if schedule.joint:
        _change_paths(model, state, schedule, EVERYWHERE, rng)
        within_dps(model, state, schedule, EVERYWHERE, rng)
    else:
        for level in range(model.data.ends.shape[1]):
            within_dps(model, state, schedule, level, rng)
            _update_parents(model, state, schedule, level, rng)
    redraw_shared(model, state, schedule, rng)


def within_dps(
    model: CompiledModel, state: State, schedule: Schedule, level: int, rng: np.random.Generator
) -> None:
    """Make the moves of a sweep that keep every dataset in its process.

    (Under `joint` they may move all datasets of a component to another process.) Moves that the
    schedule doesn't contain are never called, so they aren't compiled.

    Parameters
    ----------
    level : int
        Time step at which the processes to be updated begin; `EVERYWHERE` for all processes.
    """
    if schedule.seating > 0:
        _gibbs_reassign(model, state, schedule, level, rng)
    _change_clusters(model, state, schedule, level, rng)
    if schedule.extensions > 0:
        _extend(model, state, schedule, level, rng)
    if schedule.refits > 0:
        _refit(model, state, schedule, level, rng)


def redraw_shared(
    model: CompiledModel, state: State, schedule: Schedule, rng: np.random.Generator
) -> None:
    """Redraw the parameters that all clusters share, if they are learned."""
    if model.concentration_shape > 0.0:
        redraw_concentration(model, state, rng)
        _verify(model, state, schedule)
    if len(model.priors.population) > 0:
        redraw_population(model, state, rng)
        _verify(model, state, schedule)


@compiled
def at_level(model, state, level):
    """Return the indicators (P,) of the processes that begin at a time step."""
    if level == EVERYWHERE:
        return np.ones(state.used.shape[0], dtype=np.bool_)
    begins = np.full(state.used.shape[0], -1)
    for d in range(state.assignment.shape[0]):
        dp = state.dp[state.assignment[d]]
        if begins[dp] < 0 or model.time_step[d] < begins[dp]:
            begins[dp] = model.time_step[d]
    return begins == level


@compiled
def permutation(n, rng):
    """Return the permutation of n numbers that ``rng.permutation(n)`` would.

    Numba's own moves axes of arrays of any dimension, which takes 8 s to compile.
    """
    order = np.empty(n, dtype=np.int64)
    for i in range(n):
        order[i] = i
    for i in range(n - 1, 0, -1):
        j = int(random_interval(rng.bit_generator, i))
        order[i], order[j] = order[j], order[i]
    return order


# The functions that make moves have the same arguments, as `_signature` requires.


@compiled
def _change_paths(model, state, schedule, level, rng):  # noqa: ARG001
    for user in permutation(model.first_dataset.shape[0], rng):
        redraw_path(model, state, user, schedule.particles, rng)
        _verify(model, state, schedule)


@compiled
def _gibbs_reassign(model, state, schedule, level, rng):
    chosen = at_level(model, state, level)
    for _ in range(schedule.seating):
        for dataset in permutation(model.user.shape[0], rng):
            if chosen[state.dp[state.assignment[dataset]]]:
                gibbs_reassign(model, state, dataset, schedule.auxiliaries, rng)
                _verify(model, state, schedule)


@compiled
def _change_clusters(model, state, schedule, level, rng):
    chosen = at_level(model, state, level)
    for _ in range(schedule.split_merge):
        dataset = int(rng.random() * model.user.shape[0])
        if chosen[state.dp[state.assignment[dataset]]]:
            split_or_merge(model, state, dataset, rng)
            _verify(model, state, schedule)
    # The set of occupied clusters doesn't change in this loop, so a copy of the list stays valid.
    for cluster in state.live[: state.sizes[0]].copy():
        if not chosen[state.dp[cluster]]:
            continue
        for _ in range(schedule.n_mh):
            local_step(model, state, cluster, schedule.joint, schedule.odds, schedule.walk, rng)
            _verify(model, state, schedule)


@compiled
def _extend(model, state, schedule, level, rng):
    chosen = at_level(model, state, level)
    for _ in range(schedule.extensions):
        cluster = state.live[int(rng.random() * state.sizes[0])]
        if chosen[state.dp[cluster]]:
            extend_or_contract(model, state, cluster, schedule.joint, rng)
            _verify(model, state, schedule)


@compiled
def _refit(model, state, schedule, level, rng):
    chosen = at_level(model, state, level)
    for _ in range(schedule.refits):
        cluster = state.assignment[short_dataset(model, state, rng)]
        if chosen[state.dp[cluster]]:
            refit_composition(model, state, cluster, schedule.joint, schedule.odds, rng)
            _verify(model, state, schedule)


@compiled
def _update_parents(model, state, schedule, level, rng):
    # Processes that begin at time step `level` determine the parents of all later time steps.
    update_parents(model, state, schedule.auxiliaries, level + 1, rng)
    _verify(model, state, schedule)


#: Number of datasets above which a cluster is refitted less often.
MANY = 20


@compiled
def short_dataset(model, state, rng):
    """Draw a dataset, for whose cluster a refit is then proposed.

    Its probability is proportional to 1 / (number of points)^2. Drawing a dataset favours clusters
    with many datasets; the composition of a cluster with few changes easily without a fit. Short
    datasets are favoured because several compositions are about equally good for them, with
    different values, and because their fits cost least. Datasets in a cluster of more than `MANY`,
    which seldom has two good compositions, have a lower probability, so that refits of the cluster
    take as much time as those of a cluster of `MANY`.
    """
    log_weights = np.empty(model.user.shape[0])
    for d in range(log_weights.shape[0]):
        crowd = max(1.0, state.occupants[state.assignment[d]] / MANY)
        points = model.data.ends[model.user[d], model.time_step[d]]
        log_weights[d] = -2.0 * math.log(crowd * points)
    return pick(log_weights, log_weights.shape[0], rng)


@compiled
def _verify(model, state, schedule):
    if schedule.check:
        check_density(model, state)


@compiled
def check_density(model, state):
    """Compare the running log density with the one computed from scratch.

    Raises
    ------
    RuntimeError
        If they differ by more than 1e-8 (1 + |exact value|).
    """
    exact, running = log_joint(model, state), state.log_density[0]
    if not abs(exact - running) <= 1e-8 * (1 + abs(exact)):
        raise RuntimeError(
            "The running log density isn't the exact one. "
            "A move doesn't account for what it changes."
        )


def start(model: CompiledModel, schedule: Schedule, rng: np.random.Generator) -> State:
    """Return a state from which to sample, by assigning datasets to clusters one after the other.

    Each dataset is assigned either to one of the present clusters or to one of 20 clusters drawn
    from the prior.
    """
    state = empty_state(model, *spare_room(model, schedule._replace(auxiliaries=20)))
    assign_all(model, state, 20, rng)
    return state
