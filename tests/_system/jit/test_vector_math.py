import math

import numba
import numpy as np
import pytensor.tensor as pt
import pytest
from scipy.special import cosdg, sindg

from kem_pymc._system.jit import vector_math
from kem_pymc._system.jit.decorators import pointer, scalar_function, types

VECTOR = types.float64[::1]
OPERATIONS = {"exp": pt.exp, "log1p": pt.log1p, "sin": pt.sin, "cos": pt.cos}


@pytest.fixture(scope="module")
def functions():
    """The functions, of arrays, as kernels and priors get them: lowered from PyTensor."""
    made = {}
    for name, operation in OPERATIONS.items():
        x = pt.dscalar("x")
        lowered, key = scalar_function([x], [operation(x)], name)
        source = "def f(x, out):\n    for i in range(x.shape[0]): out[i] = g(x[i])"
        call = pointer(source, "f", types.void(VECTOR, VECTOR), {"g": lowered}, key)

        def of(values, call=call):
            values = np.atleast_1d(np.array(values, dtype=np.float64))
            out = np.empty_like(values)
            call(values, out)
            return out

        made[name] = of
    return made


def units(values, exact):
    """Errors in units in the last place, of values beside ones of higher precision."""
    return np.abs((values - exact) / np.spacing(np.abs(exact).astype(np.float64))).max()


@pytest.mark.parametrize("bound", [0.4, 5, 700])
def test_exp_to_one_unit_in_the_last_place(functions, bound):
    x = np.random.default_rng(0).uniform(-bound, bound, 20_000)
    assert units(functions["exp"](x), np.exp(x.astype(np.longdouble))) < 1


@pytest.mark.parametrize("bound", [-0.9999, -0.5, 1e-12, 0.4, 3.0, 100.0, 1e15, 1e300])
def test_log1p_to_one_unit_in_the_last_place(functions, bound):
    x = bound * np.random.default_rng(2).uniform(0, 1, 20_000)
    assert units(functions["log1p"](x), np.log1p(x.astype(np.longdouble))) < 1


def test_log_to_one_unit_in_the_last_place():
    """Evolved kernels call it from compiled code, where it is the logarithm of powers."""
    x = np.exp(np.random.default_rng(3).uniform(-700, 700, 20_000))
    x = np.concatenate([x, np.random.default_rng(4).uniform(0.5, 2, 20_000)])

    @numba.njit(error_model="numpy")
    def loop(x, out):
        for i in range(x.shape[0]):
            out[i] = vector_math.log(x[i])

    out = np.empty_like(x)
    loop(x, out)
    assert units(out, np.log(x.astype(np.longdouble))) < 1
    ends = np.array([0.0, -0.0, -1.0, 1.0, 1e308, np.inf, np.nan])
    loop(ends, out)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.testing.assert_allclose(out[: len(ends)], np.log(ends), rtol=3e-16)


@pytest.mark.parametrize("bound", [1.6, 100, 1e6, 1e12])
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sine_and_cosine_to_three_units_in_the_last_place(functions, name, bound):
    x = np.random.default_rng(1).uniform(-bound, bound, 20_000)
    exact = getattr(np, name)(x.astype(np.longdouble))
    assert units(functions[name](x), exact) < 3


def test_exact_where_kernels_need_it(functions):
    """A kernel's variance is that of two equal points."""
    assert functions["exp"]([0.0, -0.0]).tolist() == [1.0, 1.0]
    assert functions["log1p"]([0.0, -0.0]).tolist() == [0.0, 0.0]
    assert functions["sin"]([0.0]).tolist() == [0.0]
    assert functions["cos"]([0.0]).tolist() == [1.0]


def test_half_turns(functions):
    turns = np.arange(-6, 7) * 90.0
    np.testing.assert_allclose(functions["sin"](np.radians(turns)), sindg(turns), atol=2e-15)
    np.testing.assert_allclose(functions["cos"](np.radians(turns)), cosdg(turns), atol=2e-15)


def test_ends_of_the_range(functions):
    x = [-np.inf, -1e300, -708.6, -708.0, 709.7, 709.8, 1e300, np.inf, np.nan]
    expected = [0.0, 0.0, 0.0, math.exp(-708), math.exp(709.7), np.inf, np.inf, np.inf, np.nan]
    np.testing.assert_allclose(functions["exp"](x), expected, rtol=3e-16)
    x = [-np.inf, -1.1, -1.0, np.nextafter(-1, 0), 5e-324, 1e308, np.inf, np.nan]
    with np.errstate(divide="ignore", invalid="ignore"):
        np.testing.assert_allclose(functions["log1p"](x), np.log1p(x), rtol=3e-16)
    large = [2.0**50, -1e300]
    assert functions["sin"](large).tolist() == [0.0, 0.0]
    assert functions["cos"](large).tolist() == [1.0, 1.0]
    for name in ("sin", "cos"):
        assert np.isnan(functions[name]([np.nan, np.inf, -np.inf])).all()


def test_loops_treat_several_numbers_at_once():
    """Else a covariance matrix takes five times as long."""

    @numba.njit(error_model="numpy")
    def loop(x, out):
        for i in range(x.shape[0]):
            out[i] = vector_math.exp(x[i]) + vector_math.log1p(x[i])
            out[i] += vector_math.sin(x[i]) + vector_math.cos(x[i])

    loop(np.zeros(3), np.empty(3))
    ((_, code),) = loop.inspect_llvm().items()
    assert " x double> @llvm.fma" in code
