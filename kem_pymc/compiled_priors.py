"""A study's priors compiled for the engine, and checked wherever population parameters may go."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from kem_pymc.compiled import FunctionPointer
from kem_pymc.distributions import compile_entries, compile_noise, describe, location_and_scale
from kem_pymc.errors import InputError
from kem_pymc.population import PopulationParameter, names_of, parameters_in
from kem_pymc.prior_table import PriorTable

#: At so many draws of the population parameters is looked whether priors make sense there.
POPULATION_DRAWS = 200

#: So wide may the prior of a positive population parameter be: the standard deviation of its log.
WIDEST = 30.0

#: Coordinates at which a density is looked at, besides draws.
ANYWHERE = (-3.0, -1.0, 0.0, 1.0, 3.0)


def compile_priors(
    hyperparameters: Sequence[tuple[TensorVariable, bool]],
    noise: Callable[[Any], TensorVariable],
    population: Sequence[PopulationParameter],
    *,
    stay: np.ndarray,
    enter: np.ndarray,
) -> PriorTable:
    """Return the priors as the engine wants them. Equal priors are compiled once.

    Parameters
    ----------
    hyperparameters : sequence of (PyMC distribution, bool), length H
        The prior of each, and whether it is positive.
    noise : callable
        From a parent's inclusion indicators (C,) to the prior of the noise variance.
    population : sequence of PopulationParameter, length P
        What these depend on.
    stay, enter : ndarray, shape (C,)
        Probability that a candidate is in, given that the parent has it or hasn't.

    Raises
    ------
    InputError
        If the prior of a positive hyperparameter isn't positive, or population parameters can go
        where a prior is none.
    """
    names = [p.name for p in population]
    distinct: list[tuple[TensorVariable, bool]] = []
    for found in hyperparameters:
        if found not in distinct:
            distinct.append(found)
    entry = np.array([distinct.index(found) for found in hyperparameters], dtype=np.int64)
    own = len(distinct) + np.arange(len(population))
    every = [*distinct, *((p.prior, p.positive) for p in population)]
    log_density, gradient, draw = compile_entries(every, names)
    noise_log_density, noise_gradient, noise_draw = compile_noise(noise, names)

    positive = np.array([p.positive for p in population], dtype=np.bool_)
    middle, width = _located(draw, own, np.full(len(population), np.nan))
    _check_vagueness(population, middle, width)
    reference = np.where(positive, np.exp(middle), middle)
    centres, scales = _located(draw, np.arange(len(distinct)), reference)
    _check_support([rv for rv, _ in distinct], scales)
    table = PriorTable(
        log_density=log_density,
        gradient=gradient,
        draw=draw,
        noise_log_density=noise_log_density,
        noise_gradient=noise_gradient,
        noise_draw=noise_draw,
        entry=entry,
        centre=centres[entry],
        scale=np.minimum(scales, 1.0)[entry],
        stay=stay,
        enter=enter,
        population=reference.copy(),
        reference=reference,
        population_entry=own,
        population_positive=positive,
        population_width=width,
        uses=_uses([rv for rv, _ in every], names),
        noise_uses=_uses([noise(pt.vector(dtype="bool"))], names)[0],
    )
    for what in _impossible(table):
        told = "of the noise" if what is None else describe(every[what][0])
        raise InputError(
            f"The prior {told} is none at some values that the priors of "
            f"its population parameters ({names_of(population)}) allow. "
            "Give a parameter that has to be positive a prior like pm.HalfNormal.dist(1)."
        )
    return table


def _located(
    draw: FunctionPointer, entries: np.ndarray, population: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return medians and standard deviations of some entries, as coordinates."""
    located = [location_and_scale(draw, int(entry), population) for entry in entries]
    centres, scales = np.array(located).reshape(-1, 2).T
    return centres, scales


def _check_vagueness(
    population: Sequence[PopulationParameter], middle: np.ndarray, width: np.ndarray
) -> None:
    for parameter, place, size in zip(population, middle, width, strict=True):
        if not (np.isfinite(place) and (size < WIDEST or not parameter.positive)):
            raise InputError(
                f"The prior {describe(parameter.prior)} of {parameter.name} is too vague: it "
                "has values that no computer holds. Give one that says more."
            )


def _check_support(priors: Sequence[TensorVariable], scales: np.ndarray) -> None:
    for rv, scale in zip(priors, scales, strict=True):
        if not np.isfinite(scale):
            raise InputError(
                f"The prior {describe(rv)} of a positive hyperparameter gives negative values. "
                "Truncate it, or use a positive distribution."
            )


def _impossible(table: PriorTable) -> Iterator[int | None]:
    """Yield distinct priors, None for the noise's, without a density at some population parameters.

    That is where a density is zero wherever one looks. (It may be in places: those of a uniform
    distribution, or draws of a very wide one, which overflow.)
    """
    rng = np.random.default_rng(0)
    population = table.reference.copy()
    dependent = [int(k) for k in np.flatnonzero(table.uses.any(axis=1))]
    parents = [np.zeros(len(table.enter), np.bool_), np.ones(len(table.enter), np.bool_)]
    places: dict[int, list[float]] = {
        k: [location_and_scale(table.draw, k, table.reference)[0], *ANYWHERE] for k in dependent
    }
    for _ in range(POPULATION_DRAWS if table.uses.any() or table.noise_uses.any() else 0):
        for k in dependent:
            if not any(
                np.isfinite(table.log_density(k, v, population))
                for v in (table.draw(k, rng, population), *places[k])
            ):
                yield k
        for parent in parents if table.noise_uses.any() else ():
            if not any(
                np.isfinite(table.noise_log_density(parent, v, population))
                for v in (table.noise_draw(parent, rng, population), *ANYWHERE)
            ):
                yield None
        for i, entry in enumerate(table.population_entry):
            v = table.draw(int(entry), rng, population)
            population[i] = np.exp(v) if table.population_positive[i] else v


def _uses(priors: Sequence[TensorVariable], names: Sequence[str]) -> np.ndarray:
    """Return which priors depend on which population parameters (number of priors, P)."""
    inside = [{p.name for p in parameters_in([rv])} for rv in priors]
    uses = [[name in found for name in names] for found in inside]
    return np.array(uses, dtype=np.bool_).reshape(len(priors), len(names))
