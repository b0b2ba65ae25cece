"""Simulation-based calibration of the population model, by importance sampling and by NUTS."""

import numpy as np
import pymc as pm
import pytest

import kem_pymc as kem
from kem_pymc.population.likelihood import Products
from tests.population.trial import cohort_of, trial
from tests.statistical.calibration import p_value, ranks

pytestmark = pytest.mark.statistical

SIMULATIONS, BINS = 100, 20

#: Level of a test of one quantity.
LEVEL = 1e-3


@pytest.fixture(scope="module")
def model():
    table = trial().drop(columns=["base"])
    # The first half of the rows have no known noise, others as much as the sd of the targets.
    half = np.arange(len(table)) >= len(table) / 2
    table["se"] = half * np.linspace(0.0, table["y"].std(), len(table))
    cohort = cohort_of(table, noise="se")
    return kem.PopulationModel(cohort, ["week", "s(week)"], ["level", "week"])


@pytest.mark.slow
def test_calibration_of_nuts(model, figures):
    """By simuk, which compiles anew for each of the data sets."""
    quantities = {h.name: (lambda data, n=h.name: data[n].values) for h in model.hyperparameters}
    found = ranks(model, quantities, simulations=100, draws=19, thin=20, tune=400, seed=4)
    values = {name: p_value(r, 19) for name, r in found.items()}
    figures(values)
    assert min(values.values()) > LEVEL, values


def test_calibration_of_importance_sampling(model, figures):
    """PyMC draws from the prior and simulates targets; weights below the truth are uniform.

    A missing Jacobian or term of the density wouldn't leave them so.
    """
    cohort = model.cohort
    names = [h.name for h in model.hyperparameters]
    drawn = pm.draw([*model.free_RVs, model["targets"]], SIMULATIONS, random_seed=5)
    truths, targets = np.column_stack(drawn[:-1]), drawn[-1]
    ends = np.cumsum([len(y) for y in cohort.targets])[:-1]
    columns = [[design(x) for x in cohort.inputs] for design in (model.shared, model.personal)]
    rng = np.random.default_rng(5)
    found = np.empty(truths.shape, dtype=int)
    for i, truth in enumerate(truths):
        products = Products.of(*columns, np.split(targets[i], ends), model.known_noise)
        weighted = model._sample(products, 250, rng)
        values = np.column_stack([*model.named(weighted.draws).values()])
        below = weighted.weights @ (values < truth)
        found[i] = np.minimum(BINS * below, BINS - 1)
    values = {name: p_value(r, BINS - 1) for name, r in zip(names, found.T, strict=True)}
    figures(values)
    assert min(values.values()) > LEVEL, values
