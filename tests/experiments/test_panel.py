"""Simulated panel data have the moments that their formulas say."""

import numpy as np
import pytest
from scipy import stats

from experiments.kem.panel import EARLIEST, LATEST, PANELS, hyperparameters, noise, panel, size
from kem_pymc.data.datasets.simulate import covariance
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Candidate, Composition

each_study = pytest.mark.parametrize("study", PANELS)


def own_covariance(study, truth, user):
    """The covariance (m, m) of a user's own function, with what changes by its size."""
    x, values = truth.x_test, truth.hyperparameters[user]
    total = np.zeros((len(x), len(x)))
    for term in truth.compositions[user].split(" + "):
        change = PANELS[study].changes.get(term)
        sizes = np.ones(len(x)) if change is None else size(change, x[:, 0], values)
        total += np.outer(sizes, sizes) * covariance(term, values, x, x)
    return total


def outsider(study, composition):
    """Whether a user's own function stands in the place of what the others share."""
    return study == "outsiders" and composition.endswith("SE0")


@each_study
def test_users_own_functions_have_their_covariance(study):
    """Given a user's hyperparameters, E f(x) f(z) is the kernel: variances, autocorrelation."""
    truth = panel(900, 1, seed=1, study=study, batch=1, test_points=4).truth
    follows = np.array([not outsider(study, c) for c in truth.compositions])
    own = truth.f_test - follows[:, None] * truth.shared_test
    pairs = np.triu_indices(4)
    products = (own[:, :, None] * own[:, None, :])[:, *pairs]
    expected = np.array([own_covariance(study, truth, u)[pairs] for u in range(len(own))])
    # Differences in units of their own sd, or users with large values would hide the others.
    variances = np.array([np.diag(own_covariance(study, truth, u)) for u in range(len(own))])
    sd = np.sqrt(variances[:, pairs[0]] * variances[:, pairs[1]] + expected**2 + 1e-12)
    z = ((products - expected) / sd).sum(axis=0) / np.sqrt(len(own))
    assert (np.abs(z) < 4.5).all()
    assert (np.abs(own.mean(axis=0)) < 4.5 * own.std(axis=0) / np.sqrt(len(own)) + 1e-9).all()


@each_study
def test_what_is_shared_has_its_covariance(study):
    shared = PANELS[study].shared
    rng = np.random.default_rng(2)
    truths = [panel(1, 1, seed=rng, study=study, test_points=3, batch=1).truth for _ in range(400)]
    f = np.array([truth.shared_test for truth in truths])
    if not shared:
        assert not f.any()
        return
    values = hyperparameters(shared)
    kernel = lambda x: covariance(" + ".join(shared), values, x, x)  # noqa: E731
    expected = np.array([kernel(truth.x_test) for truth in truths])
    squares = f**2
    variances = expected[:, range(3), range(3)]
    error = np.sqrt(2 * (variances**2).sum(axis=0))
    assert (np.abs((squares - variances).sum(axis=0)) < 4.5 * error + 1e-9).all()
    z = (f[:, 0] * f[:, 2] - expected[:, 0, 2]).sum()
    assert abs(z) < 4.5 * np.sqrt(
        (variances[:, 0] * variances[:, 2] + expected[:, 0, 2] ** 2).sum()
    )


def test_slopes_are_a_linear_mixed_model():
    truth = panel(2000, 1, seed=4, study="slopes", test_points=3, batch=1).truth
    at = truth.f_test - truth.shared_test
    np.testing.assert_allclose(at[:, 1], at[:, [0, 2]].mean(axis=1), atol=1e-6)  # lines
    np.testing.assert_allclose(truth.shared_test[1], truth.shared_test[[0, 2]].mean(), atol=1e-6)
    effects = np.stack([at[:, 0], at[:, 2] - at[:, 0]])  # intercepts, slopes
    error = 4.5 * np.sqrt(2 / 2000)
    np.testing.assert_allclose(np.diag(np.cov(effects)), [0.3, 0.6], rtol=error)
    assert abs(np.corrcoef(effects)[0, 1]) < 4.5 / np.sqrt(2000)


def test_rhythms_set_in():
    truth = panel(40, 1, seed=5, study="onset", test_points=200).truth
    x = truth.x_test[:, 0]
    for values, f in zip(truth.hyperparameters, truth.f_test, strict=True):
        assert EARLIEST <= values["change"] <= LATEST
        before = x <= values["change"]
        line = np.polyfit(x[before], f[before], 1)
        np.testing.assert_allclose(np.polyval(line, x[before]), f[before], atol=1e-5)
        after = f[~before] - np.polyval(line, x[~before])
        assert np.abs(after).max() > 1e-2


@pytest.mark.parametrize(
    ("change", "sizes"),
    [
        ("onset", [0, 0, 0.5, 1, 1, 1]),
        ("end", [1, 1, 0.5, 0, 0, 0]),
        ("relapse", [1, 1, 0.5, 0, 0.5, 1]),
        ("habituation", [0.5, 0.25, 2**-2.25, 2**-3, 2**-3.5, 2**-4]),
    ],
)
def test_sizes_change_as_they_are_named(change, sizes):
    x = np.array([0.2, 0.4, 0.45, 0.6, 0.7, 0.8])
    np.testing.assert_allclose(size(change, x, {"change": 0.4, "half_life": 0.2}), sizes)


@each_study
def test_noise_has_mean_variance_and_skewness(study):
    clean = panel(60, 1, seed=6, study=study, noise_variance=0, batch=10, test_points=10)
    noisy = panel(60, 1, seed=6, study=study, noise_variance=0.4, batch=10, test_points=10)
    np.testing.assert_array_equal(clean.truth.f_test, noisy.truth.f_test)
    at_data = np.stack(noisy.targets) - np.stack(clean.targets)
    for drawn in (at_data, noisy.truth.y_test - noisy.truth.f_test):
        assert abs(drawn.mean()) < 4.5 * np.sqrt(0.4 / drawn.size)
        skewness, kurtosis = (2, 6) if study == "skewed" else (0, 0)
        assert abs(drawn.var() / 0.4 - 1) < 4.5 * np.sqrt((2 + kurtosis) / drawn.size)
        assert stats.skew(drawn.ravel()) == pytest.approx(skewness, abs=0.6)


@pytest.mark.parametrize("skewness", [0.0, 0.5, 2.0])
def test_noise_of_any_skewness(skewness):
    drawn = noise(skewness, (1_000_000,), np.random.default_rng(10))
    np.testing.assert_allclose([drawn.mean(), drawn.var()], [0, 1], atol=0.015)
    assert stats.skew(drawn) == pytest.approx(skewness, abs=0.05)


@each_study
def test_data_and_test_points_lie_on_the_users_function(study):
    if PANELS[study].dimension > 1:
        return
    cohort = panel(4, 6, seed=7, study=study, noise_variance=0, test_points=500)
    grid = cohort.truth.x_test[:, 0]
    for x, y, f in zip(cohort.inputs, cohort.targets, cohort.truth.f_test, strict=True):
        np.testing.assert_allclose(y, np.interp(x[:, 0], grid, f), atol=0.05 * np.ptp(f))


@each_study
def test_inputs_fill_the_unit_range_and_arrive_in_order_where_they_are_times(study):
    cohort = panel(200, 3, seed=8, study=study, batch=2, test_points=1)
    x = np.stack(cohort.inputs)
    assert x.shape == (200, 6, PANELS[study].dimension)
    for d in range(x.shape[2]):
        assert stats.kstest(x[..., d].ravel(), stats.uniform().cdf).pvalue > 0.001
    assert (np.diff(x[..., 0], axis=1) > 0).all() == PANELS[study].in_order
    assert not (np.diff(x[..., 1:], axis=1) > 0).all() or x.shape[2] == 1
    assert cohort.features == tuple(f"x{d}" for d in range(x.shape[2]))


@each_study
def test_truth_is_named_as_kernels_are(study):
    truth = panel(12, 1, study=study, test_points=2).truth
    for composition, values in zip(truth.compositions, truth.hyperparameters, strict=True):
        parsed = Composition.parse(composition)
        assert str(parsed) == composition
        assert set(values) - {"change", "half_life"} == {h.name for h in parsed.hyperparameters}
    kinds = [" + ".join(own) for own in PANELS[study].individual]
    own = [kinds[u % len(kinds)] for u in range(12)]
    if study == "outsiders":
        own[3::4] = ["CONST + LIN0 + SE0"] * 3
    assert list(truth.compositions) == own


def test_users_who_share_nothing_differ_in_values():
    truth = panel(120, 1, seed=9, study="unrelated", test_points=1).truth
    logs = np.log([values["SE0.lengthscale"] for values in truth.hyperparameters[1::6]])
    assert stats.kstest(logs, stats.norm(np.log(0.3), 0.7).cdf).pvalue > 0.001
    assert Candidate() in Composition.parse(truth.compositions[0])


@each_study
def test_the_seed_decides(study):
    one, same = panel(3, 2, 8, study=study), panel(3, 2, np.random.default_rng(8), study=study)
    other = panel(3, 2, 9, study=study)
    np.testing.assert_array_equal(one.targets, same.targets)
    np.testing.assert_array_equal(one.truth.y_test, same.truth.y_test)
    assert one.truth.hyperparameters == same.truth.hyperparameters
    assert not np.any(np.array(one.inputs) == np.array(other.inputs))


def test_parts_of_a_cohort_keep_what_is_shared():
    cohort = panel(5, 1, seed=1, study="slopes")
    part = cohort.subset([3, 0])
    np.testing.assert_array_equal(part.truth.f_test, cohort.truth.f_test[[3, 0]])
    np.testing.assert_array_equal(part.truth.shared_test, cohort.truth.shared_test)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"users": 0}, "users is 0"),
        ({"batch": 0}, "batch is 0"),
        ({"noise_variance": -1.0}, "-1.0"),
        ({"study": "two_types"}, "'two_types'"),
    ],
)
def test_refuses(change, words):
    with pytest.raises(InputError, match=words):
        panel(**change)
