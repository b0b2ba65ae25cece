"""The engine: states as arrays, and what other processes get of it."""

import pickle

import numpy as np
import pytest


def test_an_engine_survives_pickling_without_its_pointers(model, engine):
    copy = pickle.loads(pickle.dumps(model.engine))
    arrays = engine.simulate(np.random.default_rng(0))
    np.testing.assert_allclose(copy.log_likelihood(arrays), engine.log_likelihood(arrays))


def test_states_are_arrays_and_back(engine):
    """Fails where a label, value or noise is at another dataset, or absent ones have values."""
    for seed in range(3):
        arrays = engine.simulate(np.random.default_rng(seed))
        again = engine.dump(engine.load(engine.model, *arrays))
        for one, other in zip(arrays, again, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
    simplest = engine.simplest()
    assert np.isfinite(engine.log_likelihood(simplest)[engine.present]).all()
    assert np.isnan(simplest[2][~engine.present]).all()
    assert len(np.unique(simplest[2][engine.present])) == 1
    assert simplest[2][0, 0] == pytest.approx(np.exp(2), rel=0.1)  # the median of LogNormal(2, .5)


def test_other_targets_take_the_place_of_the_data(engine):
    """As of a draw whose targets are observed; the engine's own study stays as it was."""
    arrays = engine.simulate(np.random.default_rng(1))
    own = engine.log_likelihood(arrays)
    y = engine.simulate_targets(arrays, np.random.default_rng(2))
    other = engine.log_likelihood(arrays, y)
    assert (other[engine.present] != own[engine.present]).all()
    np.testing.assert_array_equal(engine.log_likelihood(arrays), own)
    np.testing.assert_allclose(engine.log_likelihood(arrays, engine.targets), own)
