"""Selectors that predict with a two-level model, beside dense algebra on all users' rows."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.gp.mean_process import SharedKernel
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection.two_level import TwoLevelSelector
from kem_pymc.shared.choice import SharedPart
from kem_pymc.shared.two_level import SharedPosterior, TwoLevel
from tests.gp.problems import composition_covariance
from tests.shared.two_levels import NOISE, OWN, PERSONAL, SHARED, VALUES


@pytest.fixture
def newcomer():
    """Inputs and targets of a user who isn't among the pilots, and new inputs."""
    rng = np.random.default_rng(8)
    x, new = rng.uniform(0.1, 0.9, (5, 2)), rng.uniform(0.1, 0.9, (6, 2))
    return x, np.sin(5 * x[:, 0]) + rng.normal(size=5), new


def selector_of(model, users, scaling=None):
    part = SharedPart(SharedPosterior.of(model, *users), tuple(range(len(users[0]))))
    return TwoLevelSelector(part, Scaling.identity(2) if scaling is None else scaling)


def dense(users, x, y, new, personal):
    """Return mean and sd of a new user's function, given all users' rows and the user's own."""
    inputs, targets = [*users[0], x], [*users[1], y]
    rows = np.concatenate(inputs)
    user = np.repeat(np.arange(len(inputs)), [len(own) for own in inputs])

    def k(one, other, same):
        own = composition_covariance(personal, OWN, one, other)
        return composition_covariance(SHARED, VALUES, one, other) + np.where(same, own, 0.0)

    total = k(rows, rows, user[:, None] == user) + NOISE * np.eye(len(rows))
    cross = k(new, rows, (user == user[-1])[None])
    mean = cross @ np.linalg.solve(total, np.concatenate(targets))
    covariance = k(new, new, True) - cross @ np.linalg.solve(total, cross.T)
    return mean, np.sqrt(np.diag(covariance))


@pytest.mark.parametrize("personal", [PERSONAL, Composition()], ids=str)
def test_predictions_are_those_given_all_users_rows(model, users, newcomer, personal):
    """Catches a shared mean that is lost, or certain, and a personal part of another user."""
    x, y, new = newcomer
    own = OWN if len(personal) else {}
    plain = TwoLevel(model.kernel, personal, own, NOISE)
    selector = selector_of(plain, users)
    selection = selector.select(x, y)
    gram = selector.shared.covariance(x, x) + composition_covariance(personal, own, x, x)
    law = multivariate_normal(selector.shared.mean(x), gram + NOISE * np.eye(5))
    assert selection.considered[0].log_likelihood == pytest.approx(law.logpdf(y), abs=1e-8)
    prediction = selection.predict(new)
    mean, sd = dense(users, x, y, new, personal)
    assert np.abs((prediction.mean - mean) / np.sqrt(sd**2 + NOISE)).max() < 0.01
    np.testing.assert_allclose(np.sqrt(prediction.sd**2 + NOISE), np.sqrt(sd**2 + NOISE), rtol=0.01)
    assert selection.composition == personal
    assert selection.noise == pytest.approx(NOISE)
    assert selection.hyperparameters == pytest.approx(own)
    assert [row.status for row in selection.considered] == ["fixed"]


def test_where_nothing_is_shared_users_are_alone(users, newcomer):
    x, y, new = newcomer
    kernel = SharedKernel(Composition(), {}, 2, np.empty((0, 2)))
    selector = selector_of(TwoLevel(kernel, PERSONAL, OWN, NOISE), users)
    assert selector.shared is None
    selection = selector.select(x, y)
    gram = composition_covariance(PERSONAL, OWN, x, x) + NOISE * np.eye(5)
    likelihood = multivariate_normal(None, gram).logpdf(y)
    assert selection.considered[0].log_likelihood == pytest.approx(likelihood, abs=1e-9)
    cross = composition_covariance(PERSONAL, OWN, new, x)
    expected = cross @ np.linalg.solve(gram, y)
    np.testing.assert_allclose(selection.predict(new).mean, expected, rtol=0, atol=1e-9)


def test_data_are_scaled_and_predictions_scaled_back(model, users, newcomer):
    x, y, new = newcomer
    scaling = Scaling(np.array([1.0, 0.0]), np.array([8.0, 2.0]), 100.0, 50.0)
    plain = selector_of(model, users).select(x, y).predict(new)
    raw = x * [7, 2] + [1, 0], 100 + 50 * y
    other = selector_of(model, users, scaling).select(*raw).predict(new * [7, 2] + [1, 0])
    np.testing.assert_allclose(other.mean, 100 + 50 * plain.mean, rtol=1e-9)
    np.testing.assert_allclose(other.sd, 50 * plain.sd, rtol=1e-7)


@pytest.fixture(scope="module")
def pilot():
    """Users with a common slope of 3 per unit of 10 days and levels of their own, around 200."""
    rng = np.random.default_rng(2)
    inputs = [rng.uniform(0, 10, (10, 1)) for _ in range(12)]
    levels = rng.normal(0, 7, 12)
    targets = [
        200 + level + 3 * x[:, 0] + rng.normal(size=10)
        for level, x in zip(levels, inputs, strict=True)
    ]
    ends = (np.array([10]),) * 12
    return Cohort(tuple(range(12)), tuple(inputs), tuple(targets), ends, ("day",))


@pytest.mark.parametrize(
    ("kind", "shared", "personal"),
    [("linear", "CONST + LIN0", "CONST + LIN0"), ("pooled", "CONST + LIN0 + SE0", "WHITE")],
)
def test_what_is_learned_from_pilot_users(pilot, kind, shared, personal):
    """A linear mixed model keeps the user's level, one GP for all rows doesn't."""
    selector = TwoLevelSelector.learn(pilot, kind)
    assert repr(selector) == f"TwoLevelSelector(shared={shared}, personal={personal})"
    prediction = selector.select([1.0, 2.0, 4.0], [223.0, 226.0, 232.0]).predict([9.0])
    expected = 247.0 if kind == "linear" else 227.0
    assert prediction.mean[0] == pytest.approx(expected, abs=5)
    assert (prediction.noise < 4) == (kind == "linear")
