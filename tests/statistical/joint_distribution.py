"""Geweke's joint-distribution test: forward simulation against successive-conditional simulation.

If a move leaves p(state | y) invariant, alternating it with y ~ p(y | state) keeps the joint
distribution, so every statistic has the mean that forward simulation gives it.
"""

import math
from collections.abc import Callable

import numpy as np

from kem_pymc.compiled import compiled
from kem_pymc.evolution.moves.sweep import spare_room
from kem_pymc.evolution.process import log_joint, seat_by_prior, simulate_targets
from kem_pymc.evolution.state import State, Study, empty_state, likelihood_upto


def forward(study: Study, schedule, rng: np.random.Generator) -> State:
    """Draw a state from the prior, with room for moves, and targets to go with it."""
    state = empty_state(study._replace(power=0.0), *spare_room(study, schedule))
    _seat_all(study._replace(power=0.0), state, rng)
    new_targets(study, state, rng)
    return state


@compiled
def _seat_all(study, state, rng):
    for step in range(study.data.ends.shape[1]):
        for user in range(study.data.ends.shape[0]):
            if step < study.data.steps[user]:
                seat_by_prior(study, state, study.first[user] + step, rng)


def new_targets(study: Study, state: State, rng: np.random.Generator) -> None:
    """Replace the study's targets, in place, by a draw given the state."""
    study.data.y[:] = simulate_targets(study, state, rng)
    state.valid[:] = 0
    from_scratch(study, state)
    state.log_density[0] = log_joint(study, state)


@compiled
def from_scratch(study, state):
    """Recompute the log likelihoods of all datasets under their clusters."""
    for d in range(state.assignment.shape[0]):
        likelihood_upto(study, state, state.assignment[d], study.user[d], study.step[d] + 1)


def statistics(study: Study, state: State) -> np.ndarray:
    """Return the statistics that are compared."""
    slots = state.assignment
    included = state.included[slots]
    live = state.live[: state.sizes[0]]
    y = np.log1p(study.data.y**2)
    hyper = []
    for p in range(state.h.shape[1]):
        c = int(np.searchsorted(study.layout.hyper_start, p, side="right")) - 1
        on = state.included[live, c]
        hyper.append(state.h[live, p][on].sum())
    sizes = included.sum(1)
    return np.array(
        [
            state.sizes[0],
            state.used.sum(),
            *(sizes[study.step == t].mean() for t in range(study.data.ends.shape[1])),
            state.log_noise[slots].mean(),
            (state.log_noise[slots] ** 2).mean(),
            *hyper,
            slots[0] == slots[1],
            slots[0] == slots[study.first[1]],
            (state.process[slots] == 0).mean(),
            *(included[:, c].mean() for c in range(included.shape[1])),
            *(included[:, c] @ sizes for c in range(included.shape[1])),
            y[:, 0].mean(),
            y[:, -1].mean(),
            (y.mean((1, 2)) * sizes[study.first]).mean(),
            (state.log_noise[slots] * sizes).mean(),
        ]
    )


def standard_error(draws: np.ndarray, batches: int = 30) -> np.ndarray:
    """Return the standard error of the mean of correlated draws (n, k) by batch means."""
    n = len(draws) // batches * batches
    means = draws[:n].reshape(batches, -1, draws.shape[1]).mean(1)
    return means.std(0, ddof=1) / math.sqrt(batches)


def compare(
    study: Study,
    schedule,
    move: Callable[[Study, State, np.random.Generator], None],
    rng: np.random.Generator,
    *,
    forward_draws: int,
    sweeps: int,
    restart: int | None = None,
) -> np.ndarray:
    """Return the z score of every statistic.

    Parameters
    ----------
    restart : int, optional
        Start again from a forward draw after so many sweeps: for moves that alone don't reach
        every state.
    """
    reference = []
    for _ in range(forward_draws):
        reference.append(statistics(study, forward(study, schedule, rng)))
    reference = np.array(reference)
    state = forward(study, schedule, rng)
    chain = []
    for i in range(sweeps):
        if restart and i % restart == 0:
            state = forward(study, schedule, rng)
        move(study, state, rng)
        new_targets(study, state, rng)
        chain.append(statistics(study, state))
    chain = np.array(chain)
    error = np.hypot(reference.std(0) / math.sqrt(len(reference)), standard_error(chain))
    difference = chain.mean(0) - reference.mean(0)
    return np.where(error > 0, difference / np.maximum(error, 1e-300), 0.0)
