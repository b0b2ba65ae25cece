"""Compilation of a study's priors, with checks at all plausible population parameters."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from kem_pymc._system.jit.decorators import FunctionPointer
from kem_pymc.errors import InputError
from kem_pymc.priors.compiled_table import PriorTable
from kem_pymc.priors.distributions import (
    compile_entries,
    compile_noise,
    describe,
    location_and_scale,
)
from kem_pymc.priors.population import PopulationParameter, names_of, parameters_in

#: Number of draws of the population parameters at which the validity of priors is checked.
POPULATION_DRAWS = 200

#: Upper limit of the prior standard deviation of the log of a positive population parameter.
WIDEST = 30.0

#: Coordinates at which a density is evaluated, in addition to draws.
ANYWHERE = (-3.0, -1.0, 0.0, 1.0, 3.0)


def compile_priors(
    hyperparameters: Sequence[tuple[TensorVariable, bool]],
    noise: Callable[[Any], TensorVariable],
    population: Sequence[PopulationParameter],
    *,
    stay: np.ndarray,
    enter: np.ndarray,
) -> PriorTable:
    """Compile the priors of a study for the engine.

    Equal priors are compiled once.

    Parameters
    ----------
    hyperparameters : sequence of (PyMC distribution, bool), length H
        Prior of each hyperparameter, and whether the hyperparameter is positive.
    noise : callable
        Function from a parent's inclusion indicators (C,) to the prior of the noise variance.
    population : sequence of PopulationParameter, length P
        Population parameters that the priors depend on.
    stay, enter : ndarray, shape (C,)
        Inclusion probability of each candidate if the parent has it, and if it doesn't.

    Returns
    -------
    PriorTable

    Raises
    ------
    InputError
        If the prior of a positive hyperparameter has negative values, the prior of a population
        parameter is too vague, or population parameters can have values for which a prior isn't a
        valid distribution.
    """
    names = [p.name for p in population]
    distinct = list(dict.fromkeys(hyperparameters))
    entry = np.array([distinct.index(prior) for prior in hyperparameters], dtype=np.int64)
    population_entry = len(distinct) + np.arange(len(population))
    every = [*distinct, *((p.prior, p.positive) for p in population)]
    log_density, gradient, draw = compile_entries(every, names)
    noise_log_density, noise_gradient, noise_draw = compile_noise(noise, names)

    positive = np.array([p.positive for p in population], dtype=np.bool_)
    middle, width = _located(draw, population_entry, np.full(len(population), np.nan))
    for parameter, place, size in zip(population, middle, width, strict=True):
        if not (np.isfinite(place) and (size < WIDEST or not parameter.positive)):
            raise InputError(
                f"The prior {describe(parameter.prior)} of {parameter.name} is too vague: some of "
                "its values are too large or too small for floating-point numbers. "
                "Give a narrower prior."
            )
    reference = np.where(positive, np.exp(middle), middle)
    centres, scales = _located(draw, np.arange(len(distinct)), reference)
    for (rv, _), scale in zip(distinct, scales, strict=True):
        if not np.isfinite(scale):
            raise InputError(
                f"The prior {describe(rv)} of a positive hyperparameter gives negative values. "
                "Truncate it, or use a positive distribution."
            )
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
        population_entry=population_entry,
        population_positive=positive,
        population_width=width,
        uses=_uses([rv for rv, _ in every], names),
        noise_uses=_uses([noise(pt.vector(dtype="bool"))], names)[0],
    )
    for what in _impossible(table):
        which = "of the noise" if what is None else describe(every[what][0])
        raise InputError(
            f"The prior {which} has no finite density at some values that the priors of "
            f"its population parameters ({names_of(population)}) allow. "
            "Give a parameter that must be positive a prior like pm.HalfNormal.dist(1)."
        )
    return table


def _located(
    draw: FunctionPointer, entries: np.ndarray, population: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return medians and standard deviations of the coordinates of some entries."""
    located = [location_and_scale(draw, int(entry), population) for entry in entries]
    centres, scales = np.array(located).reshape(-1, 2).T
    return centres, scales


def _impossible(table: PriorTable) -> Iterator[int | None]:
    """Yield priors that aren't valid at some draw of the population parameters; None for the noise.

    A prior isn't valid if its density is zero at all coordinates that are tried. (It may be zero at
    some of them, e.g. outside the support of a uniform distribution, or at draws of a very wide
    distribution that overflow.)
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
    """Return whether each prior depends on each population parameter (number of priors, P)."""
    inside = [{p.name for p in parameters_in([rv])} for rv in priors]
    uses = [[name in parameters for name in names] for parameters in inside]
    return np.array(uses, dtype=np.bool_).reshape(len(priors), len(names))
