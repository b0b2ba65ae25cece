"""Fits of two-level models: their objective, and what they find."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kem_pymc.kernels.composition import Composition
from kem_pymc.shared.fit import SHORTER, MarginalLikelihood, _part, fit_two_level
from kem_pymc.shared.two_level import SharedPosterior
from tests.gp.problems import composition_covariance


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
    assert not slope[problem.fixed].any()
    np.testing.assert_allclose(
        slope[~problem.fixed], np.array(differences)[~problem.fixed], atol=1e-6, rtol=1e-6
    )


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


def test_the_noise_stops_at_its_floor(users):
    """Catches a floor of the fit that is another one, or isn't a log."""
    inputs = users[0]
    exact = [2 * x[:, 0] for x in inputs]
    problem = MarginalLikelihood(inputs, exact, Composition.parse("CONST + LIN0"), Composition())
    for floor in (1e-3, 1e-5):
        values = problem.maximise(problem.starts[0], floor, 100)
        assert problem.model(values).noise == pytest.approx(floor, rel=1e-9)


def test_the_second_start_has_shorter_lengthscales_and_periods(users):
    compositions = Composition.parse("CONST + LIN1 + PER0"), Composition.parse("SE1")
    problem = MarginalLikelihood(*users, *compositions)
    first, second = problem.starts
    moved = [kind for kind, away in zip(problem.kinds, first - second, strict=True) if away]
    assert sorted(moved) == ["lengthscale", "lengthscale", "period"]
    assert set(first - second) == {0.0, SHORTER}
    # Shifts of the shared level are the features' means, which aren't fitted.
    model = problem.model(problem.maximise(second, 1e-3, 5))
    mean = np.concatenate(users[0])[:, 1].mean()
    assert model.kernel.hyperparameters["LIN1.shift"] == pytest.approx(mean, rel=1e-12)
    assert problem.fixed.sum() == 1


def test_a_covariance_without_a_factor_is_impossible(users):
    problem = MarginalLikelihood(*users, Composition.parse("CONST"), Composition())
    height, slope = problem(np.array([60.0, -60.0]))
    assert height == -np.inf
    assert not slope.any()


@pytest.mark.parametrize("rows", [30, 12, 7])
def test_parts_are_of_whole_users_as_long_as_there_is_room(users, rows):
    """Catches a part with too many rows, of one user, or with targets of other rows."""
    inputs = users[0]  # of 7, 4, 9 and 1 rows
    targets = [x[:, 0] for x in inputs]
    for seed in range(20):
        x, y = _part(inputs, targets, rows, np.random.default_rng(seed))
        assert sum(map(len, y)) <= rows
        assert len(y) >= 2
        for own, values in zip(x, y, strict=True):
            np.testing.assert_array_equal(own[:, 0], values)
            (source,) = [i for i, z in enumerate(inputs) if (z == own[0]).all(axis=1).any()]
            assert (own[-1] == inputs[source][-1]).all() or len(own) == 1
        if rows == 30:
            assert [len(own) for own in y] == [7, 4, 9, 1]
