import numpy as np
import pytensor.tensor as pt
import pytest

from kem_pymc.kernels.base import BaseKernel, base_kernels
from kem_pymc.kernels.checking import check_kernel
from tests.refusals import refused


@pytest.mark.parametrize("name", ["RQ", "CAT", "PS"])
def test_built_in_kernels_pass(name):
    found = check_kernel(name)
    assert found.asymmetry == 0
    assert found.least_eigenvalue > -1e-12
    assert found.gradient_error < 1e-6
    assert found.loop_error < 1e-12


def squared_spikes(x, z, lengthscale, period):
    # PS with the squared distance isn't periodic, nor positive semi-definite.
    angle = 2 * np.pi * pt.sqr(x - z) / period
    return pt.cos(pt.sin(angle)) * pt.exp((pt.cos(angle) - 1) / pt.sqr(lengthscale))


def wrong_slope(x, z, lengthscale):
    # The gradient doesn't see that the second factor grows with the lengthscale.
    constant = pt.floor(1e9 * lengthscale) / 1e9
    return pt.exp(-0.5 * pt.sqr((x - z) / lengthscale)) * constant


@pytest.mark.parametrize(
    ("hyperparameters", "expression", "complaint"),
    [
        ((), lambda x, z: x - z, "isn't symmetric"),
        (("shift",), lambda x, z, c: -pt.exp(-pt.abs(x - z)) + 0 * c, "positive semi-definite"),
        (("shift",), lambda x, z, c: pt.minimum(x - c, z - c), "positive semi-definite"),
        ((), lambda x, z: pt.sqrt(x * z), "no finite value at x = -1.3"),
        (("mixture",), lambda x, z, a: pt.abs(x - z) ** a / pt.abs(x - z), "no finite value"),
        (("lengthscale", "period"), squared_spikes, "positive semi-definite"),
        (("lengthscale",), wrong_slope, "differs from finite differences"),
    ],
)
def test_what_is_wrong(hyperparameters, expression, complaint):
    refused(lambda: check_kernel(BaseKernel("MINE", hyperparameters, expression)), complaint)


def test_elementwise_functions_only():
    total = BaseKernel("MINE", (), lambda x, z: pt.cumsum(x) * pt.cumsum(z))
    refused(lambda: check_kernel(total), "not elementwise")


def test_on_the_range_of_the_data():
    before = base_kernels()
    brownian = BaseKernel("MINE", (), lambda x, z: pt.minimum(x, z))
    refused(lambda: check_kernel(brownian), "positive semi-definite")
    assert check_kernel(brownian, x=np.linspace(0, 1, 12)).least_eigenvalue >= 0
    assert base_kernels() == before  # it needn't be registered
    refused(lambda: check_kernel("MINE"), "'MINE'")


def test_values_that_are_tried():
    barely = BaseKernel("MINE", ("shift",), lambda x, z, c: pt.exp(-pt.abs(x - z)) * (1 - c))
    refused(lambda: check_kernel(barely), "shift 2")
    check_kernel(barely, {"shift": [0.5, 0.9]})
    refused(lambda: check_kernel(barely, {"width": [1.0]}), "'width'")


def test_kinds_of_ones_own():
    def gate(x, z, location, width):
        return pt.sigmoid((x - location) / width) * pt.sigmoid((z - location) / width)

    kernel = BaseKernel("GATE", ("location", "width"), gate, real=("location",))
    assert check_kernel(kernel).gradient_error < 1e-5
    assert check_kernel(kernel, {"location": [-7.0]}).loop_error < 1e-10
