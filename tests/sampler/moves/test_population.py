"""Population parameters: their conditional, one step from it, and the way back."""

import math

import numpy as np
import pymc as pm
import pytest

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.model.engine import Engine
from kem_pymc.priors.population import population_parameter
from kem_pymc.sampler.joint_density import draw_population, log_joint
from kem_pymc.sampler.moves import population
from kem_pymc.sampler.moves.population import (
    MOST,
    log_conditional_at,
    redraw_parameter,
    redraw_population,
)
from kem_pymc.sampler.moves.sweep import check_density
from kem_pymc.sampler.state import empty_state
from tests.sampler.moves.by_hand import seated
from tests.sampler.moves.decisions import Decisions
from tests.sampler.moves.steps import inverse, reversible, stationary
from tests.states import copy_state

MEDIAN = population_parameter("median", pm.Normal.dist(0.3, 0.8))
SPREAD = population_parameter("spread", pm.HalfNormal.dist(0.5))
LEVEL = population_parameter("level", pm.Normal.dist(-1, 0.6))
CAP = population_parameter("cap", pm.Uniform.dist(0.3, 0.9))
NAMES = ["median", "spread", "level", "cap"]

LABELS = ["ade", "ad", "wwc"]
COMPOSITIONS = {"a": ["SE0"], "d": ["SE0", "LIN0"], "e": ["SE0"], "w": [], "c": ["LIN0 x PER0"]}


@pytest.fixture(scope="module")
def setting(cohort, pool, table):
    """A study with parameters of values, of noise, and of a bounded support, and a state."""

    def noise(parent):
        return pm.LogNormal.dist(LEVEL - 0.2 * parent.size, 0.7)

    priors = table.replace(
        lengthscale=pm.LogNormal.dist(MEDIAN, SPREAD),
        amplitude=pm.LogNormal.dist(0, CAP),
        noise=noise,
    )
    engine = Engine(cohort, pool, priors, 1.3, likelihood_power=1.0)
    model = engine.at(engine.model)
    assert sorted(p.name for p in engine.population) == sorted(NAMES)
    return engine, model, seated(engine, LABELS, COMPOSITIONS, model=model)


def coordinate(model, i):
    """Return a parameter's unconstrained coordinate."""
    value = model.priors.population[i]
    return math.log(value) if model.priors.population_positive[i] else value


def put(model, i, x):
    """Set a parameter from its coordinate."""
    model.priors.population[i] = math.exp(x) if model.priors.population_positive[i] else x


@compiled
def _steps(model, state, i, starts, rng):
    positive = model.priors.population_positive[i]
    out = np.empty_like(starts)
    for k in range(starts.shape[0]):
        model.priors.population[i] = math.exp(starts[k]) if positive else starts[k]
        redraw_parameter(model, state, i, rng)
        v = model.priors.population[i]
        out[k] = math.log(v) if positive else v
    return out


@pytest.fixture
def index(setting, request):
    return [p.name for p in setting[0].population].index(request.param)


@pytest.mark.integration
@pytest.mark.parametrize("narrower", [1, 5])
@pytest.mark.parametrize("index", NAMES, indirect=True)
def test_a_step_from_the_conditional_is_a_draw_from_it_and_reversible(setting, index, narrower):
    """By the joint density on a grid, from scratch.

    A prior term that is missing, a cluster that counts for every dataset, or no Jacobian would be
    noticed; with narrower intervals also stepping out to one side only.
    """
    _, model, state = setting
    old, width = coordinate(model, index), model.priors.population_width[index]
    grid = np.linspace(old - 8 * width, old + 8 * width, 3001)
    log_density, conditional = np.empty((2, len(grid)))
    for k, x in enumerate(grid):
        put(model, index, x)
        log_density[k] = log_joint(model, state)
        conditional[k] = log_conditional_at(model, state, index, x)
    inside = np.isfinite(log_density)
    np.testing.assert_array_equal(inside, np.isfinite(conditional))
    by_move, joint = conditional[inside], log_density[inside]
    np.testing.assert_allclose(by_move - by_move.max(), joint - joint.max(), atol=1e-8)
    log_density[~inside] = -np.inf
    narrow = model.priors._replace(population_width=model.priors.population_width / narrower)
    model = model._replace(priors=narrow)
    rng = np.random.default_rng(3)
    starts = inverse(grid, log_density, rng.random(40_000))
    ends = _steps(model, state, index, starts, rng)
    put(model, index, old)
    assert stationary(grid, log_density, ends) > 1e-3
    assert reversible(grid, log_density, starts, ends) > 1e-3


def test_the_running_density_follows(setting):
    _, model, state = setting
    state = copy_state(state)
    # Entries after those of the live clusters are left over from clusters that are gone.
    state.live[state.sizes[0] :] = state.free[0]
    state.log_prior[state.free[0]] = 50.0
    rng = np.random.default_rng(1)
    values = []
    for _ in range(20):
        redraw_population(model, state, rng)
        check_density(model, state)
        values.append(model.priors.population.copy())
    assert (np.std(values, axis=0) > 0.01).all()
    nothing = empty_state(model, 0, 0)
    nothing.log_density[0] = log_joint(model, nothing)
    draw_population(model, nothing, rng)
    check_density(model, nothing)


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_intervals_are_placed_at_random_and_grow_up_to_a_limit(
    setting, interpret, monkeypatch, share
):
    """Where the density is flat; too small an effect for the frequencies above."""
    _, model, state = setting
    asked = []
    interpret(population)
    monkeypatch.setattr(population, "log_conditional_at", lambda *a: asked.append(a[-1]) or 0.0)
    x, width = coordinate(model, 0), model.priors.population_width[0]
    below = int(MOST * 0.4)
    population.redraw_parameter(model, state, 0, Decisions(0, uniforms=[0.5, share, 0.4, 0.5]))
    low = x - width * share - width * np.arange(below)
    high = x + width * (1 - share) + width * np.arange(MOST - 1 - below)
    middle = 0.5 * (low[-1] + high[-1])  # of the interval, which has grown by a width once more
    np.testing.assert_allclose(asked, [x, *low, *high, middle], atol=1e-12)


def test_an_impossible_value_stays(setting, monkeypatch):
    """There is no height to draw below; the move leaves everything as it was."""
    _, model, state = setting
    before = model.priors.population.copy()
    monkeypatch.setattr(population, "log_conditional_at", lambda *_: -math.inf)
    population.redraw_parameter.py_func(model, state, 0, np.random.default_rng(0))
    np.testing.assert_array_equal(model.priors.population, before)
