import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from kem_pymc.gp.likelihood import (
    JITTER,
    LARGEST_LOG,
    Data,
    covariance,
    prefix_log_likelihood,
    weighted_gradient,
)
from kem_pymc.kernels.library import kernels
from tests.gp.problems import (
    LONGER,
    NAMES,
    PAIRS,
    Problem,
    log_likelihoods,
    normal_log_density,
)


def assert_no_gradient(problem):
    out = np.full(len(problem.h) + 1, 3.0)
    assert problem.gradient(np.ones(12), out)[0] == -math.inf
    assert (out == 3.0).all()


def ragged(problem, nested, sequential=False):
    """Three users with one, four and two time steps."""
    rng = np.random.default_rng(5)
    ends = np.array([[4, 4, 4, 4], [1, 2, 7, 12], [3, 9, 9, 9]])
    steps = np.array([1, 4, 2])
    x = rng.uniform(-2, 2, (3, *problem.x.shape))
    y = rng.normal(size=(3, 4, 12))
    if nested:
        y[:] = y[:, :1]
    # Nothing behind the last end may be looked at.
    for user, last in enumerate(ends[:, -1]):
        x[user, :, last:] = np.nan
        y[user, :, last:] = np.nan
    return Data(x, y, ends, steps, nested, sequential)


class TestPrefixes:
    @pytest.mark.parametrize("nested", [True, False])
    @pytest.mark.parametrize("sequential", [False, True])
    @pytest.mark.parametrize("text", ["WHITE", "PER0", "LIN0 x SE1 + MATERN322", *LONGER])
    def test_every_dataset_of_ragged_users(self, text, sequential, nested):
        problem = Problem(text)
        data = ragged(problem, nested, sequential)
        for user, upto in enumerate(data.n_steps):
            out, counts = log_likelihoods(problem, data, user, upto)
            assert counts == [1, 0]
            assert (out[upto:] == 7.0).all()
            last = data.ends[user, upto - 1]
            problem.x = np.ascontiguousarray(data.x[user, :, :last])
            k = problem.kernel_matrix() + math.exp(problem.log_noise) * np.eye(last)
            ends = data.ends[user]
            expected = [normal_log_density(data.y[user, t, : ends[t]], k) for t in range(upto)]
            if sequential:  # log p(new | old) = log p(new, old) - log p(old), in one row of targets
                for t in range(1, upto):
                    expected[t] -= normal_log_density(data.y[user, t, : ends[t - 1]], k)
            np.testing.assert_allclose(out[:upto], expected, rtol=1e-9)


class TestNotPositiveDefinite:
    ENDS = (3, 6, 8, 12)

    def duplicated(self):
        """Points 6 to 11 are the first six again, and there is practically no noise."""
        problem = Problem("SE0")
        problem.x[0, :6] = problem.x[0, 6:] = np.arange(6.0)
        problem.h[problem.places] = 0.0
        problem.log_noise = -90.0
        return problem

    def test_jitter_begins_at_the_point_that_failed_and_is_counted(self):
        problem = self.duplicated()
        out, counts = problem.prefixes(self.ENDS)
        assert counts == [2, 0]
        exact = problem.kernel_matrix()
        jittered = exact + JITTER * np.diag(np.arange(12) >= 6)
        expected = [
            normal_log_density(problem.y[:n], exact if n <= 6 else jittered) for n in self.ENDS
        ]
        np.testing.assert_allclose(out[:2], expected[:2], rtol=1e-10)
        np.testing.assert_allclose(out[2:], expected[2:], rtol=1e-6)

    @pytest.mark.parametrize("upto", [1, 2, 3])
    def test_a_prefix_does_not_depend_on_what_follows(self, upto):
        problem = self.duplicated()
        whole, _ = problem.prefixes(self.ENDS)
        part, counts = problem.prefixes(self.ENDS[:upto])
        assert counts == [1 if upto < 3 else 2, 0]
        np.testing.assert_allclose(part, whole[:upto], rtol=1e-10)

    def test_huge_linear_kernel_with_vanishing_noise(self):
        # Powers of two: no rounding hides that the covariance has rank one.
        problem = Problem("LIN0", points=4)
        problem.x[0] = 2.0 ** np.array([30, 31, 32, 33])
        problem.h[problem.places] = 0.0
        problem.log_noise = -90.0
        out, counts = problem.prefixes([1, 4])
        assert counts == [2, 0]
        exact = problem.kernel_matrix()
        np.testing.assert_allclose(out[0], normal_log_density(problem.y[:1], exact), rtol=1e-12)
        # The first target determines the others, but for the jitter.
        others = norm(2.0 ** np.arange(1, 4) * problem.y[0], math.sqrt(JITTER * exact[1, 1]))
        np.testing.assert_allclose(out[1] - out[0], others.logpdf(problem.y[1:]).sum(), rtol=1e-12)

    def test_beyond_help_from_the_failing_point_on(self):
        problem = Problem("LIN0 x LIN0")
        expected, _ = problem.prefixes([4, 8])
        problem.x[0, 8] = 1e90  # its variance overflows
        out, counts = problem.prefixes([4, 8, 9, 12])
        assert counts == [2, 1]
        np.testing.assert_allclose(out[:2], expected, rtol=1e-12)
        assert out[2:].tolist() == [-math.inf, -math.inf]
        _, counts = problem.prefixes([4, 8])
        assert counts == [1, 0]

    # The square of the first overflows; of the second, what later targets are compared with.
    @pytest.mark.parametrize("target", [1e200, 1e308])
    def test_overflowing_density_is_zero_likelihood(self, target):
        problem = Problem("SE0")
        problem.log_noise = -10.0
        problem.y[5] = target
        prefixes, counts = problem.prefixes([5, 12])
        k = problem.kernel_matrix() + math.exp(-10.0) * np.eye(12)
        assert prefixes[0] == pytest.approx(normal_log_density(problem.y[:5], k), rel=1e-9)
        assert prefixes[1] == -math.inf
        assert counts == [1, 0]
        assert_no_gradient(problem)

    @pytest.mark.parametrize("sequential", [False, True])
    @pytest.mark.parametrize("nested", [True, False])
    def test_other_targets_fail_at_the_same_place(self, nested, sequential):
        problem = Problem("LIN0 x LIN0")
        y = np.random.default_rng(6).normal(size=(3, 12))
        if nested:
            y[:] = y[0]
        expected, _ = problem.prefixes([4, 8, 12], y, nested, sequential)
        problem.x[0, 8] = 1e90
        out, _ = problem.prefixes([4, 8, 12], y, nested, sequential)
        np.testing.assert_allclose(out[:2], expected[:2], rtol=1e-12)
        assert out[2] == -math.inf


class TestRange:
    NAMES = ("LIN0.amplitude", "SE0.lengthscale", "noise")

    def problem(self, name, value):
        problem = Problem("LIN0 + SE0")
        if name == "noise":
            problem.log_noise = value
        else:
            problem.h[problem.place(name)] = value
        return problem

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("value", [LARGEST_LOG + 1, -LARGEST_LOG - 1, math.inf, math.nan])
    def test_logs_out_of_range_have_zero_likelihood(self, name, value):
        problem = self.problem(name, value)
        out, counts = problem.prefixes([5, 12])
        assert out.tolist() == [-math.inf, -math.inf]
        assert counts == [0, 1]

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("value", [-LARGEST_LOG, LARGEST_LOG])
    def test_logs_at_the_limits_are_tried(self, name, value):
        problem = self.problem(name, value)
        out, (tried, failed) = problem.prefixes([5])
        k = problem.kernel_matrix() + math.exp(problem.log_noise) * np.eye(12)
        if (name, value) == ("LIN0.amplitude", LARGEST_LOG):
            # The covariance has rank one; targets are zero next to its jitter.
            variances = [k[0, 0], *4 * [JITTER * k[1, 1]]]
            expected = norm(0, np.sqrt(variances)).logpdf(0).sum()
            assert (tried, failed) == (2, 0)
        else:
            expected = normal_log_density(problem.y[:5], k)
            assert (tried, failed) == (1, 0)
        assert out[0] == pytest.approx(expected, rel=1e-8)

    @pytest.mark.parametrize(
        ("shift", "tried"), [(-101.0, 1), (1e3, 1), (math.nan, 0), (-math.inf, 0), (1e13, 0)]
    )
    def test_shifts_are_no_logs(self, shift, tried):
        _, counts = self.problem("LIN0.shift", shift).prefixes([5, 12])
        assert counts[0] == tried

    def test_gradient_has_none_either(self):
        for name, value in product(self.NAMES, [LARGEST_LOG + 1, math.nan]):
            assert_no_gradient(self.problem(name, value))


class TestGradient:
    @pytest.mark.parametrize("text", ["WHITE", *(f"{n}1" for n in NAMES), *PAIRS, *LONGER])
    def test_against_differences(self, text):
        problem = Problem(text)
        weights = np.random.default_rng(7).uniform(0, 3, 12)
        total, gradient = problem.gradient(weights)
        np.testing.assert_allclose(total, weights @ problem.conditionals(), rtol=1e-10)

        def slope(coordinate):
            def central(step):
                up, down = (
                    problem.moved(coordinate, s).gradient(weights)[0] for s in (step, -step)
                )
                return (up - down) / (2 * step)

            coarse, middle, fine = central(0.006), central(0.003), central(0.0015)
            return (64 * fine - 20 * middle + coarse) / 45  # Richardson: error of order step^6

        slopes = [slope(coordinate) for coordinate in range(len(problem.places) + 1)]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-8, atol=1e-9)

    def test_adds_at_active_places_only(self):
        problem, weights = Problem("LIN0 x PER1 + SE2"), np.ones(12)
        _, alone = problem.gradient(weights)
        out = np.full(len(problem.h) + 1, 3.0)
        problem.gradient(weights, out)
        np.testing.assert_allclose(out[[*problem.places, -1]], alone + 3.0, rtol=1e-12)
        outside = np.setdiff1d(np.arange(len(problem.h)), problem.places)
        assert len(outside) > 0
        assert (out[outside] == 3.0).all()

    def test_not_positive_definite(self):
        problem = Problem("LIN0 x LIN0")
        problem.x[0, 8] = 1e90
        assert_no_gradient(problem)

    def test_agrees_with_the_prefixes_where_jitter_helps(self):
        problem = TestNotPositiveDefinite().duplicated()
        total, _ = problem.gradient(np.ones(12))
        out, _ = problem.prefixes([12])
        assert total == pytest.approx(out[0], rel=1e-12)
        # What repeats the first six points says nothing on the kernel's values.
        problem.y[6:] = problem.y[:6]
        _, gradient = problem.gradient(np.ones(12))
        _, expected = problem.gradient((np.arange(12) < 6).astype(float))
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-12)


def test_compositions_are_data_and_compile_nothing():
    def evaluate(text):
        problem = Problem(text)
        problem.prefixes([5, 12])
        problem.gradient(np.ones(12))
        covariance(*problem.code[:-1], problem.x, np.empty((12, 12)), np.empty((12, 12)))

    def compiled():
        functions = prefix_log_likelihood, weighted_gradient, covariance
        return kernels(), [f.entry.signatures for f in functions]

    evaluate("SE0")
    before = compiled()
    assert all(before[1])
    for text in ("WHITE", *PAIRS, *LONGER):
        evaluate(text)
    assert compiled() == before
