"""The mean process against the kernel that it stands for."""

import numpy as np
import pytest

from kem_pymc.errors import InputError
from kem_pymc.gp.mean_process import MeanAtPoints, MeanProcess, SharedKernel, is_linear
from kem_pymc.kernels.composition import Candidate, Composition
from tests.shared.two_levels import SHARED, VALUES


def test_a_missing_value_is_named(users):
    kernel = SharedKernel(SHARED, {"CONST.amplitude": 1.0}, 2, users[0][0])
    with pytest.raises(InputError, match="no value of"):
        kernel.rest_kernel  # noqa: B018


@pytest.fixture(scope="module")
def posterior(model):
    """A posterior with some precision and mean of the weights."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(model.kernel.size,) * 2)
    precision = root @ root.T / model.kernel.size + np.eye(model.kernel.size)
    return precision, rng.normal(size=model.kernel.size)


def by_numpy(x, z):
    """Return the kernel of `SHARED` with `VALUES`, written out."""
    lines = (x[:, None, 1] - 0.4) * (z[None, :, 1] - 0.4)
    far = ((x[:, None] - z[None]) / np.array([0.8, 0.6])) ** 2
    return 2.0 + 0.7 * lines + 1.3 * np.exp(-0.5 * far.sum(axis=2))


def test_weights_have_the_normal_distribution_of_this_precision(model, posterior, users):
    precision, shift = posterior
    process = MeanProcess.of_precision(model.kernel, precision, shift)
    x, z = users[0][0], users[0][2]
    one, other = model.kernel.features(x), model.kernel.features(z)
    mean = one @ np.linalg.solve(precision, shift)
    np.testing.assert_allclose(process.mean(x), mean, rtol=0, atol=1e-10)
    expected = one @ np.linalg.solve(precision, other.T)
    expected += model.kernel.left_over(x, z, one, other)
    np.testing.assert_allclose(process.covariance(x, z), expected, rtol=0, atol=1e-10)
    parts = [process.mean(x, candidate) for candidate in SHARED]
    np.testing.assert_allclose(np.sum(parts, axis=0), mean, rtol=0, atol=1e-10)


def test_before_any_data_the_process_is_its_kernel(model, users):
    size = model.kernel.size
    prior = MeanProcess.of_precision(model.kernel, np.eye(size), np.zeros(size))
    x, z = users[0][0], users[0][2]
    assert not prior.mean(x).any()
    np.testing.assert_allclose(prior.covariance(x, z), by_numpy(x, z), rtol=0, atol=1e-10)
    features = model.kernel.features(x), model.kernel.features(z)
    assert np.abs(model.kernel.left_over(x, z, *features)).max() < 1e-3


def test_new_points_are_those_that_were_asked_for(model, posterior, users):
    """Catches covariances that are transposed, or those of the points before."""
    process = MeanProcess.of_precision(model.kernel, *posterior)
    x, z = users[0][0], users[0][2]
    at = MeanAtPoints(process, x)
    new = at.to(z)
    assert at.to(z) is new  # only the last ones are kept
    np.testing.assert_array_equal(new.mean, process.mean(z))
    np.testing.assert_array_equal(new.cross, process.covariance(x, z))
    np.testing.assert_array_equal(new.covariance, process.covariance(z, z))
    np.testing.assert_array_equal(at.to(z + 1.0).x, z + 1.0)
    assert at.to(z) is not new


def test_a_kernel_of_lines_needs_no_inducing_points(users):
    x = users[0][2]
    lines = Composition.parse("CONST + LIN1")
    kernel = SharedKernel(lines, VALUES, 2, np.empty((0, 2)))
    expected = 2.0 + 0.7 * np.outer(x[:, 1] - 0.4, x[:, 1] - 0.4)
    features = kernel.features(x)
    np.testing.assert_allclose(features @ features.T, expected, rtol=0, atol=1e-12)
    assert not kernel.left_over(x, x, features, features).any()
    again = SharedKernel.from_dict(kernel.to_dict(), 2)
    assert again.inducing.shape == (0, 2)
    np.testing.assert_array_equal(again.features(x), features)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("CONST", True), ("LIN1", True), ("SE0", False), ("LIN0 x LIN1", False), ("PER0", False)],
)
def test_lines_and_levels_are_linear(text, expected):
    assert is_linear(Candidate.parse(text)) is expected
