"""Geweke's joint-distribution test: forward simulation against successive-conditional simulation.

If a move leaves p(state | y) invariant, alternating it with y ~ p(y | state) keeps the joint
distribution, so every statistic has the mean that forward simulation gives it (Geweke 2004,
Getting it right). A move that alone doesn't reach every state starts again from forward draws.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pymc as pm
from scipy import stats

from kem_pymc import priors
from kem_pymc._system.jit.decorators import compiled
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.concentration import Concentration
from kem_pymc.model.engine import Engine
from kem_pymc.model.shared_functions import KnownByUser
from kem_pymc.sampler.joint_density import (
    draw_concentration,
    draw_population,
    log_joint,
    simulate_targets,
)
from kem_pymc.sampler.moves.sweep import JOINT, Schedule, spare_room
from kem_pymc.sampler.state import (
    CompiledModel,
    State,
    allocate_cluster,
    attach,
    dp_above,
    dp_of_parent,
    draw_kernel,
    empty_state,
    free_cluster,
    likelihood_upto,
    pick,
)
from tests.tiny_study import CONCENTRATION, make_cohort

CANDIDATES = ("LIN0", "SE0", "LIN0 x PER0")

#: Priors under which compositions of every size are common.
TABLE = priors.synthetic().replace(
    amplitude=pm.LogNormal.dist(0, 1),
    lengthscale=pm.LogNormal.dist(0.2, 1),
    shift=pm.Normal.dist(0.5, 1),
    noise=priors.noise_by_size((1, 0.3, -0.5), (0.5, 0.7, 1)),
    enter={"base kernel": 0.3, "interaction": 0.2},
    stay=0.75,
)

#: Batches whose means give the standard error of a chain.
BATCHES = 50

Move = Callable[[CompiledModel, State, np.random.Generator], object]


class SharedFunction:
    """A mean function whose covariance has full rank; it and the noise change along the input."""

    def mean(self, x: np.ndarray) -> np.ndarray:
        return np.sin(2 * x[:, 0])

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return (1 + x[:, 0])[:, None] * np.exp(-np.abs(x - z.T)) * (1 + z[:, 0])

    def noise_factors(self, x: np.ndarray) -> np.ndarray:
        return 0.2 + 2 * x[:, 0] ** 2


class Setting(NamedTuple):
    """What is compared.

    Attributes
    ----------
    model : CompiledModel
    parents : (N, C) bool
        Fixed parent composition of each dataset, where memberships are; empty otherwise.
    schedule : Schedule
        What there has to be room for.
    """

    model: CompiledModel
    parents: np.ndarray
    schedule: Schedule


def make_setting(
    ends=((2, 4, 6), (2, 4), (1, 3, 6)),
    parents: np.ndarray | None = None,
    schedule: Schedule = JOINT,
    power: float = 1.0,
    concentration: float | Concentration = CONCENTRATION,
    table: priors.Priors = TABLE,
    sequential: bool = False,
    known: bool = False,
) -> Setting:
    """Return a small study in which compositions of every size are common."""
    pool = CandidatePool(list(CANDIDATES))
    cohort, fixed = make_cohort(ends), None
    if known:
        own = tuple(np.linspace(0.0, 1.0, len(y)) for y in cohort.targets)
        fixed = KnownByUser.at([SharedFunction()] * len(ends), replace(cohort, noise=own))
    options = {"sequential": sequential, "known_by_user": fixed}
    engine = Engine(cohort, pool, table, concentration, power, **options)
    model = engine.model
    # Under the cumulative likelihood targets are drawn independently by time step, so a dataset
    # doesn't begin with the one before.
    model = model._replace(data=model.data._replace(nested=sequential))
    if parents is None:
        parents = np.zeros((0, len(pool)), dtype=np.bool_)
    return Setting(model, parents, schedule)


@compiled
def _seat_forward(model, state, parents, rng):
    """Seat all datasets by the prior: by their user's path, or in processes that are given."""
    draw_concentration(model, state, rng)
    draw_population(model, state, rng)
    clusters = np.empty(state.live.shape[0], dtype=np.int64)
    log_weights = np.empty(state.live.shape[0])
    for step in range(model.data.ends.shape[1]):
        for user in range(model.data.ends.shape[0]):
            if step >= model.data.n_steps[user]:
                continue
            dataset = model.first_dataset[user] + step
            if parents.shape[0] > 0:
                dp = dp_of_parent(state, parents[dataset])
            else:
                dp = dp_above(model, state, dataset)
            n = 0
            for k in range(state.sizes[0]):
                if state.dp[state.live[k]] == dp:
                    clusters[n] = state.live[k]
                    log_weights[n] = math.log(state.occupants[clusters[n]])
                    n += 1
            clusters[n] = allocate_cluster(state)
            log_weights[n] = math.log(state.concentration[0])
            draw_kernel(model, state, dp, clusters[n], rng)
            chosen = pick(log_weights, n + 1, rng)
            if chosen < n:
                free_cluster(state, clusters[n])
            attach(model, state, dataset, clusters[chosen])


@compiled
def _refresh(model, state, rng, out):
    """Replace the targets, in place, by a draw given the state; write the statistics."""
    model.data.y[:] = simulate_targets(model, state, rng)
    state.valid[:] = 0
    for d in range(state.assignment.shape[0]):
        likelihood_upto(model, state, state.assignment[d], model.user[d], model.time_step[d] + 1)
    state.log_density[0] = log_joint(model, state)
    write_statistics(model, state, out)


def forward(setting: Setting, rng: np.random.Generator, out: np.ndarray) -> State:
    """Return a state from the prior, with targets to go with it, and write its statistics."""
    model = setting.model
    prior = model._replace(power=0.0)
    state = empty_state(prior, *spare_room(model, setting.schedule))
    _seat_forward(prior, state, setting.parents, rng)
    _refresh(model, state, rng, out)
    return state


def statistic_names(model: CompiledModel) -> list[str]:
    """Return the names of the statistics, in their order."""
    candidates = range(len(CANDIDATES))
    hyper = range(len(model.layout.positive))
    return [
        *("clusters", "parents", "same cluster: one user", "same cluster: two users"),
        *("noise", "noise squared", "noise x size", "members of the root"),
        *("noise x size of the parent", "agreement with the parent"),
        *(f"size at step {t}" for t in range(model.data.ends.shape[1])),
        *(f"inclusion {c}" for c in candidates),
        *(f"inclusion {c} x size" for c in candidates),
        *(f"stays {c}" for c in candidates),
        *(f"hyperparameter {p}" for p in hyper),
        *(f"hyperparameter {p} squared" for p in hyper),
        *("first target", "last target", "targets x size", "product of targets"),
        *("concentration", "log concentration", "concentration x clusters"),
        *(f"population {i}" for i in range(len(model.priors.population))),
        *(f"population {i} squared" for i in range(len(model.priors.population))),
        *(f"population {i} x noise" for i in range(len(model.priors.population))),
        *(f"population {i} x hyperparameters" for i in range(len(model.priors.population))),
    ]


@compiled
def write_statistics(model, state, out):
    """Write what is compared, in the order of `statistic_names`."""
    n, candidates = state.assignment.shape[0], state.included.shape[1]
    hyper, steps = state.theta_unconstrained.shape[1], model.data.ends.shape[1]
    sizes, noise, y = 10, 10 + steps, model.data.y
    values = noise + 3 * candidates
    targets = values + 2 * hyper
    out[:] = 0.0
    out[0] = state.sizes[0]
    for p in range(state.used.shape[0]):
        out[1] += state.used[p] and state.members[p] > 0
    out[2] = state.assignment[0] == state.assignment[1]
    out[3] = state.assignment[0] == state.assignment[model.first_dataset[1]]
    datasets_at = np.zeros(steps)
    for d in range(n):
        datasets_at[model.time_step[d]] += 1.0
    for d in range(n):
        cluster, user, step = state.assignment[d], model.user[d], model.time_step[d]
        included, log_noise = state.included[cluster], state.log_noise[cluster]
        parent = state.parent[state.dp[cluster]]
        size = float(np.sum(included))
        out[4] += log_noise / n
        out[5] += log_noise * log_noise / n
        out[6] += log_noise * size / n
        out[7] += (np.sum(parent) == 0) / n
        out[8] += log_noise * np.sum(parent) / n
        out[9] += np.sum(parent == included) / n
        out[sizes + step] += size / datasets_at[step]
        for c in range(candidates):
            out[noise + c] += included[c] / n
            out[noise + candidates + c] += included[c] * size / n
            out[noise + 2 * candidates + c] += (included[c] and parent[c]) / n
        last = model.data.ends[user, step] - 1
        first = math.log1p(y[user, step, 0] ** 2)
        out[targets] += first / n
        out[targets + 1] += math.log1p(y[user, step, last] ** 2) / n
        out[targets + 2] += first * size / n
        product = y[user, step, 0] * y[user, step, last]
        out[targets + 3] += math.copysign(math.log1p(abs(product)), product) / n
    alpha, last_ones = state.concentration[0], targets + 4
    out[last_ones] = alpha
    out[last_ones + 1] = math.log(alpha)
    out[last_ones + 2] = alpha * state.sizes[0]
    for k in range(state.sizes[0]):
        cluster = state.live[k]
        for c in range(candidates):
            if state.included[cluster, c]:
                for p in range(model.layout.hyper_start[c], model.layout.hyper_start[c + 1]):
                    out[values + p] += state.theta_unconstrained[cluster, p]
                    out[values + hyper + p] += state.theta_unconstrained[cluster, p] ** 2
    population, shared = model.priors.population, last_ones + 3
    size = population.shape[0]
    for i in range(size):
        out[shared + i] = population[i]
        out[shared + size + i] = population[i] ** 2
        out[shared + 2 * size + i] = population[i] * out[4]
        out[shared + 3 * size + i] = population[i] * np.sum(out[values : values + hyper])


def forward_statistics(setting: Setting, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return the statistics (draws, k) of independent draws from the joint distribution."""
    out = np.empty((draws, len(statistic_names(setting.model))))
    for row in out:
        forward(setting, rng, row)
    return out


def chain_statistics(
    setting: Setting, move: Move, draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the statistics (draws, k) of a chain that alternates a move with new targets."""
    out = np.empty((draws, len(statistic_names(setting.model))))
    state = forward(setting, rng, out[0])
    for row in out:
        move(setting.model, state, rng)
        _refresh(setting.model, state, rng, row)
    return out


def changes(
    setting: Setting, move: Move, draws: int, restart: int, rng: np.random.Generator
) -> np.ndarray:
    """Return how statistics change in short chains (draws // restart, k) from forward draws.

    A chain's mean minus its start: what a chain keeps doesn't blur what a wrong move does.
    """
    names = statistic_names(setting.model)
    out = np.empty((draws // restart, len(names)))
    begin, here = np.empty(len(names)), np.empty(len(names))
    for row in out:
        state = forward(setting, rng, begin)
        row[:] = -begin
        for _ in range(restart):
            move(setting.model, state, rng)
            _refresh(setting.model, state, rng, here)
            row += here / restart
    return out


def z_scores(reference: np.ndarray, chain: np.ndarray) -> np.ndarray:
    """Return the z score of every statistic, standard normal if both means are the same.

    The chain's standard error is that of batch means; its few degrees of freedom make the ratio
    Student's, and a Student quantile is turned into the normal one of the same tail.
    """
    batches = np.array([b.mean(0) for b in np.array_split(chain, BATCHES)])
    error = np.hypot(
        reference.std(0) / math.sqrt(len(reference)), batches.std(0, ddof=1) / math.sqrt(BATCHES)
    )
    return _normal_scores(chain.mean(0) - reference.mean(0), error, BATCHES - 1)


def z_scores_of_changes(changes: np.ndarray) -> np.ndarray:
    """Return the z score of every statistic's mean change, standard normal if it is zero."""
    error = changes.std(0, ddof=1) / math.sqrt(len(changes))
    return _normal_scores(changes.mean(0), error, len(changes) - 1)


def _normal_scores(difference: np.ndarray, error: np.ndarray, freedom: int) -> np.ndarray:
    constant = error < 1e-12
    if not np.allclose(difference[constant], 0.0, atol=1e-9):
        return np.full(len(error), np.inf)
    t = np.divide(difference, error, out=np.zeros_like(error), where=~constant)
    return np.sign(t) * stats.norm.isf(stats.t.sf(np.abs(t), freedom))


def compare(
    setting: Setting, move: Move, *, draws: int, seed: int, restart: int | None = None
) -> dict[str, float]:
    """Return the z scores of all statistics by name, the largest first.

    Parameters
    ----------
    restart : int, optional
        Start again from a forward draw after so many moves.
    """
    rng = np.random.default_rng(seed)
    if restart:
        z = z_scores_of_changes(changes(setting, move, draws, restart, rng))
    else:
        reference = forward_statistics(setting, draws, rng)
        z = z_scores(reference, chain_statistics(setting, move, draws, rng))
    scores = dict(zip(statistic_names(setting.model), z.tolist(), strict=True))
    return dict(sorted(scores.items(), key=lambda item: -abs(item[1])))


def largest(scores: dict[str, float]) -> float:
    """Return the largest absolute z score."""
    return max(abs(z) for z in scores.values())
