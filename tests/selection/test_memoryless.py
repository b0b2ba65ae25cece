"""Memoryless searches the posterior of one user's data, from scratch."""

import itertools
import math
import pickle

import numpy as np
import pytest

from kem_pymc import priors
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.fit import fit
from kem_pymc.gp.objective import Objective
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection.memoryless import MemorylessSelector
from kem_pymc.selection.scorer import study_prior
from tests.sampler.searches import SMALL, TABLE, density
from tests.selection.pilots import user


@pytest.fixture(scope="module")
def selector():
    return MemorylessSelector(SMALL, TABLE, steps=3000)


def test_the_best_draw_is_near_the_highest_mode():
    """Beside the modes of all 8 compositions, found one by one."""
    x, y = user(30, periodic=3.0)
    table = TABLE.without_parent().compile(SMALL)
    modes = {}
    for size in range(4):
        for chosen in itertools.combinations(SMALL.candidates, size):
            where = Coordinates(SMALL, Composition(chosen))
            objective = Objective(where, x, y, study_prior(table, where, Composition()))
            starts = np.random.default_rng(0).normal(0, 1, (40, len(where)))
            inclusion = size * math.log(0.1) + (3 - size) * math.log(0.9)
            modes[where.composition] = fit(objective, starts).height + inclusion
    selection = MemorylessSelector(SMALL, TABLE, steps=20_000).select(x, y)
    assert modes[selection.composition] > max(modes.values()) - 1.0
    assert density(selection, x, y) > max(modes.values()) - 1.5


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


def test_units_do_not_matter():
    x, y = user(20)
    scaling = Scaling(np.array([0.0]), np.array([20.0]), 3.0, 2.0)
    table = priors.paper()
    plain = MemorylessSelector(SMALL, table, steps=500).select(x / 20, (y - 3) / 2)
    scaled = MemorylessSelector(SMALL, table, steps=500, scaling=scaling).select(x, y)
    assert scaled.composition == plain.composition
    new = np.linspace(0, 20, 5)
    np.testing.assert_allclose(
        scaled.predict(new).mean, 3 + 2 * plain.predict(new / 20).mean, rtol=1e-5
    )


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
