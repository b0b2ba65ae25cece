"""A sweep: the moves in turn, for either target, by a schedule that is data.

Under `cut` processes have their turn in order of the time step at which they begin, that of their
first member. After each of these levels memberships are handed forward, so that a process makes its
moves after those that decide on its first members. What a member that left said about its former
process, and what one that came didn't say yet, is forgotten by the moves in between.
"""

import math
from typing import NamedTuple

import numpy as np

from kem_pymc.code_cache import compile_side_by_side
from kem_pymc.compiled import compiled
from kem_pymc.evolution.moves.composition import Odds
from kem_pymc.evolution.moves.concentration import redraw_concentration
from kem_pymc.evolution.moves.extension import extend_or_contract
from kem_pymc.evolution.moves.local import local_step
from kem_pymc.evolution.moves.path import redraw_path
from kem_pymc.evolution.moves.path_split_merge import split_or_merge_paths
from kem_pymc.evolution.moves.population import redraw_population
from kem_pymc.evolution.moves.refit import refit_composition
from kem_pymc.evolution.moves.seating import hand_forward, reseat, seat_everyone
from kem_pymc.evolution.moves.split_merge import split_or_merge
from kem_pymc.evolution.process import log_joint
from kem_pymc.evolution.state import State, Study, empty_state, pick


class Schedule(NamedTuple):
    """How much of every move a sweep makes.

    Attributes
    ----------
    joint : bool
        Which target the sweep leaves invariant.
    seating : int
        Passes over all datasets within their processes (cut).
    steps : int
        Metropolis-Hastings steps per cluster.
    p_add, p_remove, p_swap : float
        Probabilities that such a step changes the composition; it walks otherwise.
    p_edge : float
        Probability that it adds to an empty composition, or removes from a full one.
    walk : float
        Standard deviation of a random walk of all coordinates at once; with 0 every step is of one
        coordinate or all, at a random scale.
    extensions : int
        Proposals of a factor more or less for a candidate, for a random cluster.
    refits : int
        Proposals of a composition with fitted values, for the cluster of a random, short dataset.
    auxiliaries : int
        Auxiliary clusters of a seating (cut).
    split_merge : int
        Proposals to split or merge clusters.
    path_split_merge : int
        Proposals to split or merge paths (joint).
    particles : int
        Particles of a path update (joint).
    heating : int
        Sweeps at the start of a chain under a power of the likelihood that rises to its own.
    check : bool
        Whether to compare the running log density with one from scratch after every move.
    """

    joint: bool
    seating: int
    steps: int
    p_add: float
    p_remove: float
    p_swap: float
    p_edge: float
    walk: float
    extensions: int
    refits: int
    auxiliaries: int
    split_merge: int
    path_split_merge: int
    particles: int
    heating: int
    check: bool


#: The paper's schedule (10.2.4, 10.3.3), with its step for inputs that aren't scaled; the one for
#: inputs scaled to [0, 1] is 0.05.
PAPER = Schedule(
    joint=False,
    seating=10,
    steps=100,
    p_add=0.2,
    p_remove=0.4,
    p_swap=0.0,
    p_edge=0.5,
    walk=0.1,
    extensions=0,
    refits=0,
    auxiliaries=3,
    split_merge=0,
    path_split_merge=0,
    particles=0,
    heating=0,
    check=False,
)

#: The default for `cut`: less of each of the same moves, with swaps, refits, splits and merges.
CUT = PAPER._replace(
    seating=2,
    steps=20,
    p_add=0.2,
    p_remove=0.2,
    p_swap=0.1,
    walk=0.0,
    refits=10,
    split_merge=10,
)

#: The default for `joint`: a path update of every user, splits and merges of paths, and steps on
#: components of clusters.
JOINT = CUT._replace(
    joint=True,
    seating=0,
    steps=10,
    p_add=0.25,
    p_remove=0.25,
    p_swap=0.05,
    p_edge=0.55,
    extensions=30,
    refits=0,
    split_merge=30,
    path_split_merge=200,
    particles=8,
    heating=3000,
)


#: The level of all processes.
EVERYWHERE = -1


def spare_room(study: Study, schedule: Schedule) -> tuple[int, int]:
    """Return how many spare slots and processes the moves of a schedule can ask for at once."""
    steps = int(study.data.ends.shape[1])
    if not schedule.joint:
        # Processes that everyone left stay open until all memberships are handed forward.
        return schedule.auxiliaries + 24, len(study.user)
    processes = 1 + schedule.particles * steps
    return processes * steps + 24, processes + steps + 2


def compile_moves(study: Study, schedule: Schedule, cores: int) -> None:
    """Compile what a sweep calls and isn't in the cache yet, on several cores."""
    state = empty_state(study, 0, 0)
    calls = {  # the largest first, in turn to every core
        _change_clusters: True,
        _change_paths: schedule.joint,
        _refit: schedule.refits > 0,
        _reseat_everyone: schedule.seating > 0,
        _extend: schedule.extensions > 0,
        _hand_forward: not schedule.joint,
    }
    functions = [function for function, called in calls.items() if called]
    arguments = study, state, schedule, EVERYWHERE, np.random.default_rng(0)
    compile_side_by_side(functions, arguments, cores)


def sweep(study: Study, state: State, schedule: Schedule, rng: np.random.Generator) -> None:
    """Make one sweep, in place; the study's population parameters change as well.

    Under `cut`, moves within every process leave its mixture posterior invariant given its
    members; memberships are handed forward after every level. Under `joint`, every move leaves the
    joint density invariant.

    Raises
    ------
    RuntimeError
        If `schedule.check` is set and the running log density leaves the exact one.
    """
    if schedule.joint:
        _change_paths(study, state, schedule, EVERYWHERE, rng)
        within_processes(study, state, schedule, EVERYWHERE, rng)
    else:
        for level in range(study.data.ends.shape[1]):
            within_processes(study, state, schedule, level, rng)
            _hand_forward(study, state, schedule, level, rng)
    redraw_shared(study, state, schedule, rng)


def within_processes(
    study: Study, state: State, schedule: Schedule, level: int, rng: np.random.Generator
) -> None:
    """Make the moves of a sweep that leave every dataset in the process it belongs to.

    (Under `joint` they may bring all datasets of a component to another process.) Moves that the
    schedule doesn't make are never called, and so not even compiled.

    Parameters
    ----------
    level : int
        The time step at which processes begin that make moves; `EVERYWHERE` for all of them.
    """
    if schedule.seating > 0:
        _reseat_everyone(study, state, schedule, level, rng)
    _change_clusters(study, state, schedule, level, rng)
    if schedule.extensions > 0:
        _extend(study, state, schedule, level, rng)
    if schedule.refits > 0:
        _refit(study, state, schedule, level, rng)


def redraw_shared(study: Study, state: State, schedule: Schedule, rng: np.random.Generator) -> None:
    """Redraw what all clusters share, where it is learned."""
    if study.concentration_shape > 0.0:
        redraw_concentration(study, state, rng)
        _look(study, state, schedule)
    if len(study.priors.population) > 0:
        redraw_population(study, state, rng)
        _look(study, state, schedule)


@compiled
def at_level(study, state, level):
    """Return which processes begin at a time step (P,) bool."""
    if level == EVERYWHERE:
        return np.ones(state.used.shape[0], dtype=np.bool_)
    first = np.full(state.used.shape[0], -1)
    for d in range(state.assignment.shape[0]):
        process = state.process[state.assignment[d]]
        if first[process] < 0 or study.step[d] < first[process]:
            first[process] = study.step[d]
    return first == level


# All moves have the same arguments, for `compile_moves`.


@compiled
def _change_paths(study, state, schedule, level, rng):  # noqa: ARG001
    for user in rng.permutation(study.first.shape[0]):
        redraw_path(study, state, user, schedule.particles, rng)
        _look(study, state, schedule)
    for _ in range(schedule.path_split_merge):
        split_or_merge_paths(study, state, rng)
        _look(study, state, schedule)


@compiled
def _reseat_everyone(study, state, schedule, level, rng):
    chosen = at_level(study, state, level)
    n = study.user.shape[0]
    for _ in range(schedule.seating):
        order = rng.permutation(n)
        for k in range(n):
            if chosen[state.process[state.assignment[order[k]]]]:
                reseat(study, state, order[k : k + 1], schedule.auxiliaries, rng)
                _look(study, state, schedule)


@compiled
def _odds(schedule):
    return Odds(schedule.p_add, schedule.p_remove, schedule.p_swap, schedule.p_edge)


@compiled
def _change_clusters(study, state, schedule, level, rng):
    chosen = at_level(study, state, level)
    odds = _odds(schedule)
    for _ in range(schedule.split_merge):
        dataset = int(rng.random() * study.user.shape[0])
        if chosen[state.process[state.assignment[dataset]]]:
            split_or_merge(study, state, dataset, rng)
            _look(study, state, schedule)
    # Which clusters are live doesn't change here, so a copy of the list stays right.
    for slot in state.live[: state.sizes[0]].copy():
        if not chosen[state.process[slot]]:
            continue
        for _ in range(schedule.steps):
            local_step(study, state, slot, schedule.joint, odds, schedule.walk, rng)
            _look(study, state, schedule)


@compiled
def _extend(study, state, schedule, level, rng):
    chosen = at_level(study, state, level)
    for _ in range(schedule.extensions):
        slot = state.live[int(rng.random() * state.sizes[0])]
        if chosen[state.process[slot]]:
            extend_or_contract(study, state, slot, schedule.joint, rng)
            _look(study, state, schedule)


@compiled
def _refit(study, state, schedule, level, rng):
    chosen = at_level(study, state, level)
    odds = _odds(schedule)
    for _ in range(schedule.refits):
        slot = state.assignment[short_dataset(study, state, rng)]
        if chosen[state.process[slot]]:
            refit_composition(study, state, slot, schedule.joint, odds, rng)
            _look(study, state, schedule)


@compiled
def _hand_forward(study, state, schedule, level, rng):
    # Processes that begin at a time step decide on compositions from there on.
    hand_forward(study, state, schedule.auxiliaries, level + 1, rng)
    _look(study, state, schedule)


#: The likelihood's power at the beginning of a chain that is heated, and how many it takes from
#: there to its own, in equal ratios.
LOWEST_POWER, POWERS = 0.1, 25


def heat(
    study: Study, state: State, schedule: Schedule, first: int, last: int, rng: np.random.Generator
) -> None:
    """Make sweeps `first` to ``last - 1`` of the heating, in place.

    Under a low power users share few clusters, which part as the data begin to tell them apart. So
    chains arrive at the same grouping more often than where clusters have to be found to be equal.
    """
    powers = study.power * np.geomspace(LOWEST_POWER, 1.0, POWERS, endpoint=False)
    for k in range(first, last):
        heated = study._replace(power=float(powers[k * POWERS // schedule.heating]))
        if k == first or k * POWERS % schedule.heating < POWERS:
            state.log_density[0] = log_joint(heated, state)
        sweep(heated, state, schedule, rng)
    state.log_density[0] = log_joint(study, state)


#: Datasets of a cluster above which it is refitted less often.
MANY = 20


@compiled
def short_dataset(study, state, rng):
    """Return a dataset to whose cluster a refit is proposed.

    Its probability is proportional to 1 / (number of points)^2. A dataset drawn at random leads to
    a cluster with many more often than to one with few, whose composition changes easily without a
    fit. Short ones are where several compositions are about equally good and need other values; and
    their fits cost least. A cluster with more datasets than `MANY`, which seldom has two good
    compositions, gets as much time as one of `MANY`.
    """
    log_weights = np.empty(study.user.shape[0])
    for d in range(log_weights.shape[0]):
        crowd = max(1.0, state.occupants[state.assignment[d]] / MANY)
        points = study.data.ends[study.user[d], study.step[d]]
        log_weights[d] = -2.0 * math.log(crowd * points)
    return pick(log_weights, log_weights.shape[0], rng)


@compiled
def _look(study, state, schedule):
    if schedule.check:
        check_density(study, state)


@compiled
def check_density(study, state):
    """Compare the running log density with the one computed from scratch.

    Raises
    ------
    RuntimeError
        If they differ by more than 1e-8, relative to their size where that is above one.
    """
    exact, running = log_joint(study, state), state.log_density[0]
    if not abs(exact - running) <= 1e-8 * (1 + abs(exact)):
        raise RuntimeError(
            "The running log density isn't the exact one. "
            "A move doesn't account for what it changes."
        )


def start(study: Study, schedule: Schedule, rng: np.random.Generator) -> State:
    """Return a state from which to sample: datasets seated one after the other, then settled.

    Each new dataset chooses between the clusters that are there and many draws from the prior.
    """
    state = empty_state(study, *spare_room(study, schedule._replace(auxiliaries=20)))
    seat_everyone(study, state, 20, rng)
    return state
