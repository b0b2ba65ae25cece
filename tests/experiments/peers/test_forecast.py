"""Peers' predictions in users' units, and the joint distribution that is conditioned."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from experiments.peers.forecast import Pilots
from experiments.peers.joint import LEAST, Joint, JointSelector
from kem_pymc.comparison.costs import Metered
from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.selection.scores import predictive_scores


def smooth(x):
    """Some joint distribution of observations at inputs."""
    apart = x[:, 0, None] - x[:, 0]
    return Joint(np.sin(3 * x[:, 0]), np.exp(-2 * apart**2) + 0.1 * np.eye(len(x)))


@dataclass(frozen=True)
class Remembered:
    """The same, with pilot users' rows."""

    rows: np.ndarray

    def __call__(self, x):
        return smooth(x)


@pytest.fixture(scope="module")
def selector(pilots):
    return JointSelector(smooth, pilots.scaling)


def test_a_joint_distribution_is_conditioned(selector, pilots):
    """The density of a next row is the ratio of SciPy's joint densities, in the user's units."""
    x, y = np.array([0.0, 2.0, 3.0, 5.0]), np.array([11.0, 9.0, 12.0, 14.0])
    mean, covariance = smooth(pilots.scaling.inputs(x[:, None]))
    covariance = covariance + LEAST * np.diag([1, 1, 1, 0])
    scaled = pilots.scaling.targets(y)
    whole = multivariate_normal(mean, covariance).logpdf(scaled)
    first = multivariate_normal(mean[:3], covariance[:3, :3]).logpdf(scaled[:3])
    forecast = selector.select(x[:3], y[:3])
    found = predictive_scores(forecast, x[3:, None], y[3:], unit=pilots.scaling.target_sd)
    assert found["log_likelihood"] == pytest.approx(whole - first, abs=1e-10)
    prediction = forecast.predict(x[3:], include_noise=True)
    density = norm(prediction.mean, prediction.sd).logpdf(y[3:])
    assert density + np.log(pilots.scaling.target_sd) == pytest.approx(whole - first, abs=1e-10)


def test_only_observations_are_predicted(selector):
    forecast = selector.select([0.0], [1.0])
    with pytest.raises(InputError, match="include_noise=True"):
        forecast.predict([1.0])
    with pytest.raises(InputError, match="can't use noise"):
        selector.select([0.0], [1.0], noise=[0.1])


def test_categories_are_refused(cohort):
    parts = (cohort.users, cohort.inputs, cohort.targets, cohort.ends, cohort.features)
    with pytest.raises(InputError, match="Leave out categories"):
        Pilots.of(Cohort(*parts, levels={"time": tuple("abcdef")}))


def test_pilots_without_a_user(pilots):
    others = pilots.without(2)
    assert others.users.max() == pilots.users.max() - 1
    np.testing.assert_array_equal(others.by_user()[2][1], pilots.by_user()[3][1])


def test_state_is_what_a_user_adds(selector):
    """A row more is a number more of each of x and y; what is shared or recomputed isn't counted.

    Fails where the pilot users' rows, which the selector has, count for each user, or the Cholesky
    factor, which grows with the square of the rows.
    """
    selector = JointSelector(Remembered(np.zeros(10_000)), selector.scaling)
    sizes = []
    for n in (100, 101):
        metered = Metered(selector)
        selection = metered.select(np.linspace(0, 5, n), np.zeros(n))
        sizes.append(1000 * metered.kilobytes(selection))
        assert len(metered.seconds) == 1
    assert sizes[1] - sizes[0] == pytest.approx(16, abs=4)
    assert sizes[0] < 16 * 100 + 1500
