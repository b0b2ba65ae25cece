"""Memoryless searches the posterior of one user's data, from scratch."""

import math
import pickle
from types import SimpleNamespace
from zlib import crc32

import numpy as np
import pytest

from kem_pymc.errors import InputError
from kem_pymc.sampler.search import best_kernel, one_data_set
from kem_pymc.selection.memoryless import MemorylessSelector
from tests.sampler.searches import SMALL, TABLE, density
from tests.selection.pilots import user


@pytest.fixture(scope="module")
def selector():
    return MemorylessSelector(SMALL, TABLE, steps=3000)


def test_the_best_draw_is_selected_and_fitted(selector):
    """Catches another stream of random numbers, and a fit that doesn't start at the draw."""
    x, y = user(30, periodic=3.0)
    included, theta = np.zeros(3, dtype=np.bool_), np.zeros(len(SMALL.hyperparameters))
    model = one_data_set(SMALL, selector._scorer.table, x, y)
    rng = np.random.default_rng([0, crc32(x.tobytes()), crc32(y.tobytes())])
    noise = math.exp(best_kernel(model, included, theta, 0.0, 3000, rng))
    composition = SMALL.composition(included)
    draw = SimpleNamespace(
        composition=composition, hyperparameters=SMALL.named(theta, composition), noise=noise
    )
    selection = selector.select(x, y)
    assert selection.composition == composition
    assert density(selection, x, y) > density(draw, x, y)


def test_one_composition_is_considered(selector):
    selection = selector.select(*user(10))
    assert [c.status for c in selection.considered] == ["searched"]
    assert selection.considered[0].weight == 1.0


def test_the_last_selection_is_where_a_search_begins(selector):
    x, y = user(30, periodic=3.0)
    found = selector.select(x, y)
    one_step = MemorylessSelector(SMALL, TABLE, steps=1)
    assert len(one_step.select(x, y).composition) <= 1
    assert one_step.select(x, y, previous=found).composition == found.composition


@pytest.mark.integration
def test_the_same_seed_gives_the_same_selection(selector):
    x, y = user(15)
    again = pickle.loads(pickle.dumps(selector))
    assert again.select(x, y).considered == selector.select(x, y).considered
    seeds = [MemorylessSelector(SMALL, TABLE, steps=50, seed=s).select(x, y) for s in range(6)]
    assert len({(s.composition, s.noise) for s in seeds}) > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fit": "pilot"}, "need pilot users"),
        ({"criterion": "posterior"}, "need pilot users"),
        ({"steps": 0}, "is too small"),
        ({"runs": 0}, "is too small"),
        ({"fit": "nonsense"}, "no fit"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(InputError, match=message):
        MemorylessSelector(SMALL, TABLE, **options)
