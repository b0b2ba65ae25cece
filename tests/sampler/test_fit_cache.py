"""The cache of Laplace approximations: what it answers, and what it doesn't."""

import numpy as np
import pytest

from kem_pymc.sampler.fit_cache import no_fits
from kem_pymc.sampler.moves.fits import fit_cluster, place_of
from tests.sampler.moves.by_hand import seated

#: The composition SE0, which no cluster of the state has.
INCLUDED = np.array([False, True, False])


@pytest.fixture
def crowded(engine):
    """A cluster of first datasets, in a study with targets and a cache of its own."""
    data = engine.model.data
    model = engine.model._replace(
        data=data._replace(y=data.y.copy()), fits=no_fits(len(engine.model.user), len(engine.pool))
    )
    state = seated(engine, ["aaa", "aa", "aab"], {"a": [], "b": ["LIN0"]}, model=model)
    cluster = state.assignment[0]
    parent = state.parent[state.dp[cluster]]
    place = place_of(np.concatenate((state.assignment == cluster, INCLUDED, parent)))
    return model, state, cluster, parent, place


def test_a_hit_returns_what_is_stored(crowded):
    model, state, cluster, parent, place = crowded
    places, centre, factor = fit_cluster(model, state, cluster, INCLUDED, parent)
    d = len(places) + 1
    np.testing.assert_array_equal(model.fits.centre[place, :d], centre)
    np.testing.assert_array_equal(model.fits.factor[place, :d, :d], factor)
    assert np.flatnonzero(model.fits.data.any(axis=1)).tolist() == [place]
    model.fits.centre[place, :d] = [1.0, 2.0, 3.0]
    model.fits.factor[place, :d, :d] = np.eye(d)
    again, centre, factor = fit_cluster(model, state, cluster, INCLUDED, parent)
    np.testing.assert_array_equal(again, places)
    assert centre.tolist() == [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(factor, np.eye(d))


def test_a_fit_that_has_the_same_place_is_no_answer(crowded):
    """Catches a hit by the digest of the data alone, whatever the key."""
    model, state, cluster, parent, place = crowded
    _, expected, _ = fit_cluster(model, state, cluster, INCLUDED, parent)
    model.fits.key[place, -1] ^= True
    model.fits.centre[place] = 7.0
    _, centre, _ = fit_cluster(model, state, cluster, INCLUDED, parent)
    np.testing.assert_array_equal(centre, expected)
    np.testing.assert_array_equal(model.fits.centre[place, : len(centre)], expected)


def test_other_targets_miss_and_replace_what_is_stored(crowded):
    model, state, cluster, parent, place = crowded
    fit_cluster(model, state, cluster, INCLUDED, parent)
    model.fits.centre[place] = 7.0
    digest = model.fits.data[place].copy()
    model.data.y[:] *= 1.5
    _, centre, _ = fit_cluster(model, state, cluster, INCLUDED, parent)
    assert (np.abs(centre - 7.0) > 1e-3).all()
    assert (model.fits.data[place] != digest).any()
