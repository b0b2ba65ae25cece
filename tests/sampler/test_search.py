"""The search for the most probable kernel of one data set."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.fit import fit
from kem_pymc.gp.mean_process import MeanAtPoints
from kem_pymc.gp.objective import Objective
from kem_pymc.kernels.composition import Composition
from kem_pymc.sampler.moves.seating import open_cluster
from kem_pymc.sampler.search import best_kernel, one_data_set
from kem_pymc.sampler.state import attach, empty_state
from kem_pymc.selection.memoryless import MemorylessSelector
from kem_pymc.selection.scorer import study_prior
from tests.gp.problems import composition_covariance
from tests.sampler.searches import SMALL, TABLE, density
from tests.selection.pilots import user
from tests.statistical.geweke import SharedFunction


@pytest.fixture(scope="module")
def selector():
    return MemorylessSelector(SMALL, TABLE, steps=3000)


@pytest.mark.integration
def test_what_is_searched_is_the_posterior(selector):
    x, y = user(12)
    for text in ("WHITE", "LIN0", "LIN0 + PER0", "PER0 + SE0"):
        where = Coordinates(SMALL, Composition.parse(text))
        values = np.full(len(where), 0.3)
        model = one_data_set(SMALL, selector._scorer.table, x, y)

        class Kernel:
            composition = where.composition
            hyperparameters, noise = where.named(values)

        found = log_density(model, where.inclusion, *where.expand(values))
        assert found == pytest.approx(density(Kernel, x, y), abs=1e-8)


def log_density(model, included, theta, log_noise):
    """Return the log density of the state of a single cluster with this kernel."""
    state = empty_state(model, 2, 1)
    attach(model, state, 0, open_cluster(model, state, 0, included, theta, log_noise))
    return state.log_density[0]


def test_the_best_composition_is_that_of_an_exhaustive_search(selector):
    """Catches the last draw returned instead of the best one, and values of another draw."""
    x, y = user(40, periodic=3.0)
    modes = {}
    for size in range(4):
        for chosen in itertools.combinations(SMALL.candidates, size):
            where = Coordinates(SMALL, Composition(chosen))
            prior = study_prior(selector._scorer.table, where, Composition())
            starts = np.random.default_rng(0).normal(0, 1, (12, len(where)))
            inclusion = size * math.log(0.1) + (3 - size) * math.log(0.9)
            modes[where.composition] = fit(Objective(where, x, y, prior), starts).height + inclusion
    included, theta = np.zeros(3, dtype=np.bool_), np.zeros(len(SMALL.hyperparameters))
    model = one_data_set(SMALL, selector._scorer.table, x, y)
    log_noise = best_kernel(model, included, theta, 0.0, 8000, np.random.default_rng(1))
    assert SMALL.composition(included) == max(modes, key=modes.__getitem__)
    reached = log_density(model, included, theta, log_noise)
    assert max(modes.values()) - 2 < reached < max(modes.values()) + 1e-6


def test_a_start_that_nothing_beats_stays(selector):
    """Catches a search that returns its first draw although the start is better."""
    x, y = user(40, periodic=3.0)
    where = Coordinates(SMALL, Composition.parse("LIN0 + PER0"))
    prior = study_prior(selector._scorer.table, where, Composition())
    starts = np.random.default_rng(0).normal(0, 1, (12, len(where)))
    start = where.expand(fit(Objective(where, x, y, prior), starts).values)
    model = one_data_set(SMALL, selector._scorer.table, x, y)
    highest = log_density(model, where.inclusion, *start)
    for seed in range(20):  # some of the first steps are accepted
        theta, included = start[0].copy(), where.inclusion.copy()
        log_noise = best_kernel(model, included, theta, start[1], 1, np.random.default_rng(seed))
        assert SMALL.composition(included) == where.composition
        assert highest <= log_density(model, included, theta, log_noise) < highest + 1e-4


def test_what_users_share_is_in_the_likelihood(selector):
    x, y = user(12)
    shared = MeanAtPoints(SharedFunction(), x / 20)
    where = Coordinates(SMALL, Composition.parse("LIN0 + PER0"))
    values = np.full(len(where), 0.3)
    kernel = where.inclusion, *where.expand(values)
    plain = log_density(one_data_set(SMALL, selector._scorer.table, x, y), *kernel)
    found = log_density(one_data_set(SMALL, selector._scorer.table, x, y, shared), *kernel)
    named, noise = where.named(values)
    gram = composition_covariance(where.composition, named, x, x) + noise * np.eye(12)
    without = multivariate_normal(None, gram).logpdf(y)
    expected = multivariate_normal(shared.mean, gram + shared.covariance).logpdf(y)
    assert found - plain == pytest.approx(expected - without, abs=1e-8)
