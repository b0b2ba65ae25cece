"""Compositions as trees: the same covariances, and no more hyperparameters than necessary."""

import numpy as np
import pytest

from kem_pymc.search.evaluation import coordinates_of
from kem_pymc.search.evocov.conversion import converted
from kem_pymc.search.evocov.fitting import coordinates_of as coordinates_of_tree
from kem_pymc.search.evocov.objective import covariances
from kem_pymc.search.evocov.tape import lower
from kem_pymc.search.grammar import Grammar
from tests.refusals import refused
from tests.search.conftest import evaluated as one_of


def evaluated(text, bases=("SE", "RQ", "LIN", "PER", "MATERN32")):
    """A model with random values."""
    expression = Grammar(1, bases).parse(text)
    size = len(coordinates_of(expression, 1).hyperparameters) + 1
    values = np.random.default_rng(len(text)).normal(0, 0.5, size)
    return one_of(expression, 0.0, values)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("SE0", 2),
        ("RQ0", 3),
        ("PER0", 3),
        ("LIN0", 2),
        ("LIN0 x SE0", 3),
        ("LIN0 x LIN0", 4),
        ("PER0 x PER0 + RQ0 + LIN0 x SE0", 11),
        ("LIN0 x PER0 + RQ0 x SE0 + SE0", 10),
    ],
)
def test_covariances_are_equal(text, count):
    """Fails where a hyperparameter is at another place, or has another unit."""
    model = evaluated(text)
    found = converted(model)
    assert len(found.tree.hyperparameters) == count
    assert found.tree.hyperparameters == tuple(f"h{i}" for i in range(len(found.inherited) - 1))
    values, noise = coordinates_of(model.expression, 1).named(model.values)
    assert found.inherited[-1] == noise
    x = np.random.default_rng(1).uniform(-1, 1, (12, 1))
    positive = np.array([*found.tree.positive, True])
    c, _ = covariances(lower(found.tree), x, coordinates_of_tree(found.inherited, positive))
    expected = model.expression.to_pymc(values, 1)(x).eval()
    np.testing.assert_allclose(c, expected, rtol=1e-10, atol=1e-12)


def test_refusals():
    refused(lambda: converted(evaluated("MATERN320 + SE0")), "MATERN32 can't", "RQ, PER")
    many = " + ".join(["PER0 x RQ0", "PER0 x PER0", "RQ0 x RQ0", "PER0 x RQ0 x SE0", "PER0"])
    refused(lambda: converted(evaluated(many)), "24 hyperparameters", "at most 20")
