"""Selections and predictions of users with next to no data, very much, and at far inputs."""

import warnings

import numpy as np
import pytest

from kem_pymc import KEMSelector
from kem_pymc.errors import InputError
from kem_pymc.selection.online import select_online_for_user


def sound(selection, x):
    """Return whether predictions are finite, bounds are in order, and noise adds to the sd."""
    message = selection.predict(x, include_noise=True)
    bounds = [message.quantile(p) for p in (0.025, 0.5, 0.975)]
    return (
        np.isfinite([message.mean, message.sd, *bounds]).all()
        and (np.diff(bounds, axis=0) > 0).all()
        and (message.sd > message.sd_function).all()
    )


@pytest.mark.parametrize(
    "x",
    [
        np.array([0.3]),
        np.array([0.3, 0.9]),
        np.array([0.3, 0.3]),
        np.array([0.0, 0.0, 0.0, 0.1, 0.1, 0.7, 2.5, 2.5]),  # irregular, measured repeatedly
    ],
)
def test_users_with_few_or_repeated_rows(learned, x):
    y = np.sin(3 * x) + 0.1 * np.arange(len(x))
    ends = [*np.unique(x, return_index=True)[1][1:], len(x)]
    trajectory = select_online_for_user(KEMSelector(learned), (x[:, None], y, np.array(ends), {}))
    assert len(trajectory) == len(set(x))
    assert all(sound(selection, np.linspace(-1, 4, 5)) for selection in trajectory)


@pytest.mark.parametrize("far", [1e13, 1e100, 1e200, 1e308, -1e200])
@pytest.mark.parametrize("single", [True, False])
def test_far_inputs_have_finite_predictions_or_are_refused(learned, far, single):
    x = np.arange(6.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for y in (2 * x, np.sin(x)):  # linear, and not
            selection = KEMSelector(learned).select(x, y)
            try:
                message = selection.predict([far, 1.0], single=single)
            except InputError:
                continue
            assert np.isfinite([message.mean, message.sd]).all()
