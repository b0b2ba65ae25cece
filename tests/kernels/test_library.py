import numpy as np
import pytensor.tensor as pt
import pytest

from kem_pymc.gp.likelihood import Data, prefix_log_likelihood, weighted_gradient
from kem_pymc.kernels.base import (
    BaseKernel,
    base_kernels,
    category_offset,
    register_kernel,
)
from kem_pymc.kernels.library import ADD, MULTIPLY, SET, kernels
from kem_pymc.kernels.pool import CandidatePool
from tests.gp.problems import NOTHING

# Written out again in NumPy, so that hyperparameters may be complex: the imaginary part of a
# function at h + i s, divided by a tiny s, is its derivative to machine precision.
CLOSED_FORMS = {
    "LIN": lambda x, z, c: (x - c) * (z - c),
    "PER": lambda x, z, ls, p: np.exp(-2 * np.sin(np.pi * np.abs(x - z) / p) ** 2 / ls**2),
    "SE": lambda x, z, ls: np.exp(-((x - z) ** 2) / (2 * ls**2)),
    "RQ": lambda x, z, ls, a: np.exp(-a * np.log1p((x - z) ** 2 / (2 * a * ls**2))),
    "MATERN32": lambda x, z, ls: (
        (1 + np.sqrt(3) * np.abs(x - z) / ls) * np.exp(-np.sqrt(3) * np.abs(x - z) / ls)
    ),
    "MATERN52": lambda x, z, ls: (
        (1 + np.sqrt(5) * np.abs(x - z) / ls + 5 * (x - z) ** 2 / (3 * ls**2))
        * np.exp(-np.sqrt(5) * np.abs(x - z) / ls)
    ),
    "CAT": lambda x, z: np.vectorize(categories)(x, z),
    "PS": lambda x, z, ls, p: (
        np.cos(np.sin(2 * np.pi * (x - z) / p))
        * np.exp((np.cos(2 * np.pi * (x - z) / p) - 1) / ls**2)
    ),
    "MATERN12": lambda x, z, ls: np.exp(-np.abs(x - z) / ls),
}
HYPERPARAMETERS = {
    "LIN": [[-0.7], [0.0], [12.5]],
    "PER": [[0.8, 5.0], [3.0, 0.21], [0.05, 40.0]],
    "SE": [[1.0], [0.03], [50.0]],
    "RQ": [[1.0, 1.0], [0.2, 0.05], [3.0, 400.0]],
    "MATERN32": [[1.0], [0.03], [50.0]],
    "MATERN52": [[1.0], [0.03], [50.0]],
    "CAT": [[]],
    "PS": [[0.8, 5.0], [3.0, 0.21], [0.15, 40.0]],
    "MATERN12": [[1.0], [0.03], [50.0]],
}
CASES = [(name, h) for name, rows in HYPERPARAMETERS.items() for h in rows]

# A point, one next to it, itself again, and far away.
X = np.array([0.3, 0.3 + 1e-9, 0.3, 1.7, -2.0, 19.0, 250.0])
Z = np.array([0.3, -4.0, 90.0])

each_case = pytest.mark.parametrize(("name", "h"), CASES)


def categories(x, z):
    (one, count), (other, count_z) = (
        (np.floor(v + 0.5), round(1 / (v + 0.5 - np.floor(v + 0.5)))) for v in (x, z)
    )
    if (one, count) == (other, count_z):
        return 1.0
    known = count == count_z and min(one, other) >= 0 and max(one, other) < count
    return -1 / (count - 1) if known else 0.0


@pytest.mark.parametrize("count", [2, 3, 4, 7, 30])
def test_categories_sum_to_zero_and_others_are_strangers(count):
    """Fails where the kernel mistakes how many levels there are, or a new one for one of them."""
    x = np.append(np.arange(count), [-1, -2]) + category_offset(count)
    k = np.ones((len(x), len(x)))
    kernels().cross(code("CAT"), x, x, np.empty(0), k)
    np.testing.assert_allclose(k[:count, :count].sum(axis=0), 0, atol=1e-12)
    np.testing.assert_array_equal(k[count:], np.eye(count + 2)[count:])
    np.testing.assert_array_equal(k.diagonal(), 1)


def code(name):
    return [k.name for k in base_kernels()].index(name)


def test_every_base_kernel_is_tested():
    assert list(CLOSED_FORMS) == [k.name for k in base_kernels()]


@each_case
@pytest.mark.parametrize(
    ("how", "combined"), [(SET, lambda _, k: k), (ADD, np.add), (MULTIPLY, np.multiply)]
)
def test_fill_changes_the_upper_triangle(name, h, how, combined):
    before = np.random.default_rng(1).normal(size=(len(X), len(X)))
    out = before.copy()
    kernels().fill(code(name), X, np.array(h), 0.7, how, out)
    own = 0.7 * CLOSED_FORMS[name](X[:, None], X, *h)
    expected = np.tril(before, -1) + np.triu(combined(before, own))
    np.testing.assert_allclose(out, expected, rtol=1e-10, atol=0)


@each_case
def test_cross_multiplies_all(name, h):
    before = np.random.default_rng(2).normal(size=(len(X), len(Z)))
    out = before.copy()
    kernels().cross(code(name), X, Z, np.array(h), out)
    expected = before * CLOSED_FORMS[name](X[:, None], Z, *h)
    np.testing.assert_allclose(out, expected, rtol=1e-10, atol=0)


@each_case
def test_gradient_adds_the_weighted_derivatives_of_the_upper_triangle(name, h):
    weights = np.random.default_rng(3).normal(size=(len(X), len(X)))
    expected = np.full(len(h) + 1, 10.0)
    expected[-1] += np.sum(np.triu(weights * CLOSED_FORMS[name](X[:, None], X, *h)))
    for p in range(len(h)):
        moved = np.array(h, dtype=complex)
        moved[p] += 1e-30j
        slope = CLOSED_FORMS[name](X[:, None], X, *moved).imag / 1e-30
        expected[p] += np.sum(np.triu(weights * slope))
    out = np.full(len(h) + 1, 10.0)
    kernels().gradient(code(name), X, np.array(h), weights, out)
    np.testing.assert_allclose(out, expected, rtol=1e-10)


def test_far_apart_and_tiny_lengthscales_vanish_without_nan():
    far = np.array([0.0, 1e6])
    for name in ("SE", "MATERN12", "MATERN32", "MATERN52"):
        out, slope = np.ones((2, 2)), np.zeros(2)
        kernels().fill(code(name), far, np.array([1e-40]), 1.0, MULTIPLY, out)
        kernels().gradient(code(name), far, np.array([1e-40]), np.ones((2, 2)), slope)
        assert out.tolist() == [[1.0, 0.0], [1.0, 1.0]]
        assert slope.tolist() == [0.0, 2.0]


class TestRegistered:
    @pytest.mark.usefixtures("few", "cosine")
    def test_works_in_pool_likelihood_and_gradient(self):
        pool = CandidatePool(["SE0", "COS0 x SE1"], 2)
        rng = np.random.default_rng(4)
        x, y = rng.normal(size=(2, 5)), rng.normal(size=5)
        h = pool.unconstrained(
            {
                "COS0 x SE1.amplitude": 1.5,
                "COS0 x SE1.COS0.period": 2.0,
                "COS0 x SE1.SE1.lengthscale": 0.7,
            }
        )
        noise = 0.3

        def log_likelihood(period):
            d = x[:, :, None] - x[:, None, :]
            k = 1.5 * np.cos(2 * np.pi * d[0] / period) * np.exp(-0.5 * (d[1] / 0.7) ** 2)
            k = k + noise * np.eye(5)
            quadratic = y @ np.linalg.solve(k, y)
            return -0.5 * (quadratic + np.log(np.linalg.det(k)) + 5 * np.log(2 * np.pi))

        code = kernels(), pool.layout, np.array([1]), h, np.log(noise)
        data = Data(x[None], y[None, None], np.array([[5]]), np.array([1]), True)
        out, counts = np.empty(1), np.zeros(2, dtype=np.int64)
        prefix_log_likelihood(*code, data, 0, 1, out, counts)
        np.testing.assert_allclose(out[0], log_likelihood(2.0), rtol=1e-12)

        gradient = np.zeros(len(h) + 1)
        total = weighted_gradient(*code, x, y, np.ones(5), *NOTHING, gradient, counts)
        assert total == pytest.approx(out[0], rel=1e-12)
        slope = log_likelihood(2.0 * np.exp(1e-30j)).imag / 1e-30
        np.testing.assert_allclose(gradient[pool.layout.factor_hyper[1]], slope, rtol=1e-10)

    @pytest.mark.usefixtures("empty_registry")
    @pytest.mark.parametrize(
        "expression",
        [
            lambda *_: 2,
            lambda x, z: pt.switch(pt.abs(x - z) < 100, 2, 0),
        ],
    )
    def test_expression_need_not_be_a_float_of_its_arguments(self, expression):
        register_kernel(BaseKernel("TWO", (), expression))
        out = np.ones((1, 1))
        kernels().cross(0, np.array([0.0]), np.array([1.0]), np.empty(0), out)
        assert out[0, 0] == 2.0

    @pytest.mark.usefixtures("empty_registry")
    def test_derivative_of_an_indicator_is_zero(self):
        register_kernel(BaseKernel("NEAR", ("lengthscale",), lambda x, z, ls: pt.abs(x - z) <= ls))
        out, slope = np.ones((7, 7)), np.zeros(2)
        kernels().fill(0, X, np.array([1.5]), 1.0, SET, out)
        assert out[0].tolist() == [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
        kernels().gradient(0, X, np.array([1.5]), np.ones((7, 7)), slope)
        assert slope.tolist() == [0.0, np.triu(abs(X[:, None] - X) <= 1.5).sum()]
