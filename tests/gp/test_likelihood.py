import math
from itertools import combinations_with_replacement, islice, product

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kem_pymc.gp.likelihood import (
    JITTER,
    LARGEST_LOG,
    Data,
    as_active,
    covariance,
    prefix_log_likelihood,
    weighted_gradient,
)
from kem_pymc.kernels.base import base_kernel, base_kernels
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.library import kernels
from kem_pymc.kernels.pool import CandidatePool

NOTHING = np.empty((0, 0))  # that users share

NAMES = [k.name for k in base_kernels()]
PAIRS = [
    text
    for one, other in combinations_with_replacement(NAMES, 2)
    for text in (f"{one}0 + {other}1", f"{one}0 x {other}0", f"{one}0 x {other}1")
]
LONGER = [
    "CONST",
    "CONST + LIN1",
    "CONST + SE0 + LIN0 x PER1 + RQ2",
    "ARD",
    "LIN0 x PER1 x SE2",
    "SE0 x SE0 x SE0",
    "RQ2 x MATERN321 x MATERN520",
    "LIN0 + LIN0 x LIN0 + PER1 + LIN0 x PER1 x SE2 + ARD",
]


class Problem:
    """A composition with hyperparameters, next to others in one pool, and data of one user."""

    def __init__(self, text, points=12, seed=0, dimension=3):
        rng = np.random.default_rng(seed)
        self.composition = Composition.parse(text, dimension)
        # One candidate more on each side: what isn't in must not count, whatever its values.
        outside = [c for c in ("PER2", "RQ0 x RQ1") if Composition.parse(c) - self.composition]
        candidates = [outside[0], *self.composition, *outside[1:]]
        self.pool = CandidatePool(candidates, dimension)
        self.inclusion = self.pool.inclusion(self.composition)
        self.active = as_active(self.inclusion)
        self.places = np.flatnonzero(self.pool.active(self.inclusion))
        self.h = np.full(len(self.pool.hyperparameters), np.nan)
        self.h[self.places] = rng.normal(0, 0.5, len(self.places))
        for place in self.places:  # periods as long as the inputs' range
            if self.pool.hyperparameters[place].kind == "period":
                self.h[place] += math.log(4)
        self.log_noise = rng.normal(-1, 0.2)
        self.x = rng.uniform(-2, 2, (dimension, points))
        self.y = rng.normal(size=points)

    def place(self, name):
        return [h.name for h in self.pool.hyperparameters].index(name)

    @property
    def code(self):
        return kernels(), self.pool.layout, self.active, self.h, self.log_noise

    def kernel_matrix(self):
        """The covariance (n, n) without noise, factor by factor from values by name."""
        n = self.x.shape[1]
        values = self.pool.named(self.h, self.composition)
        total = np.zeros((n, n))
        for candidate in self.composition:
            own = iter([values[h.name] for h in candidate.hyperparameters])
            term = np.full((n, n), next(own))
            for factor in candidate.factors:
                kernel = base_kernel(factor.base)
                h = np.array([*islice(own, len(kernel.hyperparameters))])
                x = self.x[factor.dimension]
                kernels().cross(base_kernels().index(kernel), x, x, h, term)
            total += term
        return total

    def conditionals(self):
        """Log density of each target given those before it, (n,)."""
        k = self.kernel_matrix() + math.exp(self.log_noise) * np.eye(len(self.y))
        prefixes = [normal_log_density(self.y[:n], k) for n in range(1, len(self.y) + 1)]
        return np.diff(prefixes, prepend=0.0)

    def gradient(self, weights, out=None):
        """Weighted log likelihood, its gradient with respect to (active places, log noise)."""
        out = np.zeros(len(self.h) + 1) if out is None else out
        counts = np.zeros(2, dtype=np.int64)
        total = weighted_gradient(*self.code, self.x, self.y, weights, NOTHING, out, counts)
        return total, out[[*self.places, -1]]

    def moved(self, coordinate, by):
        """The weighted log likelihood's argument moved along one of the gradient's coordinates."""
        other = object.__new__(Problem)
        other.__dict__ |= self.__dict__ | {"h": self.h.copy()}
        if coordinate == len(self.places):
            other.log_noise += by
        else:
            other.h[self.places[coordinate]] += by
        return other

    def prefixes(self, ends, y=None, nested=True, sequential=False):
        """Log likelihoods of this user's datasets, and the numbers of factorisations."""
        ends = np.array([ends])
        y = np.tile(self.y, (ends.shape[1], 1)) if y is None else y
        data = Data(self.x[None], y[None], ends, np.array([ends.shape[1]]), nested, sequential)
        return log_likelihoods(self, data, 0, ends.shape[1])


def normal_log_density(y, k):
    """Log N(y; 0, leading block of k)."""
    return multivariate_normal.logpdf(y, cov=k[: len(y), : len(y)])


def log_likelihoods(problem, data, user, upto):
    out, counts = np.full(data.ends.shape[1], 7.0), np.zeros(2, dtype=np.int64)
    prefix_log_likelihood(*problem.code, data, user, upto, out, counts)
    return out, counts.tolist()


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


class TestCovariance:
    @pytest.mark.parametrize("text", ["WHITE", *PAIRS, *LONGER])
    def test_sums_products_with_one_amplitude_each(self, text):
        problem = Problem(text)
        out = np.full((12, 12), np.nan)
        covariance(*problem.code[:-1], problem.x, out, np.empty((12, 12)))
        np.testing.assert_allclose(np.triu(out), np.triu(problem.kernel_matrix()), rtol=1e-12)


class TestPrefixes:
    @pytest.mark.parametrize("nested", [True, False])
    @pytest.mark.parametrize("sequential", [False, True])
    @pytest.mark.parametrize("text", ["WHITE", "PER0", "LIN0 x SE1 + MATERN322", *LONGER])
    def test_every_dataset_of_ragged_users(self, text, sequential, nested):
        problem = Problem(text)
        data = ragged(problem, nested, sequential)
        for user, upto in enumerate(data.steps):
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

    def test_white_is_noise_alone(self):
        problem = Problem("WHITE")
        out, _ = problem.prefixes([5, 12])
        variance = math.exp(problem.log_noise)
        each = -0.5 * (problem.y**2 / variance + np.log(2 * np.pi * variance))
        np.testing.assert_allclose(out, [each[:5].sum(), each.sum()], rtol=1e-12)

    @pytest.mark.parametrize("upto", [1, 2, 3])
    def test_a_prefix_does_not_depend_on_what_follows(self, upto):
        problem = Problem("LIN0 x PER1 x SE2")
        whole, _ = problem.prefixes([4, 8, 12])
        part, _ = problem.prefixes([4, 8, 12][:upto])
        np.testing.assert_allclose(part, whole[:upto], rtol=1e-12)


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
        assert np.isfinite(out[1])

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
        assert np.isfinite(prefixes[0])
        assert prefixes[1] == -math.inf
        assert counts == [1, 0]
        assert_no_gradient(problem)

    @pytest.mark.parametrize("sequential", [False, True])
    @pytest.mark.parametrize("nested", [True, False])
    def test_other_targets_fail_at_the_same_place(self, nested, sequential):
        problem = Problem("LIN0 x LIN0")
        problem.x[0, 8] = 1e90
        y = np.random.default_rng(6).normal(size=(3, 12))
        if nested:
            y[:] = y[0]
        out, _ = problem.prefixes([4, 8, 12], y, nested, sequential)
        assert np.isfinite(out).tolist() == [True, True, False]


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
        out, (tried, _) = self.problem(name, value).prefixes([5, 12])
        assert tried > 0
        assert np.isfinite(out[0])

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

    def test_weights_choose_datasets(self):
        problem = Problem("LIN0 x PER1 + SE2")
        first = np.arange(12) < 5
        total, _ = problem.gradient(first + 1.0)
        out, _ = problem.prefixes([5, 12])
        np.testing.assert_allclose(total, out.sum(), rtol=1e-12)

    def test_adds_at_active_places_only(self):
        problem, weights = Problem("LIN0 x PER1 + SE2"), np.ones(12)
        _, alone = problem.gradient(weights)
        out = np.full(len(problem.h) + 1, 3.0)
        problem.gradient(weights, out)
        np.testing.assert_allclose(out[[*problem.places, -1]], alone + 3.0, rtol=1e-12)
        outside = np.setdiff1d(np.arange(len(problem.h)), problem.places)
        assert len(outside) > 0
        assert (out[outside] == 3.0).all()

    def test_points_without_weight_do_not_count(self):
        problem = Problem("LIN0 x PER1 + SE2")
        weights = np.where(np.arange(12) < 8, 1.0, 0.0)
        total, gradient = problem.gradient(weights)
        problem.x = np.ascontiguousarray(problem.x[:, :8])
        problem.y = problem.y[:8]
        short, expected = problem.gradient(weights[:8])
        assert total == pytest.approx(short, rel=1e-12)
        np.testing.assert_allclose(gradient, expected, rtol=1e-9)

    def test_not_positive_definite(self):
        problem = Problem("LIN0 x LIN0")
        problem.x[0, 8] = 1e90
        out, counts = np.full(len(problem.h) + 1, 3.0), np.zeros(2, dtype=np.int64)
        total = weighted_gradient(
            *problem.code, problem.x, problem.y, np.ones(12), NOTHING, out, counts
        )
        assert total == -math.inf
        assert counts.tolist() == [2, 1]
        assert (out == 3.0).all()

    def test_agrees_with_the_prefixes_where_jitter_helps(self):
        problem = TestNotPositiveDefinite().duplicated()
        total, gradient = problem.gradient(np.ones(12))
        out, _ = problem.prefixes([12])
        assert total == pytest.approx(out[0], rel=1e-12)
        assert np.isfinite(gradient).all()


def test_compositions_are_data_and_compile_nothing():
    def evaluate(text):
        problem = Problem(text)
        problem.prefixes([5, 12])
        problem.gradient(np.ones(12))

    def compiled():
        functions = prefix_log_likelihood, weighted_gradient, covariance
        return kernels(), [f.entry.signatures for f in functions]

    evaluate("SE0")
    before = compiled()
    assert all(before[1])
    for text in ("WHITE", *PAIRS, *LONGER):
        evaluate(text)
    assert compiled() == before


def test_as_active():
    active = as_active(np.array([True, False, True]))
    assert active.dtype == np.int64
    assert active.tolist() == [0, 2]
