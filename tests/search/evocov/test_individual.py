"""Individuals as JSON."""

import json

import numpy as np
import pytest

from kem_pymc.errors import InputError
from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.tree import Tree
from tests.search.evocov.trees import SE

INDIVIDUAL = Individual(Tree.parse(SE), np.array([0.1, 1 / 3, 1e-7]), -12.5, 30.25, {"fine": 3})


def test_json_keeps_everything():
    again = Individual.from_json(INDIVIDUAL.to_json())
    assert again.tree == INDIVIDUAL.tree
    np.testing.assert_array_equal(again.natural, INDIVIDUAL.natural)
    assert again.to_json() == INDIVIDUAL.to_json()
    assert again.gradients == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "exp(y)"}, "no primitive 'y'"),
        ({"kernel": 3}, "isn't an evolved kernel"),
        ({"more": 1}, "isn't an evolved kernel"),
        ({"hyperparameters": {"h0": 1.0}}, "values of h0; the kernel's hyperparameters are h0, h1"),
        ({"hyperparameters": {"h0": 1.0, "h1": -2.0}}, "h1 of .* is -2.0"),
        ({"noise": float("nan")}, "(?s)isn't an evolved kernel.*noise"),
        ({"bic": float("nan")}, "(?s)isn't an evolved kernel.*bic"),
        ({"log_likelihood": float("inf")}, "(?s)isn't an evolved kernel.*log_likelihood"),
        ({"outcomes": {"fine": -3}}, "isn't an evolved kernel"),
    ],
)
def test_refuses_what_is_not_an_individual(change, message):
    with pytest.raises(InputError, match=message):
        Individual.from_json(json.dumps(json.loads(INDIVIDUAL.to_json()) | change))


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000])
def test_refuses_other_texts(text):
    with pytest.raises(InputError, match="isn't an evolved kernel"):
        Individual.from_json(text)
