"""Simulation-based calibration of the population model and its importance sampling.

Without ``pm.sample``, which compiles anew for every simulated data set: PyMC draws from the prior
and simulates targets, so its model is tested against the density that importance sampling uses.
"""

import numpy as np
import pymc as pm
import pytest

import kem_pymc as kem
from kem_pymc.population.likelihood import Products
from tests.population.trial import cohort_of, trial
from tests.statistical.calibration import p_value

pytestmark = pytest.mark.statistical

SIMULATIONS, BINS = 150, 20

#: Level of a test of one quantity.
LEVEL = 1e-3


def test_calibration_of_importance_sampling(figures):
    """Shares of the weights below the truth are uniform; a missing Jacobian or term wouldn't be."""
    cohort = cohort_of(trial().drop(columns=["base"]))
    model = kem.PopulationModel(cohort, ["week", "s(week)"], ["level", "week"])
    names = [h.name for h in model.hyperparameters]
    drawn = pm.draw([*model.free_RVs, model["targets"]], SIMULATIONS, random_seed=5)
    truths, targets = np.column_stack(drawn[:-1]), drawn[-1]
    ends = np.cumsum([len(y) for y in cohort.targets])[:-1]
    columns = [[design(x) for x in cohort.inputs] for design in (model.shared, model.personal)]
    rng = np.random.default_rng(5)
    found = np.empty(truths.shape, dtype=int)
    for i, truth in enumerate(truths):
        products = Products.of(*columns, np.split(targets[i], ends))
        weighted = model._sample(products, 1000, rng)
        values = np.column_stack([*model.named(weighted.draws).values()])
        below = weighted.weights @ (values < truth)
        found[i] = np.minimum(BINS * below, BINS - 1)
    values = {name: p_value(r, BINS - 1) for name, r in zip(names, found.T, strict=True)}
    figures(values)
    assert min(values.values()) > LEVEL, values
