"""Memoryless searches the posterior of one user's data, from scratch."""

import itertools
import math
import pickle

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from kem_pymc import priors
from kem_pymc.data.scaling import Scaling
from kem_pymc.datasets.simulate import covariance
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.fit import fit
from kem_pymc.gp.objective import Objective
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.sampler.moves.seating import open_cluster
from kem_pymc.sampler.search import best_kernel, one_data_set
from kem_pymc.sampler.state import attach, empty_state
from kem_pymc.selection.memoryless import MemorylessSelector
from kem_pymc.selection.priors import study_prior
from tests.selection.pilots import user

TABLE = priors.synthetic()
SMALL = CandidatePool(["LIN0", "PER0", "SE0"])


@pytest.fixture(scope="module")
def selector():
    return MemorylessSelector(SMALL, TABLE, steps=3000)


def density(selection, x, y):
    """Log posterior of a kernel, by hand: inclusion, hyperparameters, noise, likelihood."""
    total = norm(0, 2).logpdf(math.log(selection.noise))
    for candidate in SMALL:
        total += math.log(0.1 if candidate in selection.composition else 0.9)
    for name, value in selection.hyperparameters.items():
        kind = name.split(".")[1]
        place, scale = (math.log(5), 0.25) if kind == "period" else (0, 2)
        total += norm(0, 0.1).logpdf(value) if kind == "shift" else 0.0
        total += norm(place, scale).logpdf(math.log(value)) if kind != "shift" else 0.0
    k = selection.noise * np.eye(len(y))
    if len(selection.composition):
        points = x[:, 0]
        k += covariance(str(selection.composition), selection.hyperparameters, points, points)
    return total + multivariate_normal.logpdf(y, cov=k)


def test_what_is_searched_is_the_posterior(selector):
    x, y = user(12)
    for text in ("WHITE", "LIN0", "LIN0 + PER0", "PER0 + SE0"):
        where = Coordinates(SMALL, Composition.parse(text))
        values = np.full(len(where), 0.3)
        h, log_noise = where.expand(values)
        study = one_data_set(SMALL, selector._table, x, y)
        state = empty_state(study, 2, 1)
        attach(study, state, 0, open_cluster(study, state, 0, where.inclusion, h, log_noise))

        class Kernel:
            composition = where.composition
            hyperparameters, noise = where.named(values)

        assert state.log_density[0] == pytest.approx(density(Kernel, x, y), abs=1e-8)


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


def test_a_search_only_improves(selector):
    x, y = user(20)
    found = []
    for steps in (1, 100, 5000):
        included = np.zeros(3, dtype=np.bool_)
        h, rng = np.zeros(len(SMALL.hyperparameters)), np.random.default_rng(3)
        study = one_data_set(SMALL, selector._table, x, y)
        log_noise = best_kernel(study, included, h, 0.0, steps, rng)
        state = empty_state(study, 2, 1)
        attach(study, state, 0, open_cluster(study, state, 0, included, h, log_noise))
        found.append(state.log_density[0])
    assert found == sorted(found)
    assert found[2] > found[0] + 5


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
