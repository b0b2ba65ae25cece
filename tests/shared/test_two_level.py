"""The two-level model against dense algebra on all users' rows at once."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kem_pymc.errors import InputError
from kem_pymc.gp.mean_process import MeanProcess, SharedKernel, composition_covariance
from kem_pymc.kernels.composition import Composition
from kem_pymc.shared.fit import MarginalLikelihood, fit_two_level
from kem_pymc.shared.inducing import with_inducing_points
from kem_pymc.shared.two_level import SharedPosterior, TwoLevel

SHARED = Composition.parse("CONST + LIN1 + SE0 x SE1")
VALUES = {
    "CONST.amplitude": 2.0,
    "LIN1.amplitude": 0.7,
    "LIN1.shift": 0.4,
    "SE0 x SE1.amplitude": 1.3,
    "SE0 x SE1.SE0.lengthscale": 0.8,
    "SE0 x SE1.SE1.lengthscale": 0.6,
}
PERSONAL = Composition.parse("CONST + LIN0")
OWN = {"CONST.amplitude": 0.5, "LIN0.amplitude": 0.3, "LIN0.shift": 0.5}
NOISE = 0.05


@pytest.fixture(scope="module")
def users():
    rng = np.random.default_rng(4)
    inputs = [rng.uniform(size=(n, 2)) for n in (7, 4, 9, 1)]
    return inputs, [
        np.sin(5 * x[:, 0]) + rng.normal() + 0.2 * rng.normal(size=len(x)) for x in inputs
    ]


@pytest.fixture(scope="module")
def model(users):
    kernel = SharedKernel(SHARED, VALUES, 2, np.empty((0, 2)))
    plain = TwoLevel(kernel, PERSONAL, OWN, NOISE)
    return with_inducing_points(plain, users[0], np.random.default_rng(0))


def dense(users):
    """Return the covariance of all rows, and the rows of each user."""
    inputs, targets = users
    x = np.concatenate(inputs)
    total = composition_covariance(SHARED, VALUES, x, x) + NOISE * np.eye(len(x))
    ends = np.cumsum([0, *map(len, targets)])
    spans = [slice(a, b) for a, b in pairwise(ends)]
    for span in spans:
        total[span, span] += composition_covariance(PERSONAL, OWN, x[span], x[span])
    return total, spans


def test_weights_and_what_they_leave_add_up_to_the_kernel(model, users):
    x, z = users[0][0], users[0][2]
    features = model.kernel.features(x) @ model.kernel.features(z).T
    whole = composition_covariance(SHARED, VALUES, x, z)
    np.testing.assert_allclose(features + model.kernel.left_over(x, z), whole, atol=1e-10)
    assert np.abs(model.kernel.left_over(x, z)).max() < 1e-3


def test_inducing_points_are_no_rows_of_users(model, users):
    rows = np.concatenate(users[0])
    gaps = np.abs(model.kernel.inducing[:, None] - rows[None]).max(axis=2)
    assert gaps.min() > 1e-6


@pytest.mark.parametrize("user", range(4))
def test_leaving_a_user_out_equals_the_block_formulas(model, users, user):
    # C = ([S^-1]_uu)^-1 - K_u - noise I and m = y_u - ([S^-1]_uu)^-1 [S^-1 y]_u, from one factor
    inputs, targets = users
    total, spans = dense(users)
    inverse = np.linalg.inv(total)
    span, x = spans[user], inputs[user]
    block = np.linalg.inv(inverse[span, span])
    own = composition_covariance(PERSONAL, OWN, x, x) + NOISE * np.eye(len(x))
    mean = targets[user] - block @ (inverse @ np.concatenate(targets))[span]
    left_out = SharedPosterior.of(model, inputs, targets).without(user)
    sd = np.sqrt(np.diag(block))
    assert np.abs((left_out.mean(x) - mean) / sd).max() < 0.01
    assert np.abs(left_out.covariance(x, x) - (block - own)).max() < 0.01 * block.max()


def test_predictive_densities_add_up_as_conditional_densities(model, users):
    inputs, targets = users
    total, spans = dense(users)
    y = np.concatenate(targets)
    posterior = SharedPosterior.of(model, inputs, targets)
    for user, span in enumerate(spans):
        found = posterior.log_predictive_density(user, inputs[user], targets[user])
        rest = np.setdiff1d(np.arange(len(y)), np.arange(len(y))[span])
        both = multivariate_normal(np.zeros(len(y)), total).logpdf(y)
        others = multivariate_normal(np.zeros(len(rest)), total[np.ix_(rest, rest)]).logpdf(y[rest])
        assert found == pytest.approx(both - others, abs=0.01)


def test_predictions_for_a_new_user_are_within_a_hundredth_of_an_sd(model, users):
    inputs, targets = users
    new = np.random.default_rng(9).uniform(0.1, 0.9, (20, 2))
    total, _ = dense(users)
    cross = composition_covariance(SHARED, VALUES, new, np.concatenate(inputs))
    mean = cross @ np.linalg.solve(total, np.concatenate(targets))
    covariance = composition_covariance(SHARED, VALUES, new, new)
    covariance -= cross @ np.linalg.solve(total, cross.T)
    process = SharedPosterior.of(model, inputs, targets).process
    sd = np.sqrt(np.diag(covariance) + NOISE)
    assert np.abs((process.mean(new) - mean) / sd).max() < 0.01
    found = np.sqrt(np.diag(process.covariance(new, new)) + NOISE)
    np.testing.assert_allclose(found, sd, rtol=0.01)


def test_plain_data_make_the_same_process(model, users):
    process = SharedPosterior.of(model, *users).process
    again = MeanProcess.from_dict(process.to_dict(), 2)
    x = users[0][2]
    np.testing.assert_array_equal(again.mean(x), process.mean(x))
    np.testing.assert_array_equal(again.covariance(x, x), process.covariance(x, x))
    assert TwoLevel.from_dict(model.to_dict(), 2).to_dict() == model.to_dict()


@pytest.mark.parametrize("shared", ["WHITE", "CONST + LIN0 + SE1"])
@pytest.mark.parametrize("personal", ["WHITE", "CONST + SE0 x SE1"])
def test_marginal_likelihood_and_gradient(users, shared, personal):
    problem = MarginalLikelihood(*users, Composition.parse(shared), Composition.parse(personal))
    start = problem.starts[0]
    values = start + 0.3 * np.random.default_rng(1).normal(size=len(start))
    height, slope = problem(values)
    found = problem.model(values)
    x, y = np.concatenate(users[0]), np.concatenate(users[1])
    total = composition_covariance(found.kernel.composition, found.kernel.hyperparameters, x, x)
    user = np.repeat(np.arange(4), [len(t) for t in users[1]])
    own = composition_covariance(found.personal, found.hyperparameters, x, x)
    total += np.where(user[:, None] == user, own, 0.0) + found.noise * np.eye(len(x))
    away = values - problem.prior_mean
    flat = [  # small amplitudes and long lengthscales
        (kind == "amplitude" and a < 0) or (kind == "lengthscale" and a > 0)
        for kind, a in zip(problem.kinds, away, strict=True)
    ]
    prior = -0.5 * np.sum((away / np.where(flat, 8.0, problem.prior_sd)) ** 2)
    expected = multivariate_normal(np.zeros(len(y)), total).logpdf(y) + prior
    assert height == pytest.approx(expected, abs=1e-8)
    step = 1e-5
    differences = [
        (problem(values + step * e)[0] - problem(values - step * e)[0]) / (2 * step)
        for e in np.eye(len(values))
    ]
    np.testing.assert_allclose(slope, differences, atol=1e-6, rtol=1e-6)


def test_a_fit_finds_the_values_that_made_the_data():
    # Faults it would catch: noise and personal variance taken for one another, a shared line lost.
    rng = np.random.default_rng(2)
    inputs = [rng.uniform(size=(12, 1)) for _ in range(60)]
    targets = [1 + 3 * x[:, 0] + 0.7 * rng.normal() + 0.2 * rng.normal(size=len(x)) for x in inputs]
    linear, level = Composition.parse("CONST + LIN0"), Composition.parse("CONST")
    model = fit_two_level(inputs, targets, linear, level, 1e-4, np.random.default_rng(0))
    assert model.noise == pytest.approx(0.04, rel=0.1)
    assert model.hyperparameters["CONST.amplitude"] == pytest.approx(0.49, rel=0.4)
    process = SharedPosterior.of(model, inputs, targets).process
    line = process.mean(np.array([[0.0], [1.0]]))
    np.testing.assert_allclose(line, [1, 4], atol=0.25)
    assert line[1] - line[0] == pytest.approx(3, abs=0.1)


def test_features_that_play_no_part_drop_out():
    """Catches a prior that holds each amplitude near its median: of ten features one matters."""
    rng = np.random.default_rng(4)
    inputs = [rng.uniform(size=(10, 10)) for _ in range(8)]
    targets = [3 * x[:, 0] + 0.1 * rng.normal(size=len(x)) for x in inputs]
    linear = Composition.parse("CONST + " + " + ".join(f"LIN{d}" for d in range(10)))
    model = fit_two_level(inputs, targets, linear, Composition(), 1e-4, np.random.default_rng(0))
    amplitudes = [model.kernel.hyperparameters[f"LIN{d}.amplitude"] for d in range(10)]
    assert amplitudes[0] > 1
    assert np.median(amplitudes[1:]) < 1e-3
    assert max(amplitudes[1:]) < 0.05


def test_a_missing_value_is_named(users):
    kernel = SharedKernel(SHARED, {"CONST.amplitude": 1.0}, 2, users[0][0])
    with pytest.raises(InputError, match="no value of"):
        kernel.left_over(users[0][0], users[0][0])
