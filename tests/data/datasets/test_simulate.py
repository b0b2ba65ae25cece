import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from kem_pymc.data.datasets import synthetic
from kem_pymc.data.datasets.simulate import STUDIES, covariance, draw_function, draw_hyperparameters
from kem_pymc.kernels.composition import Composition
from tests.refusals import refused

THETA = {
    "LIN0": {"LIN0.amplitude": 0.3, "LIN0.shift": 2.0},
    "PER0": {"PER0.amplitude": 1.5, "PER0.lengthscale": 0.8, "PER0.period": 3.0},
    "SE0": {"SE0.amplitude": 2.0, "SE0.lengthscale": 1.3},
    "LIN0 x PER0": {
        "LIN0 x PER0.amplitude": 0.7,
        "LIN0 x PER0.LIN0.shift": 4.0,
        "LIN0 x PER0.PER0.lengthscale": 1.1,
        "LIN0 x PER0.PER0.period": 5.0,
    },
}


def by_hand(term, x, z):
    """The covariance of two points, written out with these hyperparameters."""
    match term:
        case "LIN0":
            return 0.3 * (x - 2) * (z - 2)
        case "PER0":
            return 1.5 * math.exp(-2 * math.sin(math.pi * abs(x - z) / 3) ** 2 / 0.64)
        case "SE0":
            return 2 * math.exp(-((x - z) ** 2) / 3.38)
        case "LIN0 x PER0":
            periodic = math.exp(-2 * math.sin(math.pi * abs(x - z) / 5) ** 2 / 1.21)
            return 0.7 * (x - 4) * (z - 4) * periodic


def theta(composition):
    return {k: v for term in composition.split(" + ") for k, v in THETA[term].items()}


SUMS = ["LIN0", "PER0", "SE0", "LIN0 x PER0", "LIN0 + PER0", "LIN0 x PER0 + SE0"]


@pytest.mark.parametrize("composition", SUMS)
def test_covariance_is_the_papers(composition):
    x, z = np.array([0.0, 1.7, 9.0]), np.array([0.5, 4.4])
    terms = composition.split(" + ")
    expected = [[sum(by_hand(term, a, b) for term in terms) for b in z] for a in x]
    np.testing.assert_allclose(
        covariance(composition, theta(composition), x, z), expected, rtol=1e-13
    )


@pytest.mark.parametrize("composition", SUMS)
def test_draws_have_the_covariance(composition):
    rng = np.random.default_rng(11)
    x = np.array([0.4, 5.0, 5.3, 12.0])
    n = 4000
    f = np.stack([draw_function(composition, theta(composition), x, rng) for _ in range(n)])
    k = covariance(composition, theta(composition), x, x)
    error = np.sqrt((np.outer(np.diag(k), np.diag(k)) + k**2) / n)
    assert np.all(np.abs(f.T @ f / n - k) < 4.5 * error)
    assert np.all(np.abs(f.mean(axis=0)) < 4.5 * np.sqrt(np.diag(k) / n))


def test_a_linear_function_is_a_straight_line_through_its_shift():
    x = np.array([2.0, 3.0, 7.0])
    f = draw_function("LIN0", theta("LIN0"), x, np.random.default_rng(1))
    np.testing.assert_allclose(f, [0, f[1], 5 * f[1]], atol=1e-5)


def test_draws_ignore_the_signs_of_eigenvectors(monkeypatch):
    x = np.linspace(0, 20, 30)
    expected = draw_function("SE0", theta("SE0"), x, np.random.default_rng(1))
    eigh = np.linalg.eigh

    def flipped(matrix):
        values, vectors = eigh(matrix)
        return values, vectors * np.where(np.arange(len(values)) % 2, -1, 1)

    monkeypatch.setattr(np.linalg, "eigh", flipped)
    got = draw_function("SE0", theta("SE0"), x, np.random.default_rng(1))
    np.testing.assert_allclose(got, expected, atol=1e-9)


# Section 10.2.1: mean and sd of the log, or of the value itself for the shift.
PAPER = {
    ("LIN0 + PER0", "LIN0.amplitude"): (1.609, 0.1),
    ("LIN0 + PER0", "LIN0.shift"): (5, 1),
    ("LIN0 + PER0", "PER0.amplitude"): (1.609, 0.1),
    ("LIN0 + PER0", "PER0.lengthscale"): (0, 0.1),
    ("LIN0 + PER0", "PER0.period"): (1.386, 0.1),
    ("SE0", "SE0.amplitude"): (2.302, 0.1),
    ("SE0", "SE0.lengthscale"): (0, 0.1),
}


@pytest.mark.parametrize(("composition", "name"), PAPER)
def test_hyperparameters_are_the_papers(composition, name):
    rng = np.random.default_rng(5)
    draws = np.array([draw_hyperparameters(composition, rng)[name] for _ in range(2000)])
    values = draws if name.endswith("shift") else np.log(draws)
    assert stats.kstest(values, stats.norm(*PAPER[composition, name]).cdf).pvalue > 0.001


@pytest.mark.parametrize("study", STUDIES)
def test_names_are_those_of_the_kernels(study):
    truth = synthetic(2, 1, study=study).truth
    for composition, values in zip(truth.compositions, truth.hyperparameters, strict=True):
        parsed = Composition.parse(composition)
        assert str(parsed) == composition
        assert set(values) == {h.name for h in parsed.hyperparameters}


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("users", [10, 7, 1])
def test_half_of_the_users_have_either_composition(study, users):
    truth = synthetic(users, 1, study=study, test_points=2).truth
    counts = Counter(truth.compositions)
    first, second = STUDIES[study]
    assert (counts[first], counts[second]) == ((users + 1) // 2, users // 2)


def test_defaults_are_the_papers():
    cohort = synthetic()
    assert (cohort.n_users, cohort.max_steps, cohort.n_points) == (10, 6, 300)
    assert cohort.truth.noise_variance == 0.5
    assert len(cohort.truth.x_test) == 200
    assert cohort.truth.f_test.shape == cohort.truth.y_test.shape == (10, 200)


def test_inputs_are_uniform_in_random_order():
    x = np.stack(synthetic(100, 6, seed=2, test_points=1).inputs)[:, :, 0]
    assert stats.kstest(x.ravel(), stats.uniform(0, 20).cdf).pvalue > 0.001
    up = (np.diff(x) > 0).mean()  # successive rises are correlated, each has variance 1/4
    assert abs(up - 0.5) < 4.5 * 0.5 / np.sqrt(x[:, 1:].size)


def test_data_and_test_points_lie_on_one_function():
    cohort = synthetic(6, 6, seed=3, noise_variance=0, study="complex", test_points=800)
    for x, y, f in zip(cohort.inputs, cohort.targets, cohort.truth.f_test, strict=True):
        np.testing.assert_allclose(
            y, np.interp(x[:, 0], cohort.truth.x_test[:, 0], f), atol=0.01 * np.std(f)
        )


def test_noise_has_its_variance_everywhere_and_is_new_at_test_points():
    clean = synthetic(60, 6, seed=4, noise_variance=0)
    noisy = synthetic(60, 6, seed=4, noise_variance=0.5)
    at_data = np.stack(noisy.targets) - np.stack(clean.targets)
    at_test = noisy.truth.y_test - noisy.truth.f_test
    np.testing.assert_array_equal(clean.truth.f_test, noisy.truth.f_test)
    for noise in (at_data, at_test):
        assert abs(noise.mean()) < 4.5 * np.sqrt(0.5 / noise.size)
        assert abs(noise.var() - 0.5) < 4.5 * 0.5 * np.sqrt(2 / noise.size)
    products = at_data[:, :30] * at_test[:, :30]
    assert abs(products.mean()) < 4.5 * 0.5 / np.sqrt(products.size)


def test_the_seed_decides():
    one, same, other = (
        synthetic(seed=8),
        synthetic(seed=np.random.default_rng(8)),
        synthetic(seed=9),
    )
    np.testing.assert_array_equal(one.targets, same.targets)
    np.testing.assert_array_equal(one.truth.y_test, same.truth.y_test)
    assert one.truth.hyperparameters == same.truth.hyperparameters
    assert not np.any(np.array(one.inputs) == np.array(other.inputs))


def test_truth_goes_with_its_users():
    cohort = synthetic(5, 2, seed=1)
    part = cohort.subset([3, 0])
    assert part.truth.compositions == ("SE0", "LIN0 + PER0")
    assert part.truth.hyperparameters == tuple(cohort.truth.hyperparameters[u] for u in (3, 0))
    np.testing.assert_array_equal(part.truth.f_test, cohort.truth.f_test[[3, 0]])
    np.testing.assert_array_equal(part.truth.y_test, cohort.truth.y_test[[3, 0]])
    pilot, test = cohort.split(0)
    assert len(pilot.truth.f_test) == 2
    assert len(test.truth.f_test) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"users": 0},
        {"time_steps": 0},
        {"batch": 0},
        {"test_points": 0},
        {"noise_variance": -0.1},
        {"noise_variance": np.nan},
        {"noise_variance": np.inf},
        {"study": "three_types"},
    ],
)
def test_refuses(change):
    refused(lambda: synthetic(**change))
