"""Memoryless searches the posterior of one user's data, from scratch."""

import itertools
import math
import pickle
from types import SimpleNamespace
from zlib import crc32

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from experiments.kem.memoryless import MemorylessSelector, best_kernel, one_data_set
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.fit import fit
from kem_pymc.gp.known_part import KnownPart
from kem_pymc.gp.objective import Objective
from kem_pymc.kernels.composition import Composition
from kem_pymc.sampler.moves.seating import open_cluster
from kem_pymc.sampler.state import attach, empty_state
from kem_pymc.selection.scorer import study_prior
from tests.experiments.searches import SMALL, TABLE, density
from tests.gp.problems import composition_covariance
from tests.selection.pilots import user
from tests.statistical.geweke import SharedFunction


@pytest.fixture(scope="module")
def selector():
    return MemorylessSelector(SMALL, TABLE, steps=3000)


def searched(selector, x, y, included, theta, log_noise, steps, seed):
    """Return the composition of the best kernel, its log density, and that of the start."""
    model = one_data_set(SMALL, selector._scorer.table, x, y)
    before = log_density(model, included, theta, log_noise)
    log_noise = best_kernel(model, included, theta, log_noise, steps, np.random.default_rng(seed))
    return SMALL.composition(included), log_density(model, included, theta, log_noise), before


def log_density(model, included, theta, log_noise):
    """Return the log density of the state of a single cluster with this kernel."""
    state = empty_state(model, 2, 1)
    attach(model, state, 0, open_cluster(model, state, 0, included, theta, log_noise))
    return state.log_density[0]


def white():
    return np.zeros(3, dtype=np.bool_), np.zeros(len(SMALL.hyperparameters)), 0.0


@pytest.mark.integration
@pytest.mark.parametrize("text", ["WHITE", "LIN0", "LIN0 + PER0", "PER0 + SE0"])
def test_what_is_searched_is_the_posterior(selector, text):
    """Beside what users share, too."""
    x, y = user(12)
    where = Coordinates(SMALL, Composition.parse(text))
    values = np.full(len(where), 0.3)
    kernel = where.inclusion, *where.expand(values)
    named, noise = where.named(values)
    drawn = SimpleNamespace(composition=where.composition, hyperparameters=named, noise=noise)
    plain = log_density(one_data_set(SMALL, selector._scorer.table, x, y), *kernel)
    assert plain == pytest.approx(density(drawn, x, y), abs=1e-8)
    shared = KnownPart(SharedFunction(), x / 20)
    found = log_density(one_data_set(SMALL, selector._scorer.table, x, y, shared), *kernel)
    gram = composition_covariance(where.composition, named, x, x)
    without = multivariate_normal(None, gram + noise * np.eye(12)).logpdf(y)
    gram += noise * np.diag(shared.factors)
    expected = multivariate_normal(shared.mean, gram + shared.covariance).logpdf(y)
    assert found - plain == pytest.approx(expected - without, abs=1e-8)


def test_the_best_composition_is_that_of_an_exhaustive_search(selector):
    """Catches the last draw returned instead of the best one, and values of another draw.

    From the highest mode, also a search that returns its first draw although the start is better.
    """
    x, y = user(40, periodic=3.0)
    modes = {}
    for size in range(4):
        for chosen in itertools.combinations(SMALL.candidates, size):
            where = Coordinates(SMALL, Composition(chosen))
            prior = study_prior(selector._scorer.table, where, Composition())
            starts = np.random.default_rng(0).normal(0, 1, (12, len(where)))
            fitted = fit(Objective(where, x, y, prior), starts)
            height = fitted.height + size * math.log(0.1) + (3 - size) * math.log(0.9)
            modes[where.composition] = height, where, fitted.values
    highest, where, values = max(modes.values(), key=lambda mode: mode[0])
    composition, reached, _ = searched(selector, x, y, *white(), 8000, 1)
    assert composition == where.composition
    assert highest - 2 < reached < highest + 1e-6
    for seed in range(20):  # some of the first steps are accepted
        start = where.inclusion.copy(), *where.expand(values)
        composition, reached, before = searched(selector, x, y, *start, 1, seed)
        assert composition == where.composition
        assert before <= reached < before + 1e-4


def test_the_best_draw_is_selected_and_fitted(selector):
    """Catches another stream of random numbers, and a fit that doesn't start at the draw."""
    x, y = user(30, periodic=3.0)
    seed = [0, crc32(x.tobytes()), crc32(y.tobytes())]
    composition, reached, _ = searched(selector, x, y, *white(), 3000, seed)
    selection = selector.select(x, y)
    assert selection.composition == composition
    assert density(selection, x, y) > reached
    assert [(row.status, row.weight) for row in selection.considered] == [("searched", 1.0)]
    # The next search begins there.
    one_step = MemorylessSelector(SMALL, TABLE, steps=1)
    assert len(one_step.select(x, y).composition) <= 1
    assert one_step.select(x, y, previous=selection).composition == composition


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
        ({"steps": 0}, "steps is 0"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(InputError, match=message):
        MemorylessSelector(SMALL, TABLE, **options)
