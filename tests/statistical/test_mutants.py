"""Geweke's test has power: it catches moves with a fault put in, at the length that passes them."""

from types import ModuleType
from typing import NamedTuple

import pytest

from kem_pymc.sampler.moves import (
    component,
    composition,
    concentration,
    extension,
    hyperparameters,
    population,
)
from tests.statistical.geweke import compare, largest, make_setting
from tests.statistical.mutants import mutant
from tests.statistical.test_geweke import CASES

pytestmark = pytest.mark.statistical

COMPOSITION_PASS = """

@compiled
def one_pass(model, state, rng):
    for cluster in state.live[: state.sizes[0]].copy():
        for _ in range(4):
            change_composition(model, state, cluster, True, Odds(0.4, 0.4, 0.2, 1.0), rng)
"""
EXTENSION_PASS = """

@compiled
def one_pass(model, state, rng):
    for cluster in state.live[: state.sizes[0]].copy():
        for _ in range(4):
            extend_or_contract(model, state, cluster, True, rng)
"""
WALK_PASS = """

@compiled
def one_pass(model, state, rng):
    for cluster in state.live[: state.sizes[0]].copy():
        for _ in range(4):
            random_walk(model, state, cluster, 0.0, rng)
"""
CONCENTRATION_PASS = """

one_pass = redraw_concentration
"""
POPULATION_PASS = """

one_pass = redraw_population
"""


class Fault(NamedTuple):
    """A change of a move's source, and the case of Geweke's test that the move passes."""

    originals: tuple[ModuleType, ...]
    changes: dict[str, str]
    one_pass: str
    case: str


FAULTS = {
    "hastings_ratio_inverted": Fault(
        (composition, component),
        {"< log_ratio + change:": "< change - log_ratio:"},
        COMPOSITION_PASS,
        "composition of a component",
    ),
    "no_jacobian": Fault(
        (hyperparameters,),
        {
            "    log_ratio = log_prior - state.log_prior[cluster]\n": (
                "    log_ratio = log_prior - state.log_prior[cluster]\n"
                "    log_ratio -= log_noise - state.log_noise[cluster]\n"
                "    change = theta - state.theta_unconstrained[cluster]\n"
                "    log_ratio -= np.sum(change[model.layout.positive])\n"
            )
        },
        WALK_PASS,
        "random walk",
    ),
    "no_prior_ratio_of_children": Fault(
        (composition, component),
        {
            "        change += log_prior[i] - state.log_prior[cluster]\n": (
                "        if changed[cluster]:\n"
                "            change += log_prior[i] - state.log_prior[cluster]\n"
            )
        },
        COMPOSITION_PASS,
        "composition of a component, likelihood off",
    ),
    "no_restaurant_denominators": Fault(
        (composition, component),
        {"return target, log_assignments": "return target, 0.0"},
        COMPOSITION_PASS,
        "composition of a component, likelihood off",
    ),
    "factor_without_density": Fault(
        (extension,),
        {"log_ratio -= log_factor(model, factor, change.theta, first, i)": "pass"},
        EXTENSION_PASS,
        "extension of a component",
    ),
    "no_choice_between_member_and_prior": Fault(
        (concentration,),
        {"            shape -= rng.random() < members / (members + alpha)\n": ""},
        CONCENTRATION_PASS,
        "concentration",
    ),
    "beta_of_alpha": Fault(
        (concentration,),
        {"rng.beta(alpha + 1.0, members)": "rng.beta(alpha, members)"},
        CONCENTRATION_PASS,
        "concentration",
    ),
    "population_without_noise": Fault(
        (population,),
        {"        if priors.noise_uses[i]:\n": "        if False:\n"},
        POPULATION_PASS,
        "population",
    ),
    "slice_without_jacobian": Fault(
        (population,),
        {
            "    total = population_term(model, i)\n": (
                "    total = population_term(model, i)\n"
                "    if priors.population_positive[i]:\n"
                "        total -= math.log(priors.population[i])\n"
            )
        },
        POPULATION_PASS,
        "population",
    ),
}


def scores_of(name: str, fault: Fault, changes: dict[str, str]) -> dict[str, float]:
    move = mutant(fault.originals, name, changes, fault.one_pass).one_pass
    _, setting, draws, restart = CASES[fault.case]
    return compare(make_setting(**setting), move, draws=draws, seed=1, restart=restart)


#: Compiling this takes up to a minute; its fault is of the kind of one that is fast.
LONG = {"no_restaurant_denominators"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in FAULTS]
)
def test_geweke_catches_the_mutant(name):
    scores = scores_of(name, FAULTS[name], FAULTS[name].changes)
    assert largest(scores) > 6, scores


def test_geweke_passes_a_copy_without_fault():
    scores = scores_of("no_fault", FAULTS["beta_of_alpha"], {})
    assert largest(scores) < 4, scores


def test_a_mutant_cannot_stop_mutating_silently():
    with pytest.raises(AssertionError, match="occurs 0 times"):
        mutant((composition,), "stale", {"text that nobody wrote": ""}, "")
