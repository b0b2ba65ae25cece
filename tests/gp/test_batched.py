"""Likelihoods of many kernels are those of each alone."""

import math
from types import SimpleNamespace

import numpy as np

from kem_pymc.gp.batched import largest_likelihoods
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.objective import Objective
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool

POOL = CandidatePool(["LIN0", "PER1", "SE0", "SE1", "LIN0 x PER1"], 2)


def test_every_composition_has_the_largest_of_its_likelihoods():
    rng = np.random.default_rng(5)
    x, y = rng.uniform(0, 3, (12, 2)), rng.normal(size=12)
    names = ["SE0 + SE1", "WHITE", "LIN0", "LIN0 x PER1 + SE0"]
    rivals = []
    for sets, name in zip((3, 1, 2, 4), names, strict=True):
        where = Coordinates(POOL, Composition.parse(name))
        rivals.append((where, rng.normal(0, 0.5, (sets, len(where)))))
    part = SimpleNamespace(mean=rng.normal(size=12), covariance=np.full((12, 12), 0.3))
    part.factors = np.linspace(0.5, 2.0, 12)
    for known in (part, None):
        alone = [[Objective(c, x, y, known=known).terms(v)[0] for v in vs] for c, vs in rivals]
        found = largest_likelihoods(rivals, x, y, 0.01, known)
        np.testing.assert_allclose(found, [max(each) for each in alone], rtol=1e-10)
    assert any(max(each) != each[0] for each in alone)


def test_noise_below_the_floor_of_a_fit_is_raised_to_it():
    where = Coordinates(POOL, Composition())
    y = np.array([0.0, 0.001, -0.002])
    low, floor = (
        largest_likelihoods([(where, np.array([[v]]))], np.zeros((3, 2)), y, 0.01)
        for v in (-20.0, math.log(0.01))
    )
    assert low == floor


def test_values_beyond_all_bounds_have_no_likelihood():
    where = Coordinates(POOL, Composition.parse("SE0"))
    found = largest_likelihoods(
        [(where, np.array([[1e3, 0.0, 0.0]]))], np.ones((2, 2)), np.ones(2), 0.01
    )
    assert found == -np.inf
